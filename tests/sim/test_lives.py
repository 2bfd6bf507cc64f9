"""Whole runs: kept ones, and the same one twice."""

import subprocess
import sys
from pathlib import Path

import pytest

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
