from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from spindle.api.broker import KafkaBroker, KafkaBrokerStatus
from spindle.api.cluster import DiskTally, KafkaCluster, KafkaClusterStatus, Tally
from spindle.api.common import ApiModel, ResourceRequirements
from spindle.api.crd import KINDS
from spindle.api.rebalance import KafkaRebalance
from spindle.manifests.jvm import HEAP

QUICKSTART = Path(__file__).resolve().parents[2] / "examples" / "quickstart.yaml"


def quickstart() -> KafkaCluster:
    return KafkaCluster.parse(yaml.safe_load(QUICKSTART.read_text()))


def test_the_sample_has_twelve_lines_at_most() -> None:
    assert len(QUICKSTART.read_text().splitlines()) <= 12


def test_the_sample_round_trips() -> None:
    cluster = quickstart()
    written = cluster.to_dict()
    assert KafkaCluster.parse(written) == cluster
    assert written["metadata"] == {"name": "demo"}
    assert written["spec"]["brokerPools"][0]["disks"] == {
        "all": False,
        "count": 2,
        "size": "100Gi",
        "storageClass": "local-disks",
    }
    assert written["spec"]["disks"]["thresholds"]["blockProducers"] == 95


def test_none_is_never_written() -> None:
    """Server-side apply would take a null for a value that is asked for."""

    def nulls(value: object) -> bool:
        if isinstance(value, dict):
            return any(nulls(item) for item in value.values())
        if isinstance(value, list):
            return any(nulls(item) for item in value)
        return value is None

    assert not nulls(quickstart().to_dict())


def test_names_in_python_are_taken_too() -> None:
    assert Tally(total=3, ready=2) == Tally.parse({"total": 3, "ready": 2})
    assert KafkaBrokerStatus(disks_summary="2/2").to_dict()["disksSummary"] == "2/2"


def test_what_a_newer_version_wrote_is_read() -> None:
    """Unknown fields and unknown words in a status stop nobody."""
    raw = quickstart().to_dict()
    raw["spec"]["telepathy"] = True
    raw["status"] = {
        "phase": "Running.",
        "dreams": [{"of": "sheep"}],
        "conditions": [{"type": "Dreaming", "status": "Perhaps", "depth": 3}],
        "waiting": [{"action": "Wake", "reason": "Asleep", "message": "It sleeps.", "noise": 1}],
    }
    cluster = KafkaCluster.parse(raw)
    assert cluster.status
    assert cluster.status.conditions[0].status == "Perhaps"
    broker = KafkaBrokerStatus.parse({"state": "Levitating", "disks": [{"name": "disk0", "state": "Molten"}]})
    assert broker.disks[0].state == "Molten"


def test_what_is_no_cluster_is_an_error() -> None:
    with pytest.raises(ValidationError, match="brokerPools"):
        KafkaCluster.parse({"metadata": {"name": "demo"}, "spec": {"version": "4.3.1"}})


def test_tallies_sum_up() -> None:
    assert Tally(total=3, ready=2).summary == "2/3"
    assert Tally.parse({"total": 3}).summary == "0/3"
    assert DiskTally(total=6, healthy=6).summary == "6/6"
    assert Tally.parse(Tally(total=3, ready=2).to_dict() | {"ready": 3}).summary == "3/3"


def test_racks_are_counted() -> None:
    status = KafkaClusterStatus.parse({"racks": [{"rack": "a"}, {"rack": "b", "brokers": [1, 2]}]})
    assert status.rack_count == 2
    assert KafkaClusterStatus().rack_count is None


def test_bare_numbers_are_quantities() -> None:
    given = ResourceRequirements.parse({"requests": {"cpu": 2}, "limits": {"memory": "4Gi"}})
    assert given.to_dict() == {"requests": {"cpu": "2"}, "limits": {"memory": "4Gi"}}
    with pytest.raises(ValidationError):
        ResourceRequirements.parse({"requests": {"cpu": True}})


def test_heaps_are_those_that_pods_get() -> None:
    """The schema says the default that the pod builder falls back to."""
    spec = quickstart().spec
    assert spec.broker_pools[0].jvm.heap == HEAP["broker"]
    assert spec.controllers.jvm.heap == HEAP["controller"]


def test_brokers_and_proposals_round_trip() -> None:
    broker = KafkaBroker.parse(
        {
            "metadata": {"name": "demo-broker-0"},
            "spec": {
                "cluster": "demo",
                "id": 0,
                "pool": "main",
                "disks": [{"name": "disk0", "claim": "data-disk0-demo-0", "directoryId": "x" * 22}],
                "maintenance": {"disks": [{"name": "disk0", "desiredState": "Cordoned"}]},
            },
        }
    )
    assert KafkaBroker.parse(broker.to_dict()) == broker
    assert broker.spec.disks[0].mode == "Active"
    assert broker.spec.maintenance is not None
    assert not broker.spec.maintenance.stopped
    proposal = KafkaRebalance.parse(
        {
            "spec": {
                "cluster": "demo",
                "inputHash": "0123456789",
                "expires": "2030-01-01T00:00:00Z",
                "moves": [],
            }
        }
    )
    assert KafkaRebalance.parse(proposal.to_dict()) == proposal
    assert proposal.spec.approved is None


@pytest.mark.parametrize("kind", [kind.model for kind in KINDS], ids=lambda model: model.__name__)
def test_kinds_name_themselves(kind: type[ApiModel]) -> None:
    assert kind.model_fields["kind"].default == kind.__name__
    assert kind.model_fields["api_version"].default == "spindle.dev/v1alpha1"


def test_what_the_agent_reports_round_trips() -> None:
    place = {"topic": "t", "partition": 0, "segment": 700, "kind": "Crc", "file": "log", "position": 61}
    disk = {
        "name": "disk0",
        "verdict": "Failed",
        "reason": "IOHung",
        "since": "2030-01-01T00:00:00Z",
        "scrub": {"percent": 99, "corrupt": 1, "sound": [{"topic": "t", "partition": 1}]},
        "corrupt": [place],
    }
    move = {"topic": "t", "partition": 0, "fromDir": "/a", "toDir": "/b", "state": "Copying", "copied": 7}
    unwatched = {"name": "disk1", "message": "The kubelet has not mounted the volume."}
    report = {"node": "node-1", "disks": [disk], "unwatched": [unwatched], "moves": [move]}
    broker = KafkaBroker.parse(
        {
            "metadata": {"name": "demo-broker-0"},
            "spec": {"cluster": "demo", "id": 0, "pool": "main", "retired": ["x" * 22]},
            "status": {"observed": report},
        }
    )
    assert broker.status is not None
    assert broker.to_dict()["status"]["observed"] == report
    assert broker.to_dict()["spec"]["retired"] == ["x" * 22]
