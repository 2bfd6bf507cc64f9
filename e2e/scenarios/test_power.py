"""A node loses power under load and comes back; no acknowledged record is lost."""

import pytest

from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine

pytestmark = pytest.mark.e2e


def test_a_broker_returns_with_its_disks_after_a_power_failure(
    running: Lab, machine: Machine, spindle_image: str
) -> None:
    lab = running
    broker = lab.list("kafkabrokers")[1]
    node = broker["spec"]["node"]
    disks = {d["name"]: d["directoryId"] for d in broker["spec"]["disks"]}
    with load(lab, spindle_image, Topic("power"), away_from=[node]) as running_load:
        running_load.until_more(500)
        machine.node_off(node)
        name = broker["metadata"]["name"]
        told = lab.until(
            "the status reports it",
            lambda: lab.the("kafkabroker", name)["status"]["state"] == "Unreachable",
            90,
        )
        assert "NodeNotReady" in lab.waits()
        running_load.until_more(200)
        machine.node_on(node)
        back = lab.until_ready(240)
        report = running_load.finish()
    print(f"reported after {told:.1f} s, recovered {back:.1f} s after power came back, {report.summary()}")
    assert not report.lost
    assert report.acked > 500
    after = lab.get("kafkabroker", name)
    assert after is not None
    assert {d["name"]: d["directoryId"] for d in after["spec"]["disks"]} == disks
    assert after["status"]["disksSummary"] == "2/2"
