"""Each command line on the pages is one that its program takes: Spindle's own are read by their own parsers.

Those of kubectl are tried in ``tests/kube/test_page_commands.py``, those of helm in ``tests/chart/test_page_commands.py``.
"""

import importlib.util
import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from spindle_cli import forecast, main, plan
from spindle_cli.options import context_first
from spindle_rebalance import options
from tests.pages import ROOT, Command, commands

SPINDLE: Final = [
    Command(each.place, each.words[1:] if each.words[0] == "kubectl" else each.words, whole=each.whole)
    for each in commands("spindle", "kubectl")
    if "spindle" in each.words[:2] and each.words[:2] != ("kubectl", "-n")
]
MODULES: Final = [each for each in commands("python", ".venv/bin/python") if each.words[1] == "-m"]
MAKE: Final = commands("make")
# What pages call and this test does not know: programs of others, whose options they check themselves.
OTHERS: Final = {"docker", "skopeo", "sha256sum", "uv", "ssh", "mkfs.xfs", "mount", "export"}


# typer keeps click's exceptions to itself, but for this one, which is a kind of them.
USAGE: Final[Any] = typer.BadParameter.__base__


def parse(program: Any, words: list[str], parent: Any = None) -> None:
    """Read the words as the command does, without running it."""
    context = program.make_context(program.name or "spindle", words, parent=parent)
    rest = [*getattr(context, "_protected_args", ()), *context.args]
    if rest and hasattr(program, "resolve_command"):
        _, found, left = program.resolve_command(context, rest)
        parse(found, left, context)


def complaint(program: Any, command: Command) -> str | None:
    try:
        parse(program, context_first(list(command.words[1:])))
    except typer.Exit:  # --help, --version
        return None
    except USAGE as error:
        if type(error).__name__ in {"MissingParameter", "NoArgsIsHelpError"} and not command.whole:
            return None
        said = str(error.format_message())
        # A file that the reader has and this test has not.
        return None if re.search(r"\.yaml' does not exist", said) else f"{command.place}: {said}"
    return None


def test_command_lines_of_spindle_are_read_by_spindle() -> None:
    program = typer.main.get_command(main.app)

    assert [said for each in SPINDLE if (said := complaint(program, each))] == []
    assert len([each for each in SPINDLE if each.whole]) > 40
    assert len([each for each in SPINDLE if not each.whole]) > 40


@pytest.mark.parametrize(
    ("line", "whole", "wrong"),
    [
        ("spindle status demo", True, False),
        ("spindle statuss demo", True, True),
        ("spindle status demo --nothing", False, True),
        ("spindle broker stop", False, False),
        ("spindle broker stop", True, True),
        ("spindle broker halt", False, True),
        ("spindle disk drain demo-broker-1 disk0 disk1", True, True),
        ("spindle disk drain demo-broker-1 disk0", True, False),
        ("spindle topic create orders --partitions many", True, True),
    ],
)
def test_a_wrong_command_line_is_noticed(line: str, *, whole: bool, wrong: bool) -> None:
    program = typer.main.get_command(main.app)
    assert bool(complaint(program, Command("page:1", tuple(line.split()), whole=whole))) is wrong


def test_command_lines_of_the_planner_are_read_by_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HISTORY.parquet", "CASE"):
        (tmp_path / name).touch()
    for name, module in (("spindle-plan", plan), ("spindle-forecast", forecast)):
        found = commands(name)
        assert found
        program = typer.main.get_command(module.app)
        assert [said for each in found if (said := complaint(program, each))] == []


def test_command_lines_of_the_rebalance_job_are_read_by_it() -> None:
    (found,) = commands("spindle-rebalance")
    (target,) = options.parse(found.words[1:]).targets
    assert (target.namespace, target.cluster) == ("NS", "NAME")


def test_modules_that_pages_start_are_there() -> None:
    assert [each.place for each in MODULES if importlib.util.find_spec(each.words[2]) is None] == []
    assert len(MODULES) > 20


def test_files_that_modules_get_are_there() -> None:
    missing = [
        f"{each.place}: {word}"
        for each in MODULES
        for word in each.words[3:]
        if "/" in word and not (ROOT / word).exists()
    ]
    assert missing == []


def test_targets_of_make_are_there() -> None:
    text = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", text, re.MULTILINE))
    variables = set(re.findall(r"\$[({](?:if \$\()?([A-Z]+)", text))
    unknown = [
        f"{each.place}: {word}"
        for each in MAKE
        for word in each.words[1:]
        if (word.split("=")[0] not in variables if "=" in word else word not in targets)
    ]
    assert unknown == []
    assert len(MAKE) > 40
