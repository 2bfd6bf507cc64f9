"""Which volume a disk that is added gets, and the pod that has one made."""

from typing import Any

import pytest

from spindle.api import names
from spindle.brokers.volume_room import DiskWant, class_of, free_volume, is_static, reachable
from spindle.manifests.claim_pods import claim_pod
from spindle.model.node_inputs import ClusterInputs

NODE = {"metadata": {"name": "node1", "labels": {"kubernetes.io/hostname": "node1"}}}
CLASSES = [
    {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"},
    {
        "metadata": {
            "name": "cloud",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": "csi.example.com",
    },
]


def volume(name: str, size: str = "100Gi", node: str = "node1", **spec: Any) -> dict[str, Any]:
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def chosen(*volumes: dict[str, Any], size: str = "100Gi") -> str | None:
    found = free_volume(NODE, volumes, CLASSES, DiskWant(size, "local"))
    return None if found is None else str(found["metadata"]["name"])


def test_the_smallest_that_is_large_enough() -> None:
    assert chosen(volume("c", "300Gi"), volume("b", "120Gi"), volume("a", "50Gi")) == "b"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(volume("x", node="node2"), id="on another node"),
        pytest.param(volume("x", claimRef={"name": "y", "namespace": "z"}), id="kept for a claim"),
        pytest.param(volume("x", storageClassName="cloud"), id="of another class"),
        pytest.param(volume("x", "99Gi"), id="too small"),
        pytest.param(volume("x") | {"status": {"phase": "Released"}}, id="somebody's before"),
    ],
)
def test_no_other_is_taken(other: dict[str, Any]) -> None:
    assert chosen(other) is None
    assert chosen(other, volume("w")) == "w"


def test_who_makes_volumes() -> None:
    assert is_static(class_of("local", CLASSES))
    assert not is_static(class_of(None, CLASSES))
    assert is_static(class_of("unheard-of", CLASSES))


def test_a_volume_without_affinity_is_everywhere() -> None:
    assert reachable({"spec": {}}, NODE)
    assert not reachable(volume("x", node="node2"), NODE)


def test_the_pod_that_asks_for_a_volume_is_nobodys_but_the_clusters() -> None:
    shared = ClusterInputs(
        name="demo",
        namespace="kafka",
        uid="u",
        cluster_id="cid",
        version="4.3.1",
        spindle_image="spindle:1",
        tolerations=({"key": "dedicated", "operator": "Exists"},),
    )
    pod = claim_pod(shared, "data-disk2-demo-0", "node1")
    assert pod["metadata"]["name"] == "data-disk2-demo-0"
    assert set(pod["metadata"]["labels"]) == {names.LABEL_CLUSTER, names.LABEL_MANAGED_BY}
    assert "node1" in str(pod["spec"]["affinity"])
    assert {"key": "dedicated", "operator": "Exists"} in pod["spec"]["tolerations"]
    assert pod["spec"]["volumes"] == [
        {"name": "disk", "persistentVolumeClaim": {"claimName": "data-disk2-demo-0"}}
    ]
