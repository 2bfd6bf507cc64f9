import sys
from pathlib import Path

import pytest

from tools import stages
from tools.stages import Outcome, Stage


def stage(name: str, program: str = "") -> Stage:
    return Stage(name, f"does {name}", (sys.executable, "-c", program))


def test_after_the_first_failure_nothing_more_is_run() -> None:
    chosen = [stage("one"), stage("two", "raise SystemExit(3)"), stage("three"), stage("four")]

    assert [outcome.code for outcome in stages.run_all(chosen)] == [0, 3, None, None]


def test_the_summary_names_the_stage_that_failed() -> None:
    outcomes = [
        Outcome(stage("one"), 1.25, 0),
        Outcome(stage("second"), 2.0, 1),
        Outcome(stage("three"), 0.0, None),
    ]

    assert stages.summary("test", outcomes).splitlines()[1:] == [
        "── test",
        "   one     ok           1.2 s",
        "   second  FAILED       2.0 s",
        "   three   not run",
        "── test: FAILED at second, 3 s in all",
    ]


def test_a_good_run_says_so() -> None:
    assert stages.summary("test", [Outcome(stage("one"), 1.0, 0)]).endswith("── test: all ok, 1 s in all")


def test_a_stage_that_hangs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        stages, "LAST_WORDS", 2.0
    )  # below a program that ignores interrupts, they are ignored
    hanging = Stage("hang", "hangs", (sys.executable, "-c", "import time; time.sleep(600)"), minutes=0)

    assert stages.run(hanging) == 124


def test_every_run_is_made_of_stages_that_exist() -> None:
    known = stages.stages()
    for run in stages.RUNS.values():
        assert set(run) <= known.keys()
    assert set(stages.RUNS["test-fast"]) - {"helm"} < set(stages.RUNS["test"])


REAL = (
    "kafka",
    "kube",
    "spark",
)  # what a test may need; in the folder of that name each test has the marker, or has it by its conftest.py


def needs(path: Path) -> set[str]:
    """What the tests of a file say that they need."""
    given = {path.parent.name} & {"kafka", "spark"}
    return given | {name for name in REAL if f"mark.{name}" in path.read_text()}


def test_every_test_that_needs_something_real_is_run_by_a_stage() -> None:
    folders = [stages.ROOT / "tests" / name for name in (*REAL, "security")]
    files = [path for folder in folders for path in folder.glob("test_*.py")]

    assert [path.name for path in files if not needs(path)] == []


def test_what_is_slow_is_run_by_e2e() -> None:
    commands = [stages.stages()[name].command for name in stages.RUNS["e2e"]]
    slow = [
        path for path in (stages.ROOT / "tests").glob("*/test_*.py") if "mark." + "slow" in path.read_text()
    ]

    assert slow
    for path in slow:
        assert needs(path), path
        for name in needs(path):
            assert any(
                f"tests/{path.parent.name}" in command and f"{name} and slow" in command
                for command in commands
            ), path


def test_an_unknown_stage_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        stages.main(["test", "--only", "nonsense"])
    assert "nonsense" in capsys.readouterr().err


def test_chosen_stages_run_in_the_order_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def note(chosen: Stage) -> int:
        ran.append(chosen.name)
        return 0

    monkeypatch.setattr(stages, "run", note)

    assert stages.main(["test-fast", "--only", "unit", "lint"]) == 0
    assert ran == ["unit", "lint"]
