"""Whatever happens to a cluster, its conditions do not contradict each other."""

import contextlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.view import Partition
from tests.examples import examples
from tests.model.dynamic_config import crash
from tests.model.store import ConflictError
from tests.model.world import World

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

EVENTS = st.sampled_from(
    [
        "kill",
        "crash",
        "image",
        "bad",
        "good",
        "pause",
        "resume",
        "stop",
        "start",
        "offline",
        "short",
        "later",
        "",
    ]
)


def happens(world: World, what: str, broker: int) -> None:
    spec, name = world.cluster["spec"], f"demo-broker-{broker}"
    maintenance = world.get("KafkaBroker", name)["spec"].setdefault("maintenance", {})
    if what in ("kill", "crash") and ("Pod", name) in world.objects:
        if what == "kill":
            del world.objects["Pod", name]
        elif world.get("Pod", name)["status"].get("containerStatuses"):
            crash(world, name, times=3)
    elif what == "image":
        spec["image"] = f"mine/kafka:{broker}"
    elif what in ("bad", "good"):
        spec["config"] = {"num.network.threads": "many" if what == "bad" else "4"}
    elif what in ("pause", "resume"):
        spec["paused"] = what == "pause"
    elif what in ("stop", "start"):
        maintenance["stopped"] = what == "stop"
    elif what in ("offline", "short"):
        first, *rest = world.partitions
        in_sync = () if what == "offline" else (broker,)
        world.partitions = (replace(first, isr=in_sync, leader=next(iter(in_sync), None)), *rest)
    elif what == "later":
        world.now += 700


def agree(world: World) -> None:
    found: dict[str, dict[str, Any]] = {c["type"]: c for c in world.cluster["status"]["conditions"]}
    status = {kind: each["status"] for kind, each in found.items()}
    assert not status["Reconciling"] == status["Stalled"] == "True"
    if status["Stalled"] == "True":
        assert status["Ready"] == "False"
        assert (
            found["Stalled"]["reason"] == found["Ready"]["reason"] or found["Ready"]["reason"] == "Starting"
        )
    if status["Ready"] == "True" and not world.cluster["status"].get("takingDown"):
        assert status["Available"] != "False"
        assert status["Reconciling"] == "True" or world.cluster["spec"].get("paused") or _all_ready(world)
    if world.cluster["spec"].get("paused"):
        assert status["Reconciling"] == "False"
    assert {each["observedGeneration"] for each in found.values()} == {
        world.cluster["status"]["observedGeneration"]
    }
    for each in found.values():
        assert each["reason"]
        assert each["status"] in ("True", "False", "Unknown")


def _all_ready(world: World) -> bool:
    return len(world.running("broker")) == 3 and len(world.running("controller")) == 3


@settings(max_examples=examples(15), deadline=None)
@given(events=st.lists(st.tuples(EVENTS, st.integers(0, 2)), min_size=1, max_size=14))
def test_conditions_agree_with_each_other(events: list[tuple[str, int]]) -> None:
    world = World.of()
    world.settle()
    world.partitions = tuple(
        Partition("t", i, r[0], r, r, elr=()) for i, r in enumerate([(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    )
    for event, broker in events:
        happens(world, event, broker)
        with contextlib.suppress(ConflictError):  # the next pass reads again
            world.reconcile()
        agree(world)
        world.breathe()
