"""A readopted cluster has all its records, however its claims and its spec have changed meanwhile ("no start with a log dir missing", docs/safety.md, rule 15)."""

from pathlib import Path
from typing import Any, Final

import pytest

from e2e.scenarios.disk_slot import (
    Slot,
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
)
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.records import RECORDS, read, write
from e2e.scenarios.stand import THREE, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_FILL: Final = 4
_PARTITIONS: Final = 12


def _deleted(lab: Lab) -> None:
    lab.kubectl("delete", "kafkacluster", CLUSTER, timeout=300)
    lab.until("its pods are gone", lambda: not lab.list("pods", "spindle.dev/role"))


def _without_a_claim(lab: Lab) -> tuple[Slot, dict[str, Any]]:
    """Delete the cluster and one claim, whose volume is kept, and apply it again: returns that disk, and the former claim."""
    slot = slots(lab)[0, "disk1"]
    kept = _claim(lab, slot)
    lab.patch("pv", slot.volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    _deleted(lab)
    lab.kubectl("delete", "pvc", kept["metadata"]["name"])
    lab.apply(THREE.manifest())
    return slot, kept


def _back(lab: Lab) -> None:
    """All brokers run without the placeholder dir that they started with."""
    lab.until_ready(900)
    lab.until(
        "no broker has a placeholder",
        lambda: not any(b["spec"].get("returning") for b in lab.list("kafkabrokers")),
        600,
    )
    until_well(lab, 600)


def test_an_old_backup_that_calls_a_filled_disk_out_of_use_loses_nothing(
    stand: Stand, machine: Machine, spindle_image: str, tmp_path: Path
) -> None:
    lab = stand.get(THREE)
    file = tmp_path / "backup.yaml"
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("older", partitions=_PARTITIONS), fill=_FILL) as running,
    ):
        slot = choose(lab, running)
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        lab.until(
            "its claim reports it", lambda: "retired" in str(_claim(lab, slot)["metadata"]["annotations"])
        )
        file.write_text(lab.spindle("backup", CLUSTER, "-n", lab.namespace, "--secrets"))
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)
    write(lab, spindle_image, "older-read", _PARTITIONS)
    used = slots(lab)[slot.broker, slot.disk].directory_id
    assert used != slot.directory_id
    _deleted(lab)
    lab.kubectl("delete", "namespace", lab.namespace, timeout=300)
    lab.kubectl("create", "namespace", lab.namespace)
    print(lab.spindle("restore", str(file), "-n", lab.namespace))
    _back(lab)
    assert slots(lab)[slot.broker, slot.disk].directory_id == used
    assert read(lab, spindle_image, "older-read", _PARTITIONS) == RECORDS


def test_a_claim_that_is_missing_is_named_and_nothing_is_lost(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    write(lab, spindle_image, "missing", _PARTITIONS)
    slot, kept = _without_a_claim(lab)
    entry = lab.until_waiting("ClaimMissing", 180)
    assert kept["metadata"]["name"] in entry["unblockedBy"]
    assert slot.directory_id in entry["message"]
    lab.until(
        "two brokers run and lead everything",
        lambda: (
            (lab.status().get("brokers") or {}).get("ready", 0) >= 2
            and lab.condition("DataAtRisk").get("status") == "False"
        ),
        300,
    )
    assert read(lab, spindle_image, "missing", _PARTITIONS) == RECORDS
    lab.until(
        "its replicas were rebuilt elsewhere, or it has a new disk",
        lambda: "ClaimMissing" not in lab.waits(),
        900,
    )
    assert read(lab, spindle_image, "missing", _PARTITIONS) == RECORDS


def test_a_claim_that_is_put_back_brings_its_disk_back(stand: Stand, spindle_image: str) -> None:
    """A replica without another copy cannot be rebuilt, so Spindle waits for the disk."""
    lab = stand.get(THREE)
    write(lab, spindle_image, "putback", _PARTITIONS, single=True)
    slot, kept = _without_a_claim(lab)
    lab.until_waiting("ClaimMissing", 180)
    lab.patch("pv", slot.volume, {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}})
    # With the annotations of its former binding, Kubernetes would set it to Lost.
    annotations = {
        k: v for k, v in kept["metadata"]["annotations"].items() if not k.startswith("pv.kubernetes.io/")
    }
    metadata = {
        "name": kept["metadata"]["name"],
        "labels": kept["metadata"]["labels"],
        "annotations": annotations,
    }
    lab.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": kept["spec"]}
    )
    _back(lab)
    assert read(lab, spindle_image, "putback", _PARTITIONS) == RECORDS
    stand.close()  # partitions without another replica would keep the next scenario's disk from being evacuated


def test_the_record_of_moves_deleted_by_hand_is_kept_until_all_is_put_back(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    record = f"{CLUSTER}-moves"
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("journal", partitions=_PARTITIONS), fill=_FILL) as running,
    ):
        slot = choose(lab, running)
        died = dies(timeline, machine, slot)
        lab.until(
            "a disk was removed from the record",
            lambda: '"shrunk":[[' in lab.the("configmap", record)["data"]["journal"],
            180,
        )
        lab.kubectl("label", "configmap", record, "spindle.dev/cluster-")
        lab.kubectl("delete", "configmap", record, "--wait=false")
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        lab.until(
            "the record is a new one",
            lambda: not lab.the("configmap", record)["metadata"].get("deletionTimestamp"),
            300,
        )
        assert_spread(running)
        conclude(running, timeline, died)


def test_fewer_replicas_and_a_renamed_pool_leave_nobody_with_data_out(
    stand: Stand, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    write(lab, spindle_image, "respec", _PARTITIONS)
    manifest = THREE.manifest()
    (pool,) = manifest["spec"]["brokerPools"]
    for changed in (pool | {"replicas": 2}, pool | {"name": "renamed"}):
        _deleted(lab)
        lab.apply({**manifest, "spec": {**manifest["spec"], "brokerPools": [changed]}})
        lab.until("all three brokers run", lambda: _running(lab) >= {0, 1, 2}, 600)
        assert read(lab, spindle_image, "respec", _PARTITIONS) == RECORDS
    lab.apply(manifest)
    _back(lab)


def _claim(lab: Lab, slot: Slot) -> dict[str, Any]:
    return lab.the("pvc", slot.spec()["claim"])


def _running(lab: Lab) -> set[int]:
    return {
        int(pod["metadata"]["labels"]["spindle.dev/node-id"])
        for pod in lab.list("pods", "spindle.dev/role=broker")
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    }
