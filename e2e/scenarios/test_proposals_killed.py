"""The operator is killed at random moments of a proposal's execution: each proposal ends correctly, and no setting of it remains."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from e2e.scenarios.disk_slot import assert_spread, conclude
from e2e.scenarios.lab import Lab, pause
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Killer
from e2e.scenarios.moving import assert_nothing_left
from e2e.scenarios.proposing import (
    FOUR,
    approve,
    assert_landed,
    mates,
    move,
    propose,
    status,
    swapped,
    throttles,
    until_moving,
    until_phase,
)
from e2e.scenarios.stand import Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_KILLS: Final = 20
_SEED: Final = 7


def turned(lab: Lab, running: Load) -> list[dict[str, Any]]:
    """Moves of all replicas on one of two brokers to the other one, and some between disks."""
    one, other = mates(lab)
    placed = running.placement()
    source, target = (one, other) if any(r.broker == one for r in placed) else (other, one)
    across = [
        move(r, target, f"disk{index % 2}")
        for index, r in enumerate(r for r in placed if r.broker == source)
        if not any((p.name, p.broker) == (r.name, target) for p in placed)
    ]
    # One replica of a partition at a time: these belong to other moves, so they wait.
    return [*across, *(swapped(r) for r in placed if r.broker not in (one, other))][: len(across) + 4]


def begin(lab: Lab, running: Load, number: int) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """Execute another proposal."""
    name, moves = f"turn-{number}", turned(lab, running)
    propose(lab, name, moves)
    approve(lab, name)
    until_moving(lab, name, 120)
    return name, moves


def test_kills_at_twenty_moments_of_an_execution(stand: Stand, killer: Killer, spindle_image: str) -> None:
    print(f"seed {_SEED}")
    dice = random.Random(_SEED)
    lab = stand.get(FOUR)
    topic = Topic("killed", partitions=12)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, fill=480) as running:
        began = timeline.mark("the first proposal")
        done: Counter[str] = Counter()
        name, moves = begin(lab, running, 0)
        for _ in range(_KILLS):
            if status(lab, name)["phase"] != "Executing":
                finished(lab, running, name, moves)
                name, moves = begin(lab, running, done.total())
            pause(dice.uniform(0.3, 10.0))
            timeline.mark(f"SIGKILL for the operator, in {name} ({status(lab, name)['outcomes']})")
            done[name] += 1
            killer.kill()
        timeline.mark(f"no more kills: {dict(done)}")
        finished(lab, running, name, moves)
        assert_spread(running)
        conclude(running, timeline, began)


def test_killed_while_a_proposal_is_stopped(stand: Stand, killer: Killer, spindle_image: str) -> None:
    lab = stand.get(FOUR)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("ended", partitions=12), fill=480) as running,
    ):
        began = timeline.mark("a proposal")
        name, _ = begin(lab, running, _KILLS)
        timeline.mark(f"{name} is stopped, and the operator killed")
        lab.spindle("rebalance", "stop", name, "-n", lab.namespace)
        killer.kill()
        stopped = until_phase(lab, name, "Stopped", seconds=120)
        assert stopped["reason"] == "StoppedByUser"
        assert ">" not in stopped["outcomes"]
        until_well(lab)
        assert_nothing_left(running)
        assert not throttles(running)
        assert_spread(running)
        conclude(running, timeline, began)


def finished(lab: Lab, running: Load, name: str, moves: Sequence[Mapping[str, Any]]) -> None:
    """Wait for a proposal's end: all of it is done, and no setting of it remains."""
    found = until_phase(lab, name, "Done", seconds=400)
    assert found["outcomes"] == "+" * len(moves)
    assert_landed(running, moves)
    assert_nothing_left(running)
    lab.until("no throttle is left", lambda: not throttles(running), 60)
