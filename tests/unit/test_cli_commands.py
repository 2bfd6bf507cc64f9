"""The table of commands says what the commands themselves say, and each of them can be called."""

import inspect

import pytest
import typer
from typer.testing import CliRunner

from spindle_cli import main
from spindle_cli.command_table import COMMANDS, Entry

RUNNER = CliRunner()


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_a_command_is_there_and_says_what_the_list_says(entry: Entry) -> None:
    done = RUNNER.invoke(main.app, [entry.name, "--help"])

    assert done.exit_code == 0
    assert f"{entry.name} " in done.stdout
    if entry.help:
        said = " ".join((inspect.cleandoc(entry.load().help)).split("\n\n")[0].split())
        assert said == entry.help


def test_the_list_shows_all_but_former_names() -> None:
    shown = RUNNER.invoke(main.app, ["--help"]).stdout
    listed = [line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line[2:3].strip()]
    assert listed == [each.name for each in COMMANDS if each.help]


def test_a_misspelt_command_is_told_the_right_one() -> None:
    done = RUNNER.invoke(main.app, ["statuss"])
    assert done.exit_code == 2
    assert "'status'" in done.stderr


@pytest.mark.parametrize(
    "line",
    ["status -o xml", "disks --width 2", "disks --width wide", "topic create", "status --nothing", "disk"],
)
def test_a_wrong_command_line_stays_wrong(line: str) -> None:
    assert RUNNER.invoke(main.app, line.split()).exit_code == 2


def test_every_group_is_one_also_with_one_command() -> None:
    for entry in COMMANDS:
        if entry.attribute in {"app", "topic"}:
            assert isinstance(entry.load(), typer.core.TyperGroup)
