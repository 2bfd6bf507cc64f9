"""Clocks that are off: what is said counts by when it is heard, a clearance by the look that it answers; and it is told."""

import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.disks.judge import may_write_identity
from spindle.model import inspection
from spindle.model.actions import Delete, Patch
from spindle.model.agents import Agent, operator_off
from spindle.model.disk_facts import Expected, Found, InspectionId
from spindle.reconcile.plan import ReconcilePlan, plan
from spindle_agent.preflight.inputs import _clearance
from tests.model.failing import Failing
from tests.model.world import World
from tests.unit.test_healing_plan import cluster, condition, mode_of, until, whole


def node_of(world: Failing, broker: int) -> str:
    return str(world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]["node"])


def fenced(made: ReconcilePlan) -> bool:
    return any(isinstance(a, Delete) and a.reason == "BrokerStoppedForHungDisk" for a in made.actions)


@pytest.mark.parametrize("ahead", [-660.0, -45.0, 45.0, 660.0])
def test_a_disk_that_hangs_is_fenced_whatever_its_nodes_clock_says(ahead: float) -> None:
    world = cluster(3)
    world.ahead[node_of(world, 0)] = ahead
    world.disk(0, "disk1").state = "hung"
    made = until(world, lambda: mode_of(world, 0, "disk1") == "Placeholder", 10)

    assert any(map(fenced, made))
    told = condition(world, "ClocksAgree")
    assert (told["status"], told["reason"]) == ("False", "ClockSkew")
    assert f"{node_of(world, 0)} ({abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'})" in told["message"]
    assert [e.reason for each in made for e in each.events].count("ClockSkew") == 1
    world.disk(0, "disk1").state = "well"
    whole(world)


@pytest.mark.parametrize("ahead", [-660.0, 660.0])
def test_since_when_a_disk_is_bad_is_told_by_the_operators_clock(ahead: float) -> None:
    world = cluster(3)
    world.ahead[node_of(world, 0)] = ahead
    # Two of one broker are a starved machine for a minute: neither less nor, by a clock that is behind, longer.
    for disk in ("disk0", "disk1"):
        world.disk(0, disk).state = "hung"
    for _ in range(6):
        world.breathe()
        assert not fenced(world.reconcile())
    made = until(world, lambda: world.get("Pod", "demo-broker-0")["metadata"].get("graceSeconds") == 1)
    assert sum(map(fenced, made)) == 1


def test_an_agent_that_was_not_heard_yet_is_neither_believed_nor_called_dead() -> None:
    world = cluster(3)
    world.disk(0, "disk1").state = "hung"
    world.breathe()
    seen = replace(world.snapshot(), agents={node_of(world, 0): Agent(unchanged=9.0)})
    made = plan(seen, world.now)
    (told,) = [w for w in made.status["waiting"] if w["reason"] == "AgentNotReporting"]
    assert not fenced(made)
    assert "has not reported since the operator started" in told["message"]
    assert not [e for e in made.events if e.reason == "AgentNotReporting"]

    silent = plan(replace(seen, agents={node_of(world, 0): Agent(age=31.0, unchanged=31.0)}), world.now)
    assert not fenced(silent)
    assert [e for e in silent.events if e.reason == "AgentNotReporting"]

    world.reconcile()
    world.breathe()  # a second look, in which the same write is still pending
    again = replace(world.snapshot(), agents={node_of(world, 0): Agent(age=2.0, ahead=45.0)})
    assert fenced(plan(again, world.now))


@pytest.mark.parametrize(
    ("ahead", "found"),
    [
        pytest.param([45.0, 44.0, 47.0], -45.0, id="all-the-same"),
        pytest.param([45.0], None, id="one-is-no-evidence"),
        pytest.param([45.0, 0.0, 45.0], None, id="one-agrees"),
        pytest.param([45.0, -45.0], None, id="they-differ-among-themselves"),
    ],
)
def test_when_all_nodes_differ_it_is_the_operator(ahead: list[float], found: float | None) -> None:
    off = operator_off({str(i): Agent(age=0.0, ahead=each) for i, each in enumerate(ahead)})
    assert off is None if found is None else off == pytest.approx(found, abs=1.0)


