import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import stages
from tools.stages import Outcome, Stage


def stage(name: str, program: str = "") -> Stage:
    return Stage(name, f"does {name}", (sys.executable, "-c", program))


def test_after_the_first_failure_nothing_more_is_run() -> None:
    chosen = [stage("one"), stage("two", "raise SystemExit(3)"), stage("three"), stage("four")]

    assert [outcome.code for outcome in stages.run_all([[[each]] for each in chosen])] == [0, 3, None, None]


def test_lanes_run_at_the_same_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each of the two waits for a file that the other writes."""
    meet = (
        "import pathlib, sys, time\n"
        "def meet(mine, other):\n"
        "    pathlib.Path(mine).touch()\n"
        "    while not pathlib.Path(other).exists(): time.sleep(0.01)\n"
        "    print('met')\n"
    )
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    lanes = [
        [stage("one", f"{meet}meet({one!r}, {other!r})"), stage("two")],
        [stage("three", f"{meet}meet({other!r}, {one!r})")],
    ]

    assert [(o.stage.name, o.code) for o in stages.run_all([lanes])] == [("one", 0), ("two", 0), ("three", 0)]
    out = capfd.readouterr().out.splitlines()
    assert {"one │ met", "three │ met"} <= set(out)


def test_an_idle_stage_yields_the_cpu_to_those_beside_it(capfd: pytest.CaptureFixture[str]) -> None:
    tell = "import os; print('nice', os.nice(0))"
    before = os.nice(0)
    background = dataclasses.replace(stage("background", tell), idle=True)

    stages.run_all([[[stage("other", tell)], [background]]])
    stages.run_all([[[background]]])  # alone it need not yield

    out = capfd.readouterr().out.splitlines()
    assert {f"other │ nice {before}", "background │ nice 19", f"nice {before}"} <= set(out)


def test_a_failing_lane_lets_the_others_finish_and_starts_nothing_more() -> None:
    lanes = [
        [stage("bad", "raise SystemExit(1)"), stage("after bad")],
        [stage("slow", "import time; time.sleep(0.5)"), stage("after slow")],
    ]

    assert [o.code for o in stages.run_all([lanes, [[stage("next")]]])] == [1, None, 0, None, None]


def test_the_summary_names_the_stage_that_failed() -> None:
    outcomes = [
        Outcome(stage("one"), 1.25, 0),
        Outcome(stage("second"), 2.0, 1),
        Outcome(stage("three"), 0.0, None),
    ]

    assert stages.summary("test", outcomes, 3.0).splitlines()[1:] == [
        "── test",
        "   one     ok           1.2 s",
        "   second  FAILED       2.0 s",
        "   three   not run",
        "── test: FAILED at second, 3 s in all",
    ]


def test_the_summary_names_the_failed_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "REPORTS", tmp_path)
    file = tmp_path / "test_sums.py"
    file.write_text("def test_good(): pass\n\n\ndef test_bad():\n    assert 1 + 1 == 3, 'wrong sum'\n")
    tests = Stage("sums", "adds", (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)))

    outcomes = stages.run_all([[[tests]]])

    lines = stages.summary("test", outcomes, 1.0).splitlines()
    assert lines[2].startswith("   sums  FAILED")
    assert lines[3].endswith("test_sums.test_bad: AssertionError: wrong sum")
    assert len(lines) == 5
    (tmp_path / "sums.xml").write_text("<testsuites><testsuite")  # pytest was killed while it wrote
    assert len(stages.summary("test", outcomes, 1.0).splitlines()) == 4


def test_a_good_run_says_so() -> None:
    assert stages.summary("test", [Outcome(stage("one"), 1.0, 0)], 1.0).endswith(
        "── test: all ok, 1 s in all"
    )


def test_a_stage_that_hangs_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the tests run below a program that ignores interrupts, the stage ignores them too, and is killed.
    monkeypatch.setattr(stages, "LAST_WORDS", 2.0)
    hanging = Stage("hang", "hangs", (sys.executable, "-c", "import time; time.sleep(600)"), minutes=0)

    assert [outcome.code for outcome in stages.run_all([[[hanging]]])] == [124]


def test_every_run_is_made_of_stages_that_exist() -> None:
    known = stages.stages()
    for run in stages.RUNS.values():
        assert set(stages.names(run)) <= known.keys()
    assert set(stages.names(stages.RUNS["test-fast"])) - {"helm"} < set(stages.names(stages.RUNS["test"]))


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
    commands = [stages.stages()[name].command for name in stages.names(stages.RUNS["e2e"])]
    slow = [
        path for path in (stages.ROOT / "tests").glob("*/test_*.py") if "mark." + "slow" in path.read_text()
    ]

    assert slow
    assert any("tests/property" in command and "-m" not in command[3:] for command in commands)
    assert any("tests/release" in command and "slow" in command for command in commands)
    for path in slow:
        if path.parent.name in ("property", "release"):
            continue
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


def test_chosen_stages_run_one_after_the_other_in_the_order_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[list[list[str]]] = []

    def note(steps: Sequence[Sequence[Sequence[Stage]]]) -> list[Outcome]:
        ran.extend([[each.name for each in lane] for lane in step] for step in steps)
        return [Outcome(each, 0.0, 0) for step in steps for lane in step for each in lane]

    monkeypatch.setattr(stages, "run_all", note)

    assert stages.main(["test", "--only", "kube", "kafka", "lint"]) == 0
    assert ran == [[["kube"]], [["kafka"]], [["lint"]]]
