"""Levels of Kafka's loggers change while brokers and controllers run."""

from typing import Final

import pytest

from e2e.scenarios.lab import CLUSTER, Lab

pytestmark = pytest.mark.e2e

_LOGGER: Final = "org.apache.kafka.raft"  # every node logs its fetches of metadata
_SOON: Final = 240.0  # seconds; the kubelet updates a pod's files within about two minutes


def _detailed(lab: Lab, pods: list[str]) -> list[str]:
    """Pods of which the last seconds of the log have lines that only DEBUG writes."""
    return [
        pod
        for pod in pods
        if "] DEBUG " in lab.kubectl("logs", pod, "-c", "kafka", "--since=10s", timeout=30)
    ]


def test_levels_change_without_a_restart(running: Lab) -> None:
    lab = running
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role")}
    pods = sorted(before)
    assert _detailed(lab, pods) == []

    lab.patch("kafkacluster", CLUSTER, {"spec": {"logging": {"loggers": {_LOGGER: "DEBUG"}}}})
    took = lab.until("every node logs more", lambda: _detailed(lab, pods) == pods, _SOON)
    lab.patch("kafkacluster", CLUSTER, {"spec": {"logging": None}})
    back = lab.until("every node logs less", lambda: _detailed(lab, pods) == [], _SOON)

    print(f"levels were in effect after {took:.0f} s, and reverted after {back:.0f} s")
    after = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in lab.list("pods", "spindle.dev/role")}
    assert after == before
    assert not [
        each for each in lab.status()["conditions"] if each["type"] == "Ready" and each["status"] != "True"
    ]
