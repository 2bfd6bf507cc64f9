"""The resources as users meet them: the sample, the defaults, two owners of one object, the printed table."""

from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.cluster.apiserver import ApiServer
from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaCluster, KafkaClusterStatus
from spindle.api.names import FIELD_MANAGER
from spindle.api.rebalance import KafkaRebalance
from spindle.model.maintenance import DiskRequest, disk_requests
from tests.kube.api import Resources
from tests.kube.samples import DIRECTORY_ID, GONE, bent, broker, cluster, move, rebalance

pytestmark = pytest.mark.kube

POOL = "spec.brokerPools[0]"
PERSON = "kubectl"


def test_the_sample_as_it_stands(api_server: ApiServer, namespace: str) -> None:
    said = api_server.kubectl("apply", "-n", namespace, "--validate=strict", "-f", "examples/quickstart.yaml")
    assert said.strip() == "kafkacluster.spindle.dev/demo created"


def test_defaults_are_the_servers(resources: Resources) -> None:
    """Whoever reads the object sees every default, and sees what the models would have filled in."""
    stored = resources.create(cluster())
    spec = stored["spec"]
    assert spec["disks"]["thresholds"] == {
        "warn": 70, "move": 80, "cordon": 85, "rejectMoves": 90, "blockProducers": 95, "hysteresis": 5,
    }  # fmt: skip
    assert spec["brokerPools"][0]["jvm"] == {"heap": "1g"}
    assert spec["controllers"]["jvm"] == {"heap": "384m"}
    assert spec["rolling"] == {"backWithinSeconds": 600, "soakHours": 24}
    assert (spec["paused"], spec["deleteClaims"]) == (False, False)
    assert KafkaCluster.parse(stored).spec == KafkaCluster.parse(cluster()).spec
    bare = bent(cluster(), {"metadata.name": "bare", "spec.racks": GONE, "spec.controllers.replicas": GONE})
    assert KafkaCluster.parse(resources.create(bare)).spec == KafkaCluster.parse(stored).spec


def test_broker_and_rebalance_defaults(resources: Resources) -> None:
    stored = resources.create(broker())
    assert "maintenance" not in stored["spec"]
    assert [disk["mode"] for disk in stored["spec"]["disks"]] == ["Active", "Active"]
    assert KafkaBroker.parse(stored).spec == KafkaBroker.parse(broker()).spec
    proposal = resources.create(rebalance())
    assert KafkaRebalance.parse(proposal).spec == KafkaRebalance.parse(rebalance()).spec


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"metadata.name": "a" * 40}, id="longest-name"),
        pytest.param({"spec.version": "10.0.12"}, id="later-version"),
        pytest.param({"spec.controllers.replicas": 1}, id="one-controller"),
        pytest.param({f"{POOL}.disks.count": 64}, id="most-disks"),
        pytest.param({f"{POOL}.disks.size": "64Mi"}, id="smallest-disk"),
        pytest.param({f"{POOL}.disks.size": "1.5Ti"}, id="fraction"),
        pytest.param({f"{POOL}.disks.size": "1e12"}, id="exponent"),
        pytest.param({f"{POOL}.disks.storageClass": None}, id="null-is-nothing"),
        pytest.param({f"{POOL}.resources": {"requests": {"cpu": 2, "memory": "8Gi"}, "limits": {"cpu": "2500m"}}}, id="resources"),
        pytest.param({f"{POOL}.resources.limits.memory": 4294967296}, id="memory-in-bytes"),
        pytest.param({f"{POOL}.jvm": {"heap": "6g", "options": ["-XX:+UseZGC", "-Dcom.sun=a=b"]}}, id="jvm"),
        pytest.param({"spec.config": {"num.io.threads": "8", "log.retention.hours": "24", "message.max.bytes": "10"}}, id="config"),
        pytest.param({"spec.config": {"log.dirs.are.not.this": "x", "ssl": "y", "listenersx": "z"}}, id="nearly-owned"),
        pytest.param({"spec.racks.topologyKey": "rack"}, id="short-label"),
        pytest.param({"spec.racks.followerFetching": True}, id="follower-fetching"),
        pytest.param({"spec.racks.followerFetching": True, "spec.config": {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}}, id="follower-fetching-and-its-class"),
        pytest.param({"spec.disks.thresholds": {"warn": 50, "blockProducers": 99}}, id="thresholds"),
        pytest.param({"spec.rebalance": {"schedule": "*/15 0-6 * * 1-5", "approval": "auto", "maxBytes": "1Ti", "maxDurationMinutes": 60}}, id="rebalance"),
        pytest.param({"spec.rebalance.schedule": "@daily"}, id="daily"),
        pytest.param({"spec.scheduling.tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}]}, id="tolerations"),
        pytest.param({"spec.scheduling": {"priorityClassName": "high", "imagePullSecrets": [{"name": "a"}], "nodeSelector": {"disk": "nvme"}, "sharedNodes": True}}, id="scheduling"),
        pytest.param({"spec.brokerPools": [{"name": f"p{i}", "replicas": 6, "disks": {"count": 64, "size": "1Ti"}, "config": {"num.io.threads": str(i)}} for i in range(12)]}, id="largest"),
    ],
)  # fmt: skip
def test_cluster_is_accepted(shared: Resources, changes: dict[str, Any]) -> None:
    KafkaCluster.parse(shared.create(bent(cluster(), changes), dry=True))


