"""The archive of a support bundle, and the ends of logs in it."""

import errno
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from spindle_cli.kube import Kube, KubeError, NotFoundError
from spindle_cli.support import command
from spindle_cli.support.command import write


def test_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    assert write(path, "a", [("x", b"1"), ("y", b"2")]) == 2
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["a/x", "a/y"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device"), KubeError("gone")]
)
def test_an_archive_that_is_not_finished_is_removed(tmp_path: Path, error: BaseException) -> None:
    def files() -> Iterator[tuple[str, bytes]]:
        yield "x", b"1"
        raise error

    path = tmp_path / "a.tar.gz"
    with pytest.raises(type(error)):
        write(path, "a", files())
    assert not path.exists()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        write(path, "a", [])
    assert path.read_text() == "mine"


# A cluster that does not exist


class FakeKube:
    namespace = "team-a"

    def __init__(self, answer: Exception | None) -> None:
        self.answer = answer

    def one_cluster(self, name: str | None) -> str:
        return name or "demo"

    def raw(self, kind: str, name: str) -> dict[str, Any]:
        assert (kind, name) == ("KafkaCluster", "demo")
        if self.answer is not None:
            raise self.answer
        return {}


@pytest.fixture
def bundles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    def bundle(_: Any, name: str, *__: Any) -> Any:
        made.append(name)
        return SimpleNamespace(files=lambda: [("README.txt", b"x")], problems=[])

    monkeypatch.setattr(command, "Bundle", bundle)
    return made


def run(monkeypatch: pytest.MonkeyPatch, path: Path, answer: Exception | None, *options: str) -> Any:
    monkeypatch.setattr(Kube, "connect", lambda _: FakeKube(answer))
    app = typer.Typer()
    app.command()(command.report)
    return CliRunner().invoke(app, ["demo", "-o", str(path), *options])


def test_a_cluster_that_does_not_exist_has_no_bundle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bundles: list[str]
) -> None:
    path, gone = tmp_path / "a.tar.gz", NotFoundError("there is no kafkacluster demo in namespace team-a")
    done = run(monkeypatch, path, gone)
    assert done.exit_code == 1
    assert "there is no kafkacluster demo in namespace team-a" in done.output
    assert "spindle report demo --deleted" in done.output
    assert not path.exists()
    assert run(monkeypatch, path, gone, "--deleted").exit_code == 0
    assert path.exists()
    assert bundles == ["demo"]


def test_a_cluster_that_cannot_be_read_has_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bundles: list[str]
) -> None:
    for number, answer in enumerate((None, KubeError("forbidden"))):
        assert run(monkeypatch, tmp_path / str(number), answer).exit_code == 0


# The ends of logs


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_long_log_loses_its_oldest_lines(size: int) -> None:
    lines = [b"line %03d\n" % number for number in range(300)]
    whole = b"".join(lines)

    def end(most: int) -> bytes:
        parts = [whole[start : start + size] for start in range(0, len(whole), size)]
        answer = SimpleNamespace(stream=lambda _: iter(parts))
        return Kube.end_of(object.__new__(Kube), "log", answer, most)

    assert end(len(whole)) == whole
    assert end(10**6) == whole
    assert end(90) == b"".join(lines[-10:])
    assert end(95) == b"".join(lines[-10:])
    assert end(89) == b"".join(lines[-9:])
    assert end(5) == b" 299\n"  # a part of the newest is better than nothing
