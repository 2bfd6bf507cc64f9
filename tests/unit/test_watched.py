"""Whether an agent looks at a disk, as the status tells it."""

from typing import Any, cast

import pytest

from spindle.disks.watched import watched_fields
from spindle.model.agents import Agent
from tests.unit.test_healing_plan import cluster

ALIVE, SILENT, UNHEARD = Agent(age=1.0), Agent(unchanged=99.0), Agent()
LOOKED = {"node": "n1", "disks": [{"name": "disk0", "verdict": "Healthy"}]}


class Snap:
    def __init__(self, agent: Agent | None, unknown: frozenset[str], namespace: str | None) -> None:
        self.agents = {} if agent is None else {"n1": agent}
        self.unknown, self.agent_namespace = unknown, namespace


class State:
    def __init__(self, *of: Any) -> None:
        self.snap = Snap(*of)


def told(
    agent: Agent | None,
    observed: dict[str, Any],
    before: dict[str, Any] | None = None,
    unknown: frozenset[str] = frozenset(),
    namespace: str | None = "agents",
) -> dict[str, Any]:
    broker = {"spec": {"node": "n1"}, "status": {"observed": observed}}
    return watched_fields(
        cast("Any", State(agent, unknown, namespace)), cast("Any", broker), "disk0", before or {}
    )


def test_a_disk_that_a_live_agent_reports_is_watched() -> None:
    assert told(ALIVE, LOOKED) == {"watched": True}


@pytest.mark.parametrize(
    ("agent", "observed", "why"),
    [
        (ALIVE, {"node": "n1", "unwatched": [{"name": "disk0", "message": "Because."}]}, "Because."),
        (ALIVE, {"node": "n1"}, "The agent on node n1 has not reported on it yet."),
        (ALIVE, {**LOOKED, "node": "n2"}, "The agent on node n1 has not reported on this broker yet."),
        (SILENT, LOOKED, "No agent on node n1 reports."),
        (None, LOOKED, "No agent on node n1 reports."),
    ],
)
def test_a_disk_that_nobody_looks_at_says_why(
    agent: Agent | None, observed: dict[str, Any], why: str
) -> None:
    assert told(agent, observed) == {"watched": False, "watchedMessage": why}


def test_the_status_names_what_the_agent_builds_the_path_from() -> None:
    world = cluster(3)
    claim = world.get("PersistentVolumeClaim", "data-disk1-demo-0")
    volume = world.get("PersistentVolume", claim["spec"]["volumeName"])
    spec = {key: value for key, value in volume["spec"].items() if key != "local"}
    world.put({**volume, "spec": {**spec, "csi": {"driver": "csi.example.com", "volumeHandle": "1"}}})
    world.reconcile()
    status = world.get("KafkaBroker", "demo-broker-0")["status"]
    first, second = status["disks"]

    assert status["podUid"] == world.get("Pod", "demo-broker-0")["metadata"]["uid"]
    assert (second["volumeType"], second["pv"]) == ("csi", claim["spec"]["volumeName"])
    assert "path" not in second
    assert "volumeType" not in first
    assert "podUid" not in world.get("KafkaBroker", "demo-broker-1")["status"]


def test_without_agents_that_is_the_reason() -> None:
    assert told(None, {}, namespace=None)["watchedMessage"] == "No agents are installed."


@pytest.mark.parametrize("before", [{}, {"watched": True}, {"watched": False, "watchedMessage": "So."}])
def test_what_is_not_known_stays_as_it_was(before: dict[str, Any]) -> None:
    assert told(UNHEARD, LOOKED, {**before, "name": "disk0"}) == before
    assert told(ALIVE, LOOKED, before, frozenset({"leases"})) == before