def test_full_proposal_is_accepted(shared: Resources) -> None:
    shared.create(bent(rebalance(), {"spec.moves": [move(i) for i in range(2000)]}), dry=True)


def test_operator_and_person_share_a_broker(resources: Resources) -> None:
    """Each applies its own fields over and over; neither undoes, or even touches, what the other said."""
    mine = bent(broker(), {"spec.node": "n1"})
    theirs = {key: mine[key] for key in ("apiVersion", "kind", "metadata")}
    token = f"{DIRECTORY_ID}:0123456789abcdef"
    asked: dict[str, Any] = {
        "maintenance": {"stopped": True, "disks": [{"name": "disk1", "desiredState": "Cordoned"}]},
        "acceptDataLoss": {"node": "node1", "disks": [{"name": "disk1", "token": token}]},
    }
    resources.apply(mine, FIELD_MANAGER, force=True)
    resources.apply({**theirs, "spec": asked}, PERSON)

    after = resources.apply(bent(mine, {"spec.disks[1].mode": "Placeholder"}), FIELD_MANAGER, force=True)
    assert {"removeFirst": False, **asked["maintenance"]} == after["spec"]["maintenance"]
    assert after["spec"]["acceptDataLoss"] == asked["acceptDataLoss"]
    assert disk_requests(after) == {"disk1": DiskRequest(cordoned=True, accept_loss=token)}
    assert after["spec"]["disks"][1]["mode"] == "Placeholder"

    after = resources.apply(bent(mine, {"spec.disks[1]": GONE}), FIELD_MANAGER, force=True)
    assert [disk["name"] for disk in after["spec"]["disks"]] == ["disk0"]
    assert after["spec"]["maintenance"]["disks"][0]["name"] == "disk1"

    after = resources.apply({**theirs, "spec": {}}, PERSON)
    assert not {"maintenance", "acceptDataLoss"} & after["spec"].keys()
    assert after["spec"]["node"] == "n1"


def test_a_person_cannot_take_the_operators_fields_unawares(resources: Resources) -> None:
    resources.apply(bent(broker(), {"spec.node": "n1"}), FIELD_MANAGER, force=True)
    with pytest.raises(ApiException) as caught:
        resources.apply(bent(broker(), {"spec.node": "n2"}), PERSON)
    assert caught.value.status == 409
    assert FIELD_MANAGER in str(caught.value.body)


