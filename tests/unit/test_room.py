"""How many brokers' disks fit on each node."""

from typing import Any

import pytest

from spindle.brokers.volume_room import DiskWant, room

STATIC = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner"}
DYNAMIC = {"metadata": {"name": "cloud"}, "provisioner": "ebs.csi.aws.com"}
NODES = [
    {"metadata": {"name": n, "labels": {"kubernetes.io/hostname": f"{n}.lan", "z": n[0]}}}
    for n in ("a1", "b1")
]


def volume(
    node: str | None = "a1", size: str = "100Gi", phase: str = "Available", **spec: Any
) -> dict[str, Any]:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"{node}.lan"]}
    affinity = (
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}} if node else {}
    )
    full = {
        "storageClassName": "local",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        **affinity,
    }
    return {"metadata": {"name": "pv"}, "spec": {**full, **spec}, "status": {"phase": phase}}


def two(size: str = "100Gi") -> list[DiskWant]:
    return [DiskWant(size, "local")] * 2


@pytest.mark.parametrize(
    ("volumes", "disks", "expected"),
    [
        pytest.param([volume()] * 2, two(), {"a1": 1, "b1": 0}, id="just-enough"),
        pytest.param([volume()] * 5, two(), {"a1": 2, "b1": 0}, id="two-brokers-and-one-over"),
        pytest.param([volume()], two(), {"a1": 0, "b1": 0}, id="one-short"),
        pytest.param([volume(size="99Gi"), volume()], two(), {"a1": 0, "b1": 0}, id="one-too-small"),
        pytest.param(
            [volume(size="102400Mi"), volume(size="1Ti")], two(), {"a1": 1, "b1": 0}, id="other-units"
        ),
        pytest.param([volume(phase="Bound"), volume()], two(), {"a1": 0, "b1": 0}, id="bound"),
        pytest.param([volume(phase="Released"), volume()], two(), {"a1": 0, "b1": 0}, id="released"),
        pytest.param([volume(claimRef={"name": "x"}), volume()], two(), {"a1": 0, "b1": 0}, id="reserved"),
        pytest.param([volume(volumeMode="Block"), volume()], two(), {"a1": 0, "b1": 0}, id="block-device"),
        pytest.param(
            [volume(accessModes=["ReadOnlyMany"]), volume()], two(), {"a1": 0, "b1": 0}, id="read-only"
        ),
        pytest.param([volume(storageClassName="x"), volume()], two(), {"a1": 0, "b1": 0}, id="other-class"),
        pytest.param([volume(size="odd"), volume()], two(), {"a1": 0, "b1": 0}, id="size-is-no-quantity"),
        pytest.param([volume(None)] * 2, two(), {"a1": 1, "b1": 1}, id="reachable-from-everywhere"),
        pytest.param([{"spec": None}, {}, volume(), volume()], two(), {"a1": 1, "b1": 0}, id="odd-objects"),
        pytest.param(
            [volume(size="10Gi"), volume()],
            [DiskWant("100Gi", "local"), DiskWant("10Gi", "local")],
            {"a1": 1, "b1": 0},
            id="two-sizes",
        ),
        pytest.param(
            [volume()] * 2,
            [DiskWant("100Gi", "local"), DiskWant("10Gi", "local"), DiskWant("10Gi", "cloud")],
            {"a1": 1, "b1": 0},
            id="dynamic-ones-do-not-count",
        ),
    ],
)
def test_free_local_volumes_count(
    volumes: list[dict[str, Any]], disks: list[DiskWant], expected: dict[str, int]
) -> None:
    assert room(NODES, volumes, [STATIC, DYNAMIC], disks) == expected


def test_a_provisioner_sets_no_limit() -> None:
    assert room(NODES, [], [DYNAMIC], [DiskWant("1Gi", "cloud")]) is None


def test_the_default_class_is_the_newest_of_those_marked() -> None:
    def marked(name: str, provisioner: str, when: str) -> dict[str, Any]:
        note = {"storageclass.kubernetes.io/is-default-class": "true"}
        return {
            "metadata": {"name": name, "annotations": note, "creationTimestamp": when},
            "provisioner": provisioner,
        }

    old = marked("local", "kubernetes.io/no-provisioner", "2026-01-01T00:00:00Z")
    new = marked("cloud", "ebs.csi.aws.com", "2026-02-01T00:00:00Z")
    assert room(NODES, [], [old, new], [DiskWant("1Gi")]) is None
    assert room(NODES, [volume()], [old, DYNAMIC], [DiskWant("1Gi")]) == {"a1": 1, "b1": 0}


def test_without_a_default_class_only_volumes_without_class_do() -> None:
    assert room(NODES, [volume(), volume("b1", storageClassName="")], [STATIC], [DiskWant("1Gi")]) == {
        "a1": 0,
        "b1": 1,
    }


def test_a_class_without_an_object_has_what_volumes_name_it() -> None:
    assert room(NODES, [volume(storageClassName="by-hand")], [], [DiskWant("1Gi", "by-hand")]) == {
        "a1": 1,
        "b1": 0,
    }


def test_a_volume_may_be_bound_to_a_zone() -> None:
    required = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "In", "values": ["b"]}]}]
    }
    assert room(
        NODES, [volume(nodeAffinity={"required": required})], [STATIC], [DiskWant("1Gi", "local")]
    ) == {
        "a1": 0,
        "b1": 1,
    }


@pytest.mark.parametrize(
    ("volumes", "reserve", "expected"),
    [
        ([volume()] * 3, [DiskWant("1Gi", "local")], 1),
        ([volume()] * 2, [DiskWant("1Gi", "local")], 0),
        ([volume()] * 2, [DiskWant("1Gi", "cloud")], 1),
        ([volume()] * 2, [DiskWant("200Gi", "local")], 1),
        # The smallest volume that will do is taken: that is how the volume binder chooses.
        ([volume(), volume(), volume(size="1Gi")], [DiskWant("1Gi", "local")], 1),
        ([volume(), volume(), volume(size="1Gi")], [DiskWant("2Gi", "local")], 0),
    ],
)
def test_what_others_may_still_take_is_left_free(
    volumes: list[dict[str, Any]], reserve: list[DiskWant], expected: int
) -> None:
    found = room(NODES, volumes, [STATIC, DYNAMIC], two(), reserve)
    assert found
    assert found["a1"] == expected
