"""One birth: a cluster finds its data again, and is not born over what was lost (rules 7, 11 and 13)."""

import pytest

from e2e.scenarios.conftest import Machine
from e2e.scenarios.lab import CLUSTER, Lab, sample

pytestmark = pytest.mark.e2e


@pytest.mark.capability
def test_a_deleted_cluster_is_found_again_with_its_data(running: Lab) -> None:
    lab = running
    lab.spindle("topic", "create", "kept", "-n", lab.namespace, "-c", CLUSTER, "--partitions", "3")
    cluster_id = lab.status()["clusterId"]
    racks = lab.status()["racks"]
    lab.kubectl("delete", "kafkacluster", CLUSTER, timeout=180)
    lab.until("its pods are gone", lambda: not lab.list("pods", "spindle.dev/role"))
    assert len(lab.list("pvc")) == 9
    assert not lab.list("kafkabrokers")
    lab.kubectl("delete", "configmap", f"{CLUSTER}-identity")  # the claims must do
    lab.apply(sample())
    lab.until_ready()
    assert lab.status()["clusterId"] == cluster_id
    assert lab.status()["racks"] == racks
    assert "kept" in lab.spindle("topic", "list", "-n", lab.namespace, "-c", CLUSTER)


def test_all_controller_disks_but_one_blank_is_told_and_nothing_is_formatted(
    running: Lab, machine: Machine
) -> None:
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
    lab.until("it is paused", lambda: lab.condition("Progressing").get("reason") == "Paused")
    for index in (0, 1):
        claim = lab.get("pvc", f"data-metadata-{CLUSTER}-{9000 + index}")
        assert claim is not None
        lab.kubectl("delete", "pod", f"{CLUSTER}-controller-{index}", "--grace-period=5", timeout=120)
        machine.new_disk(claim["spec"]["volumeName"])
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
    entry = lab.until_waiting("ClearedForAnotherDisk", 120)
    assert "original disk" in entry["unblockedBy"]

    def held() -> set[str]:
        waiting = lab.status()["waiting"]
        return {wait["object"] for wait in waiting if wait["reason"] == "ClearedForAnotherDisk"}

    both = {f"Pod/{CLUSTER}-controller-{index}" for index in (0, 1)}
    lab.until("both are held back", lambda: held() == both, 60)  # their pods come up one after the other