def test_two_people_ask_for_two_disks(resources: Resources) -> None:
    resources.apply(broker(), FIELD_MANAGER)
    head = {key: broker()[key] for key in ("apiVersion", "kind", "metadata")}
    resources.apply(
        {**head, "spec": {"maintenance": {"disks": [{"name": "disk0", "desiredState": "Drained"}]}}}, "ann"
    )
    after = resources.apply(
        {**head, "spec": {"maintenance": {"disks": [{"name": "disk1", "desiredState": "Cordoned"}]}}}, "bob"
    )
    assert [entry["name"] for entry in after["spec"]["maintenance"]["disks"]] == ["disk0", "disk1"]
    after = resources.apply({**head, "spec": {}}, "ann")
    assert [entry["name"] for entry in after["spec"]["maintenance"]["disks"]] == ["disk1"]


def test_applying_twice_writes_nothing(resources: Resources) -> None:
    """Defaults must not make the same request look like another one."""
    resources.apply(cluster(), FIELD_MANAGER, force=True)
    # Once: the default of status, which the API server does not store when it creates an object.
    first = resources.apply(cluster(), FIELD_MANAGER, force=True)
    again = resources.apply(cluster(), FIELD_MANAGER, force=True)
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]
    assert again["metadata"]["generation"] == 1


def test_status_is_apart_from_spec(resources: Resources) -> None:
    stored = resources.create(bent(cluster(), {"status": {"phase": "not yours to say"}}))
    assert resources.get(stored)["status"] == {"observedGeneration": -1}, "for kstatus: not looked at yet"
    status = KafkaClusterStatus.parse({"phase": "Running.", "brokers": {"total": 3, "ready": 2}})
    resources.report({**cluster(), "spec": stored["spec"], "status": status.to_dict()}, FIELD_MANAGER)
    after = KafkaCluster.parse(resources.get(stored))
    assert after.status
    assert (after.status.phase, after.status.brokers and after.status.brokers.summary) == ("Running.", "2/3")
    assert after.metadata.generation == 1


def test_columns_read_well(api_server: ApiServer, resources: Resources) -> None:
    stored = resources.create(cluster())
    status = {
        "phase": "Running; broker 2 is starting.",
        "conditions": [{"type": "Ready", "status": "False", "reason": "BrokersStarting"}],
        "racks": [{"rack": "a", "brokers": [0]}, {"rack": "b", "brokers": [1, 2]}],
        "brokers": {"total": 3, "ready": 2},
        "disks": {"total": 6, "healthy": 6},
    }
    resources.report(
        {**cluster(), "spec": stored["spec"], "status": KafkaClusterStatus.parse(status).to_dict()},
        FIELD_MANAGER,
    )
    resources.create(bent(broker(), {"spec.node": "n1", "spec.rack": "a"}))
    report = {"state": "Running", "disksSummary": "2/2", "fullest": "12%"}
    resources.report({**broker(), "status": report}, FIELD_MANAGER)
    resources.create(rebalance())

    def row(kind: str) -> dict[str, str]:
        head, line = api_server.kubectl("get", kind, "-n", resources.namespace).splitlines()
        starts = [head.index(title) for title in head.split()]
        ends = [*starts[1:], None]
        return {head[a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}

    found = row("skc")
    assert found.pop("AGE")
    assert found == {
        "NAME": "demo", "VERSION": "4.3.1", "BROKERS": "2/3", "DISKS": "6/6", "RACKS": "2", "READY": "False",
        "STATUS": "Running; broker 2 is starting.",
    }  # fmt: skip
    found = row("skb")
    assert found.pop("AGE")
    assert found == {
        "NAME": "demo-broker-0", "ID": "0", "RACK": "a", "NODE": "n1", "DISKS": "2/2", "FULLEST": "12%", "STATE": "Running",
    }  # fmt: skip
    assert row("skr")["CLUSTER"] == "demo"
    assert (
        len(api_server.kubectl("get", "spindle", "-n", resources.namespace, "-o", "name").splitlines()) == 3
    )
