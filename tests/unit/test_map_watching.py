"""How the map follows one kind: list, watch, and what it does after errors."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from spindle_cli.disk_map import watching
from spindle_cli.disk_map.watching import Source, Watch
from spindle_cli.kube import Kube, KubeError


class Answer:
    """An answer of the client: a body, or the lines of a watch in pieces."""

    def __init__(self, body: Any = None, pieces: Iterable[bytes] = ()) -> None:
        self.data = json.dumps(body).encode()
        self._pieces = pieces

    def stream(self, _: int) -> Iterator[bytes]:
        yield from self._pieces

    def close(self) -> None:
        pass


def page(*names: str, version: int = 1, more: str = "") -> Answer:
    return Answer(
        {
            "items": [named(name) for name in names],
            "metadata": {"resourceVersion": str(version), "continue": more},
        }
    )


def named(name: str, version: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def line(kind: str, obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class Told:
    """Stands in for the board."""

    def __init__(self) -> None:
        self.news: list[Any] = []

    def replace(self, _: str, found: Iterable[Any]) -> None:
        self.news.append(sorted(each["metadata"]["name"] for each in found))

    def change(self, _: str, obj: Any, *, deleted: bool) -> None:
        self.news.append(("-" if deleted else "+") + obj["metadata"]["name"])

    def trouble(self, _: str, message: str | None) -> None:
        if message:
            self.news.append(message)


class FakeKube:
    """Answers in order; the last one stops the watch."""

    pages, answer, body = Kube.pages, Kube.answer, Kube.body

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.stop: Callable[[], None] = lambda: None

    def ask(self, _what: str, _call: Any, **options: Any) -> Any:
        self.asked.append(options)
        answer = self.answers.pop(0)
        if not self.answers:
            self.stop()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_FIRST_WAIT_S", 0.01)


def follow(*answers: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """What was told, and what was asked."""
    kube, told = FakeKube(*answers), Told()
    watch = Watch(kube, Source("things", lambda: None, ()), told)  # type: ignore[arg-type]  # a stand-in
    kube.stop = watch.stop
    thread = threading.Thread(target=watch.run)
    thread.start()
    thread.join(timeout=10)
    assert not thread.is_alive()
    return told.news, kube.asked


def test_it_lists_page_by_page_and_then_watches_from_there() -> None:
    news, asked = follow(
        page("a", more="next"),
        page("b", version=7),
        Answer(
            pieces=[
                line("ADDED", named("c", 8))[:9],
                line("ADDED", named("c", 8))[9:] + line("DELETED", named("a", 9)),
            ]
        ),
        Answer(),
    )

    assert news == [["a", "b"], "+c", "-a"]
    assert asked[1]["_continue"] == "next"
    assert [each["resource_version"] for each in asked[2:]] == ["7", "9"]


def test_a_bookmark_is_no_change_but_the_next_watch_begins_there() -> None:
    news, asked = follow(page("a"), Answer(pieces=[line("BOOKMARK", named("", 30))]), Answer())

    assert news == [["a"]]
    assert asked[2]["resource_version"] == "30"


def test_watches_that_end_at_once_come_at_longer_and_longer_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []
    wait = threading.Event.wait

    def noted(event: threading.Event, timeout: float | None = None) -> bool:
        if timeout is not None:
            waited.append(timeout)
        return wait(event, 0.001 if timeout else None)

    monkeypatch.setattr(threading.Event, "wait", noted)
    forbidden = [page("a"), KubeError("forbidden")] * 4
    expired = [page("a"), Answer(pieces=[line("ERROR", {"code": 410, "message": "too old"})])] * 3

    follow(*forbidden, *expired, page("a"), Answer())

    assert waited[:7] == pytest.approx([0.01 * 2**each for each in range(7)])


def test_after_a_watch_that_is_too_old_it_lists_again_without_trouble() -> None:
    news, _ = follow(
        page("a"),
        Answer(pieces=[line("ERROR", {"code": 410, "message": "too old"})]),
        page("a", "b"),
        Answer(),
    )

    assert news == [["a"], ["a", "b"]]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        pytest.param(KubeError("forbidden"), "forbidden", id="refused"),
        pytest.param(
            Answer(pieces=[line("ERROR", {"code": 500, "message": "broken"})]),
            "broken",
            id="an-error-in-the-watch",
        ),
        pytest.param(Answer(pieces=[b"no json\n"]), "the watch of things broke", id="not-json"),
        pytest.param(ZeroDivisionError("ours"), "things: ZeroDivisionError: ours", id="a-defect"),
    ],
)
def test_every_other_error_is_told_and_it_lists_again(fault: Any, told: str) -> None:
    news, _ = follow(page("a"), fault, page("b"), Answer())

    assert news[0] == ["a"]
    assert told in news[1]
    assert news[2] == ["b"]
