"""Requests that cannot be met: too few nodes, claims that cannot bind. A clear message, and as much as is possible."""

import pytest

from e2e.scenarios.lab import Lab, light, sample

pytestmark = pytest.mark.e2e


def _pool(**disks: object) -> list[dict[str, object]]:
    pool = dict(sample()["spec"]["brokerPools"][0])
    return [pool | {"disks": pool["disks"] | disks}]


def test_a_claim_that_cannot_bind_is_told(lab: Lab) -> None:
    lab.apply(sample(brokerPools=_pool(size="90Ti")))
    entry = lab.until_waiting("InsufficientNodes")
    assert "free volumes" in entry["message"] + entry["unblockedBy"]


def test_more_brokers_than_nodes(lab: Lab) -> None:
    lab.apply(sample(brokerPools=[light(8)]))
    entry = lab.until_waiting("InsufficientNodes", 120)
    assert "6, 7" in entry["message"]
    lab.until("six brokers run", lambda: lab.status()["brokers"]["ready"] == 6, 300)
    assert lab.condition("RacksSatisfied")["status"] == "False"
    assert lab.condition("RacksSatisfied")["reason"] == "InsufficientNodes"
