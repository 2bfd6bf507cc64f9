"""A pass that uses the results of earlier passes gives the same plan as one without any memory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spindle.planner.planner import known_steps
from spindle.reconcile.plan import plan
from tests.sim import life
from tests.sim.__main__ import hash_seed

ROOT = Path(__file__).resolve().parents[2]


def forget() -> int:
    """Clear every memory of the core; returns how many there are."""
    known_steps.clear()
    found = {
        id(value): value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "spindle"
        for value in vars(module).values()
        if callable(getattr(value, "cache_clear", None))
    }
    for value in found.values():
        value.cache_clear()
    return len(found)


def compare(seed: int) -> tuple[int, int]:
    """Plan each pass of a run with memory, and again without; returns the passes and those that differ."""
    passes: list[bool] = []

    def watch(world: life.World) -> None:
        def decide(snapshot: Any, now: float) -> Any:
            made = plan(snapshot, now)
            kept = dict(known_steps)
            forget()
            passes.append(plan(snapshot, now) == made)  # a result that a caller had changed would differ here
            known_steps.update(kept)  # of all passes; the other memories now hold what this pass computed
            return made

        world.decide = decide

    life.live(life.plot(seed), watch=watch)
    return len(passes), passes.count(False)


@pytest.mark.parametrize("seed", [1, 13])
def test_a_pass_with_memory_equals_one_without(seed: int) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed(seed)}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sim.test_memory", str(seed)],
        cwd=ROOT, capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]


if __name__ == "__main__":
    count, wrong = compare(int(sys.argv[1]))
    print(f"{count} passes, {wrong} differ; {forget()} memories")
    sys.stdout.flush()
    os._exit(1 if wrong or count < 20 else 0)  # killed tasks of the run need no finalisation
