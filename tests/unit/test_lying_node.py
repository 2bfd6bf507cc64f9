"""What a compromised node reports of its own broker does not keep the operator from looking after the rest of the cluster."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from spindle.api import names
from spindle.api.reported_text import LONGEST
from spindle.reconcile.plan import ReconcilePlan, plan
from tests.model.failing import Failing
from tests.unit.test_healing_plan import cluster

SENTENCE = 32768  # characters of a message in a status
REASON = 63


@pytest.fixture(scope="module")
def sound() -> Failing:
    return cluster()


@pytest.fixture
def world(sound: Failing) -> Failing:
    return copy.deepcopy(sound)


def texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from texts(each, name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each, key)


def fits(made: ReconcilePlan) -> None:
    """The API server takes the statuses: no message and no reason is too long."""
    for status in (made.status, *made.broker_statuses.values()):
        for key, text in texts(status):
            assert len(text) <= (REASON if key == "reason" else SENTENCE), (key, len(text))


def observed(world: Failing, **more: Any) -> None:
    broker = world.get("KafkaBroker", "demo-broker-0")
    broker["status"]["observed"] |= more
    world.put(broker)


def test_the_longest_message_of_an_agent_is_quoted_in_part(world: Failing) -> None:
    lie = {
        "verdict": "Failed",
        "reason": "ProbeError",
        "message": "x" * SENTENCE,
        "since": "2026-01-01T00:00:00Z",
    }
    observed(world, disks=[{"name": name, **lie} for name in ("disk0", "disk1")])
    made = plan(world.snapshot(), world.now)
    fits(made)
    quoted = made.broker_statuses["demo-broker-0"]["disks"][0]["message"]
    assert "x" * (LONGEST // 2) in quoted


def test_so_is_what_it_says_of_its_own_lack_of_time(world: Failing) -> None:
    observed(world, starved={"since": "2026-01-01T00:00:00Z", "message": "x" * SENTENCE})
    made = plan(world.snapshot(), world.now)
    fits(made)
    assert any(wait["reason"] == "AgentStarved" for wait in made.status["waiting"])


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"waiting": {"reason": "x" * 100, "message": "y" * 50_000}}, id="waiting"),
        pytest.param({"waiting": {"reason": "CrashLoopBackOff"}}, id="crashing"),
    ],
)
def test_the_words_of_a_kubelet_are_quoted_in_part(world: Failing, state: dict[str, Any]) -> None:
    pod = world.get("Pod", "demo-broker-0")
    for entry in pod["status"]["containerStatuses"]:
        entry |= {"state": state, "lastState": {"terminated": {"exitCode": 1, "message": "z" * 50_000}}}
    world.put(pod)
    made = plan(world.snapshot(), world.now)
    fits(made)
    assert any(wait["object"] == "Pod/demo-broker-0" for wait in made.status["waiting"])


@pytest.mark.parametrize(
    "report", ['{"disks":[{"name":"disk0","state":["ours"]}]}', "[" * 4000], ids=["a-list", "nested"]
)
def test_a_malformed_report_of_the_disks_does_not_end_the_pass(world: Failing, report: str) -> None:
    pod = world.get("Pod", "demo-broker-0")
    pod["status"]["initContainerStatuses"] = [
        {"name": names.CONTAINER_INSPECT, "state": {"terminated": {"exitCode": 0, "message": report}}}
    ]
    pod["status"]["containerStatuses"] = []
    world.put(pod)
    fits(plan(world.snapshot(), world.now))


def test_honest_reports_are_read_as_they_are(world: Failing) -> None:
    said = "x" * LONGEST
    observed(world, starved={"since": "2026-01-01T00:00:00Z", "message": said})
    waits = plan(world.snapshot(), world.now).status["waiting"]
    assert any(said in wait["message"] for wait in waits)
