"""What is kept in a backup, and what stands against putting it back."""

import copy
from typing import Any

import pytest

from spindle.api import names
from spindle.manifests.backup import (
    backup,
    not_retained,
    obstacles,
    parse_backup,
    reserve,
    restored,
    with_secrets,
)
from tests.model.world import World

LABELS = {names.LABEL_CLUSTER: "demo"}


def running() -> World:
    world = World.of()
    world.settle()
    return world


def kept_of(world: World) -> list[dict[str, Any]]:
    claims = [{**claim, "apiVersion": "v1"} for claim in world.all("PersistentVolumeClaim")]
    record = {**world.get("ConfigMap", "demo-identity"), "apiVersion": "v1"}
    return backup([world.cluster, record, *claims])


def volumes(world: World) -> dict[str, Any]:
    """As they are when the namespace was deleted and they were retained."""
    found = {each["metadata"]["name"]: copy.deepcopy(each) for each in world.all("PersistentVolume")}
    for claim in world.all("PersistentVolumeClaim"):
        volume = found[claim["spec"]["volumeName"]]
        volume["spec"]["claimRef"] = {
            "namespace": "kafka",
            "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"],
        }
        volume["status"] = {"phase": "Released"}
    return found


def test_a_cluster_that_was_put_back_is_the_same_one_and_nothing_is_formatted() -> None:
    old = running()
    kept = parse_backup(kept_of(old))
    assert obstacles(kept, "kafka", volumes(old), {}, lives=False) == []
    new = World.of()
    new.formatted = copy.deepcopy(old.formatted)
    new.partitions = old.partitions
    new.cluster["spec"] = copy.deepcopy(old.cluster["spec"])
    for volume in old.all("PersistentVolume"):
        free = copy.deepcopy(volume)
        free["spec"].pop("claimRef", None)
        free["status"] = {"phase": "Available"}
        new.put(free)
    for obj in kept.objects:
        if obj["kind"] == "PersistentVolumeClaim":
            new.put({**restored(obj, "kafka", {}), "status": {"phase": "Pending"}})
            volume = new.get("PersistentVolume", obj["spec"]["volumeName"])
            volume["spec"]["claimRef"] = {"namespace": "kafka", "name": obj["metadata"]["name"]}
            new.put(volume)
    before = len(new.formats)
    new.settle()
    assert new.cluster["status"]["clusterId"] == old.cluster["status"]["clusterId"]
    assert new.formats[before:] == []
    by_claim = {
        claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in old.all("PersistentVolumeClaim")
    }
    assert by_claim == {
        claim["metadata"]["name"]: claim["spec"]["volumeName"] for claim in new.all("PersistentVolumeClaim")
    }


def test_a_backup_has_nothing_of_the_kubernetes_that_it_came_from() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data-disk0-demo-0",
            "namespace": "kafka",
            "uid": "1",
            "resourceVersion": "2",
            "labels": LABELS,
            "finalizers": ["kubernetes.io/pvc-protection"],
            "annotations": {"pv.kubernetes.io/bind-completed": "yes", names.ANN_DISK: "disk0"},
        },
        "spec": {"volumeName": "pv-1"},
        "status": {"phase": "Bound"},
    }
    assert backup([claim]) == [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data-disk0-demo-0",
                "labels": LABELS,
                "annotations": {names.ANN_DISK: "disk0"},
            },
            "spec": {"volumeName": "pv-1"},
        }
    ]


def test_what_stands_against_it_is_told_at_once_and_by_name() -> None:
    world = running()
    kept = parse_backup(kept_of(world))
    found = volumes(world)
    names_of = [claim["spec"]["volumeName"] for claim in kept.claims]
    del found[names_of[0]]
    found[names_of[1]] |= {"status": {"phase": "Bound"}}
    found[names_of[1]]["spec"]["claimRef"] = {"namespace": "other", "name": "theirs"}
    there = {kept.claims[2]["metadata"]["name"]: {"spec": {"volumeName": "another"}}}
    told = "\n".join(obstacles(kept, "kafka", found, there, lives=True))
    for words in ("delete it first", f"Volume {names_of[0]}", "other/theirs", "has volume another"):
        assert words in told
    assert told.count("\n") == 3


