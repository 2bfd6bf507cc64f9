import asyncio
import contextvars
import json
import logging
from typing import Any

import pytest

from spindle_operator.main import QUIET
from spindle_shared import logs


@pytest.fixture(autouse=True)
def root_logger() -> Any:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


def fail() -> None:
    try:
        int("bad")
    except ValueError:
        logging.getLogger("spindle.test").exception("it failed for %s", "demo")


def test_a_line_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=False, quiet=QUIET)
    fail()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("Z error    it failed for demo")
    assert lines[-1] == "ValueError: invalid literal for int() with base 10: 'bad'"


def test_json_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=True, quiet=QUIET)
    fail()
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["level"], entry["logger"]) == (
        "it failed for demo",
        "error",
        "spindle.test",
    )
    assert "ValueError: invalid literal for int() with base 10: 'bad'" in entry["exception"]


def test_the_libraries_chatter_is_off(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=False, quiet=QUIET)
    logging.getLogger("kopf.objects").info("Handler succeeded")
    logging.getLogger("kafka.net.manager").error("Connection failed")
    assert capsys.readouterr().err == ""


def test_nothing_that_somebody_else_wrote_looks_like_a_line_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.set_up(as_json=False, quiet=QUIET)
    logging.getLogger("spindle.test").warning(
        "it asks for %s", "x\n2026-01-01T00:00:00Z info     all is well\x1b[2K\u2028"
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("x\\n2026-01-01T00:00:00Z info     all is well\\x1b[2K\\u2028")


@pytest.mark.parametrize("as_json", [True, False])
def test_no_log_steers_a_terminal(capsys: pytest.CaptureFixture[str], *, as_json: bool) -> None:
    logs.set_up(as_json=as_json, quiet={})
    logging.getLogger("spindle.test").warning("it says %s", "\x1b[2J\x9b31m\x7f\u202ex\u2028\rall is well")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert "all is well" in line


def told(text: str) -> None:
    logging.getLogger("spindle.test").warning(text)


@pytest.mark.parametrize("as_json", [True, False])
async def test_the_lines_of_a_pass_have_its_id_and_no_others(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    logs.set_up(as_json=as_json, quiet={})

    async def one(name: str) -> None:
        logs.begin_pass()
        told(f"{name} begins")
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(
            None, contextvars.copy_context().run, told, f"{name} ends"
        )

    await asyncio.gather(*(asyncio.create_task(one(name)) for name in "ab"))
    told("no pass")

    found: dict[str, set[str]] = {}
    for line in capsys.readouterr().err.splitlines():
        begin, _, rest = line.partition("[")
        entry = json.loads(line) if as_json else {"event": line, **({"pass": rest[:8]} if rest else {})}
        assert as_json or begin.endswith("warning  " if rest else "no pass")
        found.setdefault(entry.get("pass", ""), set()).add(
            entry["event"].removesuffix(" begins").removesuffix(" ends")[-1]
        )
    assert sorted(found.values(), key=sorted) == [{"a"}, {"b"}, {"s"}]
    assert found[""] == {"s"}


def test_lines_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(as_json=True, quiet={}, level="warning")
    logging.getLogger("spindle.test").info("not this")
    told("this")
    logs.set_up(as_json=True, quiet={}, level="debug")
    logging.getLogger("spindle.test").debug("and this")

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == [
        "this",
        "and this",
    ]
