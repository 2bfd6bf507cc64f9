import json
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.config_maps import node_config_map
from spindle.manifests.pods import broker_pod, controller_pod, spec_hash
from spindle.model.node_inputs import PLACEHOLDER, ClusterInputs, DiskInputs, NodeInputs, VoterInputs, Zone

CLUSTER = ClusterInputs(
    name="demo", namespace="kafka", uid="u", cluster_id="cid", version="4.3.1", spindle_image="spindle:1"
)
DISKS = tuple(
    DiskInputs(name=f"disk{i}", claim=f"data-disk{i}-demo-3", directory_id=f"dir{i}") for i in range(2)
)
BROKER = NodeInputs(node_id=3, server_properties="a=b\n", disks=DISKS, pool="main")
CONTROLLER = NodeInputs(
    node_id=9001,
    server_properties="a=b\n",
    disks=(DiskInputs(name="metadata", claim="data-metadata-demo-9001", directory_id="m"),),
)


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["name"]: c for c in pod["spec"]["initContainers"] + pod["spec"]["containers"]}


def volumes(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {volume["name"]: volume for volume in pod["spec"]["volumes"]}


def paths(container: dict[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container["volumeMounts"]]


def test_who_a_broker_is() -> None:
    pod = broker_pod(CLUSTER, BROKER)
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "demo-broker-3"
    assert pod["spec"]["subdomain"] == "demo-brokers"
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("KafkaCluster", "u", True)
    labels = pod["metadata"]["labels"]
    assert labels[names.LABEL_BUDGET] == "demo-brokers"
    assert (labels[names.LABEL_POOL], labels[names.LABEL_NODE_ID]) == ("main", "3")
    assert json.loads(pod["metadata"]["annotations"][names.ANN_DISKS]) == [
        {"name": "disk0", "directoryId": "dir0", "fsUuid": None, "mode": "Active"},
        {"name": "disk1", "directoryId": "dir1", "fsUuid": None, "mode": "Active"},
    ]


def test_who_a_controller_is() -> None:
    pod = controller_pod(CLUSTER, CONTROLLER)
    assert pod["metadata"]["name"] == "demo-controller-1"
    assert pod["spec"]["subdomain"] == "demo-controllers"
    assert pod["metadata"]["labels"][names.LABEL_BUDGET] == "demo-controllers"
    assert names.LABEL_POOL not in pod["metadata"]["labels"]
    assert volumes(pod)["metadata"]["persistentVolumeClaim"]["claimName"] == "data-metadata-demo-9001"
    with pytest.raises(ValueError, match="one disk"):
        controller_pod(CLUSTER, replace(CONTROLLER, disks=DISKS))


def test_each_disk_is_mounted_below_an_empty_dir_in_every_container() -> None:
    pod = broker_pod(CLUSTER, BROKER)
    assert "emptyDir" in volumes(pod)["disks"]
    assert "emptyDir" in volumes(pod)["metadata"]
    for container in containers(pod).values():
        mounted = paths(container)
        assert mounted.index(names.DISKS_ROOT) < mounted.index(f"{names.DISKS_ROOT}/disk0")
        assert f"{names.DISKS_ROOT}/disk1" in mounted
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes(pod))


def test_placeholder_has_no_volume() -> None:
    pod = broker_pod(CLUSTER, replace(BROKER, disks=(DISKS[0], replace(DISKS[1], mode=PLACEHOLDER))))
    assert "disk-disk1" not in volumes(pod)
    assert all(f"{names.DISKS_ROOT}/disk1" not in paths(container) for container in containers(pod).values())
    assert len(json.loads(pod["metadata"]["annotations"][names.ANN_DISKS])) == 2


def test_secrets_reach_kafka_only() -> None:
    found = {
        name: names.TLS_DIR in paths(container)
        for name, container in containers(broker_pod(CLUSTER, BROKER)).items()
    }
    assert found == {"inspect": False, "preflight": False, "kafka": True}


def test_no_privileges() -> None:
    spec = broker_pod(CLUSTER, BROKER)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    for container in spec["initContainers"] + spec["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_stays_on_a_node_that_is_away() -> None:
    own = {"key": "dedicated", "operator": "Exists"}
    tolerations = broker_pod(replace(CLUSTER, tolerations=(own,)), BROKER)["spec"]["tolerations"]
    stay = [t for t in tolerations if t["key"].startswith("node.kubernetes.io/")]
    assert {t["key"].split("/")[1] for t in stay} >= {"not-ready", "unreachable"}
    assert all("tolerationSeconds" not in t for t in stay)
    assert own in tolerations


def test_scheduling() -> None:
    pod = broker_pod(CLUSTER, replace(BROKER, zone=Zone(topology_key="zone", value="a")))
    affinity = pod["spec"]["affinity"]
    (term,) = affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["labelSelector"]["matchLabels"] == {names.LABEL_CLUSTER: "demo", names.LABEL_ROLE: "broker"}
    assert "affinity" not in broker_pod(replace(CLUSTER, shared_nodes=True), BROKER)["spec"]


def test_resources_are_the_users_over_the_defaults() -> None:
    def resources(given: dict[str, Any] | None) -> dict[str, Any]:
        kafka = containers(broker_pod(CLUSTER, replace(BROKER, resources=given)))["kafka"]
        return dict(kafka["resources"])

    assert resources(None) == {"requests": {"cpu": "250m", "memory": "1200Mi"}}
    assert resources({"requests": {"cpu": "2"}}) == {"requests": {"cpu": "2", "memory": "1200Mi"}}
    # A limit below the default request would be refused.
    assert resources({"limits": {"memory": "512Mi"}}) == {
        "requests": {"cpu": "250m"},
        "limits": {"memory": "512Mi"},
    }


def test_image_and_jvm() -> None:
    kafka = containers(broker_pod(CLUSTER, replace(BROKER, heap="6g", jvm_options=("-Da=b", "-Dc"))))["kafka"]
    assert kafka["image"] == "apache/kafka:4.3.1"
    assert {"name": "KAFKA_HEAP_OPTS", "value": "-Xms6g -Xmx6g"} in kafka["env"]
    assert {"name": "KAFKA_OPTS", "value": "-Da=b -Dc"} in kafka["env"]
    own = containers(broker_pod(replace(CLUSTER, image="mine:1"), BROKER))["kafka"]
    assert own["image"] == "mine:1"


def test_metrics_that_are_for_nobody_are_open_inside_of_the_pod_alone() -> None:
    pod = broker_pod(replace(CLUSTER, metrics=False), BROKER)
    kafka = containers(pod)["kafka"]
    assert names.PORT_METRICS not in [port["containerPort"] for port in kafka["ports"]]
    for probe in ("startupProbe", "livenessProbe"):
        assert kafka[probe]["exec"]["command"][-1] == "exec 3<>/dev/tcp/127.0.0.1/9404"
        assert "tcpSocket" not in kafka[probe]
    (preflight,) = (c for c in pod["spec"]["initContainers"] if c["name"] == "preflight")
    assert {"name": "SPINDLE_METRICS_BIND", "value": "127.0.0.1"} in preflight["env"]
    offered = broker_pod(CLUSTER, BROKER)
    assert containers(offered)["kafka"]["livenessProbe"]["tcpSocket"] == {"port": "metrics"}
    assert "SPINDLE_METRICS_BIND" not in str(offered)


def test_what_a_pod_may_take_of_its_node_is_bounded() -> None:
    for pod in (broker_pod(CLUSTER, BROKER), controller_pod(CLUSTER, CONTROLLER)):
        folders = [volume["emptyDir"] for volume in pod["spec"]["volumes"] if "emptyDir" in volume]
        assert folders
        assert all(folder["sizeLimit"] for folder in folders)
        for container in pod["spec"]["initContainers"]:
            assert container["resources"]["limits"]["memory"]


BASE = spec_hash(CLUSTER, BROKER)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(replace(BROKER, server_properties="a=c\n"), id="config"),
        pytest.param(replace(BROKER, heap="2g"), id="heap"),
        pytest.param(replace(BROKER, resources={"requests": {"cpu": "1"}}), id="resources"),
        pytest.param(replace(BROKER, disks=DISKS[:1]), id="fewer-disks"),
        pytest.param(
            replace(BROKER, disks=(DISKS[0], replace(DISKS[1], directory_id="new"))), id="replaced-disk"
        ),
        pytest.param(
            replace(BROKER, disks=(DISKS[0], replace(DISKS[1], mode=PLACEHOLDER))), id="placeholder"
        ),
    ],
)
def test_hash_changes_with_what_a_pod_must_be_remade_for(node: NodeInputs) -> None:
    assert spec_hash(CLUSTER, node) != BASE
    assert broker_pod(CLUSTER, node)["metadata"]["annotations"][names.ANN_SPEC_HASH] == spec_hash(
        CLUSTER, node
    )