def test_volumes_that_go_with_their_claims_are_told() -> None:
    world = running()
    claims, found = world.all("PersistentVolumeClaim"), volumes(world)
    for volume in found.values():
        volume["spec"]["persistentVolumeReclaimPolicy"] = "Retain"
    assert not_retained(claims, found) == []
    name = claims[0]["spec"]["volumeName"]
    found[name]["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    assert not_retained(claims, found) == [name]


def test_a_volume_is_kept_for_its_claim_and_for_no_other() -> None:
    reference = reserve("kafka", "data-disk0-demo-0")["spec"]["claimRef"]
    assert (reference["namespace"], reference["name"], reference["uid"]) == (
        "kafka",
        "data-disk0-demo-0",
        None,
    )


def test_secrets_go_with_their_user_or_their_cluster() -> None:
    owners = {
        ("KafkaUser", "alice"): {"metadata": {"uid": "u1"}},
        ("KafkaCluster", "demo"): {"metadata": {"uid": "c1"}},
    }
    of_user = {
        "kind": "Secret",
        "metadata": {"name": "s", "labels": {**LABELS, names.LABEL_USER: "alice"}},
    }
    of_cluster = {"kind": "Secret", "metadata": {"name": "demo-ca", "labels": LABELS}}
    found = [restored(obj, "kafka", owners)["metadata"]["ownerReferences"] for obj in (of_user, of_cluster)]
    assert [(owner["kind"], owner["name"], owner["uid"]) for (owner,) in found] == [
        ("KafkaUser", "alice", "u1"),
        ("KafkaCluster", "demo", "c1"),
    ]


@pytest.mark.parametrize(
    ("documents", "says"),
    [
        pytest.param(
            [{"kind": "Deployment", "metadata": {"name": "x"}}], "objects other than", id="another kind"
        ),
        pytest.param(["text"], "objects other than", id="text"),
        pytest.param([], "0 KafkaClusters", id="empty"),
        pytest.param(
            [
                {"kind": "KafkaCluster", "metadata": {"name": "demo"}},
                {"kind": "PersistentVolumeClaim", "metadata": {"name": "theirs"}},
            ],
            "claim theirs",
            id="a claim of others",
        ),
    ],
)
def test_what_is_no_backup_is_refused(documents: list[Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_backup(documents)


def test_a_secret_that_somebody_else_has_under_that_name_is_in_the_way() -> None:
    secret = {"kind": "Secret", "metadata": {"name": "demo-ca", "labels": LABELS}, "data": {"ca.key": "a2V5"}}
    cluster = {"kind": "KafkaCluster", "metadata": {"name": "demo"}}
    kept = parse_backup([cluster, secret])

    def against(there: dict[str, Any]) -> list[str]:
        return obstacles(kept, "kafka", {}, {}, lives=False, secrets={"demo-ca": there})

    theirs = {"metadata": {"name": "demo-ca"}, "data": {"ca.key": "b3RoZXI="}}
    assert against(theirs) == [
        "Secret demo-ca in namespace kafka exists and belongs to no KafkaCluster: delete it first if it is not needed."
    ]
    assert against({**theirs, "data": {"ca.key": "a2V5"}}) == [], "a restore that was cut off goes on"
    owned = {"name": "demo-ca", "ownerReferences": [{"kind": "KafkaCluster", "uid": "1"}]}
    assert against({**theirs, "metadata": owned}) == []


def test_a_cluster_that_is_put_back_names_the_authority_that_was_put_back_with_it() -> None:
    before = {
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "annotations": {names.ANN_RESTORED: "old", "a": "b"}},
    }
    assert with_secrets(before, ["new"])["metadata"]["annotations"] == {names.ANN_RESTORED: "new", "a": "b"}
    assert with_secrets(before, [])["metadata"]["annotations"] == {"a": "b"}
