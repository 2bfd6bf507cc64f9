"""One bootstrap: a cluster finds its data again, and is not bootstrapped over lost data (docs/safety.md, rules 7, 11 and 13)."""

from pathlib import Path

import pytest

from e2e.scenarios.lab import CLUSTER, Lab, LabError
from e2e.scenarios.machine import Machine
from e2e.scenarios.records import RECORDS, read, write
from e2e.scenarios.stand import SHOWN

pytestmark = pytest.mark.e2e


@pytest.mark.capability
@pytest.mark.spends
def test_a_deleted_cluster_is_found_again_with_its_data(running: Lab, spindle_image: str) -> None:
    lab = running
    write(lab, spindle_image, "kept")
    cluster_id = lab.status()["clusterId"]
    racks = lab.status()["racks"]
    lab.kubectl("delete", "kafkacluster", CLUSTER, timeout=180)
    lab.until("its pods are gone", lambda: not lab.list("pods", "spindle.dev/role"))
    assert len(lab.list("pvc")) == 9
    assert not lab.list("kafkabrokers")
    lab.kubectl("delete", "configmap", f"{CLUSTER}-identity")  # only the claims are left
    lab.apply(SHOWN.manifest())
    # Its brokers then restart one by one, each without the placeholder that it started with: test_readoption.py.
    lab.until_available()
    assert lab.status()["clusterId"] == cluster_id
    assert lab.status()["racks"] == racks
    assert read(lab, spindle_image, "kept") == RECORDS


def identities(lab: Lab) -> dict[str, str]:
    """Directory id of each volume."""
    return {
        claim["spec"]["volumeName"]: claim["metadata"]["annotations"]["spindle.dev/directory-id"]
        for claim in lab.list("pvc")
    }


def secrets(lab: Lab) -> dict[str, str]:
    """The CA, and a user's password."""
    found = {name: lab.the("secret", name)["data"] for name in (f"{CLUSTER}-ca", f"{CLUSTER}.user.alice")}
    return {
        f"{name}/{key}": found[name][key]
        for name in found
        for key in ("ca.crt", "password")
        if key in found[name]
    }


def test_a_namespace_that_is_lost_is_put_back_from_a_backup_onto_its_disks(
    running: Lab, spindle_image: str, tmp_path: Path
) -> None:
    lab = running
    write(lab, spindle_image, "saved")
    alice = {"cluster": CLUSTER, "authentication": "scram"}
    kind = {"apiVersion": "spindle.dev/v1alpha1", "kind": "KafkaUser", "metadata": {"name": "alice"}}
    lab.apply({**kind, "spec": alice})
    lab.until("alice has a password", lambda: lab.get("secret", f"{CLUSTER}.user.alice"))
    cluster_id, disks, known = lab.status()["clusterId"], identities(lab), secrets(lab)
    file = tmp_path / "backup.yaml"
    file.write_text(lab.spindle("backup", CLUSTER, "-n", lab.namespace, "--secrets"))

    # In this order: deleting the namespace would stop controllers and brokers at once, and brokers would wait for the controllers until the
    # end of their grace period.
    lab.kubectl("delete", "kafkacluster", CLUSTER, timeout=180)
    lab.kubectl("delete", "namespace", lab.namespace, timeout=300)
    lab.kubectl("create", "namespace", lab.namespace)
    assert not lab.list("pvc")
    print(lab.spindle("restore", str(file), "-n", lab.namespace))
    lab.until_ready()
    assert lab.status()["clusterId"] == cluster_id
    assert identities(lab) == disks
    assert secrets(lab) == known
    assert read(lab, spindle_image, "saved") == RECORDS
    reasons = {event["reason"] for event in lab.list("events")}
    assert "BrokerReadopted" in reasons
    assert "DiskCleared" not in reasons, "nothing may be formatted"
    with pytest.raises(LabError, match="delete it first"):
        lab.spindle("restore", str(file), "-n", lab.namespace)


def test_all_controller_disks_but_one_blank_is_told_and_nothing_is_formatted(
    running: Lab, machine: Machine
) -> None:
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
    lab.until("it is paused", lambda: lab.condition("Reconciling").get("reason") == "Paused")
    for index in (0, 1):
        claim = lab.get("pvc", f"data-metadata-{CLUSTER}-{9000 + index}")
        assert claim is not None
        lab.kubectl("delete", "pod", f"{CLUSTER}-controller-{index}", "--grace-period=5", timeout=120)
        machine.new_disk(claim["spec"]["volumeName"])
    lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": False}})
    entry = lab.until_waiting("DirectoryIdAlreadyUsed", 120)
    assert "original disk" in entry["unblockedBy"]

    def held() -> set[str]:
        waiting = lab.status()["waiting"]
        return {wait["object"] for wait in waiting if wait["reason"] == "DirectoryIdAlreadyUsed"}

    both = {f"Pod/{CLUSTER}-controller-{index}" for index in (0, 1)}
    lab.until("both are held back", lambda: held() == both, 60)  # their pods become ready one after the other
