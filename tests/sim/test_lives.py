"""Whole runs: kept ones, and the same one twice."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sim import __main__ as command
from tests.sim import life, story
from tests.sim.kernel import Line

ROOT = Path(__file__).resolve().parents[2]
KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


def _run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "tests.sim", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_two_runs_of_one_life_tell_the_same_story() -> None:
    kept = str(KEPT[0].parent / "operator-killed-often.json")
    one, other = (_run("--kept", kept, "--mark") for _ in range(2))

    assert len(one.stdout.splitlines()) > 50
    assert one.stdout == other.stdout


@pytest.mark.parametrize("kept", KEPT, ids=[path.stem for path in KEPT])
def test_a_kept_life_ends_well(kept: Path) -> None:
    ran = _run("--kept", str(kept), "--brief")

    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]


class _Losing:
    """Runs that lose a record at once."""

    plot = staticmethod(life.plot)

    @staticmethod
    def live(plot: life.Plot) -> life.Outcome:
        told = [Line(12.5, "disk", "disk0 of broker 1 dies", "d7")]
        return life.Outcome(plot.seed, ["(a) 1 acknowledged record is lost"], told, 3, 2, 30.0, plot)


def _answered(seed: int) -> dict[str, Any]:
    """What the process of a run answers."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        command._one(_Losing, story, seed, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(answer)
    return found


def test_failed_runs_of_many_are_reported_with_their_seed_and_the_first_with_their_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        command.Workers, "run", lambda _self, seeds, _until, _least: (_answered(seed) for seed in seeds)
    )

    assert command.main(["--lives", "5", "--start", "7"]) == 1

    said = capsys.readouterr().out
    assert said.count("12.50  disk             disk0 of broker 1 dies  (d7)") == command.STORIES
    assert "run 7 failed: (a) 1 acknowledged record is lost" in said
    assert "life 7: " in said
    assert "5 failed: seeds 7, 8, 9, 10, 11" in said
    assert "python -m tests.sim --seed 7 " in said
