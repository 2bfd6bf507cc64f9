"""Alerts fire for real faults and resolve after the repair, in a real Prometheus; none fires while brokers restart for a change."""

import time
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.alert_watch import Watch, a_disk_waits_for_its_replacement
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import CLUSTER, SYSTEM, Lab, light, sample
from e2e.scenarios.load import Topic, make_topic
from e2e.scenarios.machine import Machine
from e2e.scenarios.prometheus import prometheus

pytestmark = pytest.mark.e2e

_SHORT = "5s"


@pytest.fixture
def testbed(installed: Target) -> Testbed:
    """The testbed; skipped on other clusters."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    return installed


def _of(lab: Lab, namespace: str) -> Lab:
    return Lab(lab.kubectl_command, lab.kubeconfig, namespace)


def _ready(lab: Lab) -> None:
    lab.apply(sample(brokerPools=[light(3)], disks={"automaticShare": 100, "graceSeconds": 30}))
    lab.until_ready(600)


def test_five_alerts_fire_and_resolve(lab: Lab, machine: Machine, testbed: Testbed, tmp_path: Path) -> None:
    _ready(lab)
    make_topic(lab, Topic("single", 6, replicas=1, min_isr=1))
    make_topic(lab, Topic("strict", 6, replicas=3, min_isr=3))
    with prometheus(lab, testbed, tmp_path, _SHORT) as running:
        watch = Watch(lab, running)
        _a_broker_is_held(watch, machine)
        _a_controller_is_held(watch, machine)
        _an_agent_is_held(watch, machine)
        _no_operator_runs(watch)


def test_a_disk_that_waits_for_its_replacement_fires_and_resolves(
    lab: Lab, machine: Machine, testbed: Testbed, tmp_path: Path
) -> None:
    """In a cluster whose topics can spare the replicas of the disk: else it is not ready to be replaced."""
    _ready(lab)
    with prometheus(lab, testbed, tmp_path, _SHORT) as running:
        a_disk_waits_for_its_replacement(Watch(lab, running), machine)


def _held(watch: Watch, machine: Machine, pod: dict[str, Any], container: str, *alerts: str) -> list[Any]:
    began = time.monotonic()
    with machine.held_still(pod, container):
        found = [watch.fires(alert, began) for alert in alerts]
    repaired = time.monotonic()
    for alert in alerts:
        watch.resolves(alert, repaired)
    return found


def _a_broker_is_held(watch: Watch, machine: Machine) -> None:
    pod = watch.lab.the("pod", f"{CLUSTER}-broker-1")
    _held(watch, machine, pod, "kafka", "SpindleOfflinePartitions", "SpindleUnderMinIsr")


def _a_controller_is_held(watch: Watch, machine: Machine) -> None:
    leader = (watch.lab.status().get("quorum") or {}).get("leader")
    name = next(f"{CLUSTER}-controller-{i}" for i in range(3) if leader != 9000 + i)
    (found,) = _held(watch, machine, watch.lab.the("pod", name), "kafka", "SpindleQuorumLagging")
    assert [each["controller"] for each in found] == [name]


def _an_agent_is_held(watch: Watch, machine: Machine) -> None:
    broker = watch.lab.the("kafkabroker", f"{CLUSTER}-broker-0")
    node = broker["spec"]["node"]
    agents = _of(watch.lab, AGENTS).list("pods")
    pod = next(each for each in agents if each["spec"].get("nodeName") == node)
    (found,) = _held(watch, machine, pod, "agent", "SpindleAgentSilent")
    named = {(each["broker"], each["node"], each["rack"]) for each in found}
    assert named == {(f"{CLUSTER}-broker-0", node, broker["spec"]["rack"])}


def _no_operator_runs(watch: Watch) -> None:
    system = _of(watch.lab, SYSTEM)
    began = time.monotonic()
    system.kubectl("scale", "deployment/spindle", "--replicas=0")
    try:
        watch.fires("SpindleOperatorDown", began, everywhere=True)
    finally:
        repaired = time.monotonic()
        system.kubectl("scale", "deployment/spindle", "--replicas=2")
    watch.resolves("SpindleOperatorDown", repaired, everywhere=True)


def test_a_planned_roll_fires_nothing(lab: Lab, testbed: Testbed, tmp_path: Path) -> None:
    _ready(lab)
    with prometheus(lab, testbed, tmp_path) as running:
        began = time.monotonic()
        before = _uids(lab)
        lab.patch("kafkacluster", CLUSTER, {"spec": {"config": {"queued.max.requests": "400"}}})
        lab.until("every broker was restarted", lambda: not _uids(lab) & before, 900)
        lab.until_ready(300)
        assert running.query("spindle_broker_state")
        assert running.ever_fired(time.monotonic() - began) == set()


def _uids(lab: Lab) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role=broker")}