@pytest.mark.parametrize(
    ("cluster", "node"),
    [
        pytest.param(CLUSTER, replace(BROKER, zone=Zone(topology_key="zone", value="a")), id="zone"),
        pytest.param(CLUSTER, replace(BROKER, budget="demo-rack-a"), id="budget"),
        pytest.param(
            CLUSTER, replace(BROKER, disks=tuple(replace(d, fs_uuid="f") for d in DISKS)), id="fs-uuid"
        ),
        pytest.param(replace(CLUSTER, spindle_image="spindle:2"), BROKER, id="spindle-image"),
        pytest.param(replace(CLUSTER, shared_nodes=True), BROKER, id="shared-nodes"),
    ],
)
def test_hash_does_not_change_with_what_the_next_restart_takes_anyway(
    cluster: ClusterInputs, node: NodeInputs
) -> None:
    assert spec_hash(cluster, node) == BASE


def test_hash_of_a_placeholder_forgets_which_disk_it_stands_for() -> None:
    dead = replace(DISKS[1], mode=PLACEHOLDER)
    before = replace(BROKER, disks=(DISKS[0], dead))
    after = replace(BROKER, disks=(DISKS[0], replace(dead, claim="new", directory_id="new", fs_uuid="new")))
    assert spec_hash(CLUSTER, before) == spec_hash(CLUSTER, after)


def test_config_map() -> None:
    made = node_config_map(CLUSTER, CONTROLLER, (VoterInputs(node_id=9000, directory_id="n"),))
    assert made["metadata"]["name"] == "demo-controller-1-config"
    assert made["data"]["server.properties"] == "a=b\n"
    document = json.loads(made["data"]["node.json"])
    assert (document["nodeId"], document["role"], document["releaseVersion"]) == (9001, "controller", "4.3")
    assert document["voters"] == [
        {"id": 9000, "host": "demo-controller-0.demo-controllers.kafka.svc", "port": 9090, "directoryId": "n"}
    ]
    assert "voters" not in json.loads(node_config_map(CLUSTER, BROKER)["data"]["node.json"])