def test_the_condition_names_the_operators_clock() -> None:
    world = cluster(3)
    world.ahead = {node_of(world, broker): 100.0 for broker in range(3)}
    world.breathe()
    world.reconcile()
    told = condition(world, "ClocksAgree")
    assert told["reason"] == "OperatorClockSkew"
    assert "100 s behind" in told["message"]


# --- clearances ---------------------------------------------------------------------------------------------------------


def waiting_for_clearance() -> tuple[World, list[Patch]]:
    """A new cluster at the moment at which its first disks are cleared."""
    world = World.of()
    for _ in range(60):
        made = world.reconcile()
        given = [a for a in made.actions if isinstance(a, Patch) and a.reason == "DiskCleared"]
        if given:
            return world, given
        world.breathe()
    raise AssertionError("nothing was cleared")


def entries(given: Patch) -> list[dict[str, Any]]:
    return list(json.loads(given.body["metadata"]["annotations"][names.ANN_CLEARANCE]))


def test_a_clearance_repeats_the_look_and_the_pod_and_has_no_time_in_it() -> None:
    world, given = waiting_for_clearance()
    for each in given:
        pod = world.get("Pod", each.name)
        for entry in entries(each):
            assert (entry["nonce"], entry["podUid"]) == (f"look of {pod['metadata']['uid']}", each.uid)
            assert "expires" not in entry


def test_a_look_of_an_earlier_version_is_answered_with_a_time() -> None:
    world, given = waiting_for_clearance()
    name = given[0].name
    pod = world.get("Pod", name)
    pod["metadata"]["annotations"].pop(names.ANN_CLEARANCE, None)
    (look,) = [c for c in pod["status"]["initContainerStatuses"] if c["name"] == names.CONTAINER_INSPECT]
    ended = look["state"]["terminated"]
    ended["message"] = inspection.render(list(inspection.parse(ended["message"]).values()))
    world.put(pod)

    made = plan(world.snapshot(), world.now)
    (again,) = [
        a for a in made.actions if isinstance(a, Patch) and a.reason == "DiskCleared" and a.name == name
    ]
    (entry,) = entries(again)
    assert entry["expires"] > world.now
    assert "nonce" not in entry

    pod["metadata"]["annotations"][names.ANN_CLEARANCE] = again.body["metadata"]["annotations"][
        names.ANN_CLEARANCE
    ]
    world.put(pod)
    later = plan(world.snapshot(), world.now + 60.0)
    assert not [
        a for a in later.actions if isinstance(a, Patch) and a.reason == "DiskCleared" and a.name == name
    ]
    late = plan(world.snapshot(), world.now + 590.0)
    assert [a for a in late.actions if isinstance(a, Patch) and a.reason == "DiskCleared" and a.name == name]


BLANK = Found(mounted=True, fs_uuid="f", writable=True)
SLOT = Expected(cluster_id="c", node_id=1, disk="disk0", directory_id="d")


@pytest.mark.parametrize(
    ("nonce", "pod", "allowed"),
    [
        pytest.param("this", "me", True, id="the answer to this look"),
        pytest.param("this", "other", False, id="replayed in another pod"),
        pytest.param("before", "me", False, id="to an earlier look of this pod"),
    ],
)
def test_an_old_clearance_for_the_same_disk_formats_nothing(nonce: str, pod: str, allowed: bool) -> None:
    word = {"disk": "disk0", "pvUid": "p", "fsUuid": "f", "directoryId": "d", "nonce": nonce, "podUid": pod}
    look = InspectionId(nonce="this", pod_uid="me")
    assert may_write_identity(SLOT, BLANK, [_clearance(word)], look) is allowed


def test_a_clearance_with_a_time_instead_is_refused_by_a_preflight_that_looked() -> None:
    word = {"disk": "disk0", "pvUid": "p", "fsUuid": "f", "directoryId": "d", "expires": 4e9}
    assert not may_write_identity(SLOT, BLANK, [_clearance(word)], InspectionId(nonce="this", pod_uid="me"))


def test_the_nonce_is_in_the_report_however_many_disks_there_are() -> None:
    disks = [{"name": f"disk{i}", "state": "blank", "fsUuid": f"{i:032x}"} for i in range(60)]
    assert inspection.parse_nonce(inspection.render(disks, nonce="n" * 32)) == "n" * 32
    assert inspection.parse_nonce(inspection.render(disks)) is None
    assert inspection.parse_nonce("nonsense") is None
