"""Pools with ``disks.all``: every free local volume of a class on a broker's node becomes one of its disks.

The KafkaBroker records which disks a broker has. That record only grows here: a volume that is not listed any more takes no disk away ("unknown is not
absent", `docs/safety.md`, rule 8). A disk leaves only by the removals of `spindle.storage.remove_disks`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from spindle.api import names
from spindle.api.pools import SMALLEST, BrokerPool
from spindle.api.quantity import whole
from spindle.brokers.topology import reserved_for_controllers
from spindle.brokers.volume_room import (
    DiskWant,
    class_name,
    class_of,
    free_volume,
    is_free,
    is_static,
    reachable,
)
from spindle.model import disk_facts, objects
from spindle.model.broker_disks import disks_of
from spindle.model.claim_volumes import hosts_of_volumes, is_for, is_reserved
from spindle.model.lost_brokers import node_is_lost
from spindle.model.maintenance import disk_requests
from spindle.model.nodes import section
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_LEAST: Final = whole(SMALLEST)
_MODE: Final = "WaitForFirstConsumer"


def class_problem(state: ClusterState, pool: BrokerPool) -> Waiting | None:
    """Why the volumes of a pool's class do not belong to nodes; None if they do, or if the pool does not use all of them."""
    found = class_of(pool.disks.storage_class, state.snap.storage_classes) if pool.disks.all else None
    if found is None:
        return None
    name = objects.name(found)
    if not is_static(found):
        why = f"has the provisioner {found.get('provisioner')}: it has no volumes before claims request them"
    elif found.get("volumeBindingMode") != _MODE:
        why = "has volumeBindingMode Immediate: Kubernetes binds claims of it to volumes of any node"
    else:
        return None
    return Waiting(
        "PlaceBroker",
        f"Pool/{pool.name}",
        "ClassNotLocal",
        f"Pool {pool.name} uses all volumes of StorageClass {name} on the node of each broker (disks.all), and {name} {why}. Spindle places no broker and "
        "adds no disk; existing brokers run as before.",
        f"Write disks.count and disks.size in pool {pool.name} instead of disks.all; or add a pool whose class has provisioner "
        f"kubernetes.io/no-provisioner and volumeBindingMode {_MODE}, and remove pool {pool.name}.",
    )


@dataclass(frozen=True)
class NodeVolumes:
    """The free local volumes of each node, and which broker uses them next.

    Attributes:
        state: of the pass.
        reserve: one disk of each controller that has none yet: on each node the smallest volume that it could bind is left free.
        given: names of the volumes that this pass has recorded or reserved for a disk.
    """

    state: ClusterState
    reserve: tuple[DiskWant, ...] = ()
    given: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, state: ClusterState) -> "NodeVolumes":
        """Those of a pass."""
        return cls(state, tuple(reserved_for_controllers(state)))

    def on(self, node: str, storage_class: str | None) -> list[SnapshotObject]:
        """The free volumes of a class on a node that no disk has on record: the largest first, equal ones by name."""
        found = list(self._by_node.get((node, storage_class or ""), ()))
        for want in self.reserve:
            if want.storage_class == storage_class:
                fitting = [volume for volume in found if size_of(volume) >= whole(want.size)]
                found = [volume for volume in found if volume is not fitting[-1]] if fitting else found
        return found

    @cached_property
    def _by_node(self) -> Mapping[tuple[str, str], list[SnapshotObject]]:
        state = self.state
        found: dict[tuple[str, str], list[SnapshotObject]] = {}
        for volume in state.snap.volumes:
            node = state.node_by_host.get(objects.pinned_to(volume) or "")
            if node is None or not is_free(volume) or size_of(volume) < _LEAST:
                continue
            if objects.name(volume) in self._recorded:
                continue
            if reachable(volume, state.nodes[node]):
                key = node, str(section(volume, "spec").get("storageClassName") or "")
                found.setdefault(key, []).append(volume)
        return {
            key: sorted(volumes, key=lambda v: (-size_of(v), objects.name(v)))
            for key, volumes in found.items()
        }

    @cached_property
    def _recorded(self) -> frozenset[str]:
        """Names of the volumes on record for disks that are not bound to them yet."""
        disks = ((broker, disk) for broker in self.state.brokers.values() for disk in disks_of(broker))
        return frozenset(name for broker, disk in disks if (name := chosen(self.state, broker, disk)))

    def give(self, broker: SnapshotObject) -> SnapshotObject | None:
        """The free volume for the next disk of a broker, which no other disk gets in this pass; None if its node has none."""
        found = self._next(broker)
        if found is not None:
            self.given.add(objects.name(found))
        return found

    def _next(self, broker: SnapshotObject) -> SnapshotObject | None:
        state, broker_id, pool = self.state, int(broker["spec"]["id"]), self.state.pool_of(broker)
        if pool is None or pool.disks.all:
            mine = self.of_brokers.get(broker_id, ())
            return next((volume for volume in mine if objects.name(volume) not in self.given), None)
        node = state.nodes.get(node_of_broker(state, broker_id) or "")
        if node is None:
            return None
        others = [v for v in state.snap.volumes if objects.name(v) not in self.given | self._recorded]
        want = DiskWant(pool.disks.least_size, pool.disks.storage_class)
        return free_volume(node, others, state.snap.storage_classes, want)

    @cached_property
    def of_brokers(self) -> Mapping[int, list[SnapshotObject]]:
        """Broker → the free volumes that are its next disks: those on its node, up to maxCount. Of brokers on one node, the lower id goes first."""
        found: dict[int, list[SnapshotObject]] = {}
        taken: set[str] = set()
        for broker_id, broker in self.state.brokers.items():
            pool = self.state.pool_of(broker)
            if pool is None or not pool.disks.all or class_problem(self.state, pool) is not None:
                continue
            node = node_of_broker(self.state, broker_id)
            if node is None or broker["spec"].get("leaving") or node_is_lost(self.state, broker_id):
                continue
            free = [v for v in self.on(node, pool.disks.storage_class) if objects.name(v) not in taken]
            having = sum(has_volume(self.state, broker, disk) for disk in disks_of(broker))
            found[broker_id] = free[: max(0, pool.disks.most - having)]
            taken.update(objects.name(volume) for volume in found[broker_id])
        return found

    @cached_property
    def taken(self) -> frozenset[str]:
        """Names of the volumes that are the next disks of existing brokers."""
        following = (objects.name(volume) for mine in self.of_brokers.values() for volume in mine)
        return self._recorded.union(following)

    def unclaimed(self, pool: BrokerPool) -> dict[str, list[SnapshotObject]]:
        """Node → the disks that a new broker of a pool would have there; without nodes that have none."""
        wanted = pool.disks.storage_class
        nodes = sorted(node for node, each in self._by_node if each == (wanted or ""))
        left = {
            node: [v for v in self.on(node, wanted) if objects.name(v) not in self.taken] for node in nodes
        }
        return {node: volumes[: pool.disks.most] for node, volumes in left.items() if volumes}


def size_of(volume: SnapshotObject) -> int:
    """Capacity of a volume in bytes; -1 if it cannot be parsed."""
    try:
        return whole(str(section(volume, "spec", "capacity").get("storage")))
    except ValueError:
        return -1


def node_of_broker(state: ClusterState, broker_id: int) -> str | None:
    """The node of the broker's volumes, else of its pod, else the node on record."""
    broker = state.brokers[broker_id]
    nodes = (state.node_by_host.get(host) for host in hosts_of_volumes(state, broker))
    of_volumes = next((node for node in nodes if node), None)
    return of_volumes or state.node_of(broker_id) or broker["spec"].get("node") or None


def has_volume(state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any]) -> bool:
    """Whether a disk has a claim or a volume, or one is on record or reserved for it; a disk that was in use had one, and has none to wait for."""
    claim = str(disk["claim"])
    used = disk.get("pvUid") and not _untouched(disk)
    return bool(used or claim in state.claims or chosen(state, broker, disk)) or any(
        _held(state, broker, disk, volume)
        for volume in state.volumes.values()
        if is_for(state, volume, claim)
    )


def _held(
    state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any], volume: SnapshotObject
) -> bool:
    """Whether a volume that refers to the claim of a disk is bound to it, which may not be listed yet, or reserved for it.

    Not if somebody else reserved it and it cannot become this disk: then the disk gets another one.
    """
    if section(volume, "status").get("phase") == "Released":
        return False
    bound = bool(section(volume, "spec", "claimRef").get("uid"))
    return bound or is_reserved(volume) or may_become(state, broker, disk, volume)


def chosen(state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any]) -> str | None:
    """Name of the volume on record for a disk that is not bound to it yet; None without one, or if it is listed and cannot become this disk any more.

    A volume that is not listed stays the one of this disk: it may be reserved for it.
    """
    name = str(disk.get("pv") or "")
    if not name or disk.get("pvUid"):
        return None
    volume = state.volumes.get(name)
    return name if volume is None or may_become(state, broker, disk, volume) else None


def may_become(
    state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any], volume: SnapshotObject
) -> bool:
    """Whether a volume is free or reserved for a disk, is of its broker's class and on its node, and is large enough."""
    spec, pool = section(volume, "spec"), state.pool_of(broker)
    if spec.get("claimRef") and not is_for(state, volume, disk["claim"]):
        return False
    if section(volume, "status").get("phase") == "Released":
        return False  # the claim of this disk was bound to it and was deleted
    if pool is not None:
        own_class = class_name(pool.disks.storage_class, state.snap.storage_classes)
        if str(spec.get("storageClassName") or "") != own_class or size_of(volume) < whole(
            pool.disks.least_size
        ):
            return False
    node = state.nodes.get(node_of_broker(state, int(broker["spec"]["id"])) or "")
    return node is None or reachable(volume, node)


def new_names(state: ClusterState, broker: SnapshotObject, free: int) -> list[str]:
    """Names of the disks to add to a broker for its free volumes: the lowest that are not in use.

    Args:
        state: of the pass.
        broker: its record.
        free: number of free volumes that are its next disks; some of its disks may be waiting for them already.
    """
    disks = disks_of(broker)
    waiting = waiting_for_volumes(state, broker)
    drained = {disk for disk, request in disk_requests(broker).items() if request.drained}
    return unused_names({disk["name"] for disk in disks} | drained, free - waiting)


def waiting_for_volumes(state: ClusterState, broker: SnapshotObject) -> int:
    """How many of a broker's disks have no volume and none on record."""
    return sum(not has_volume(state, broker, disk) for disk in disks_of(broker))


def unused_names(taken: Collection[str], number: int) -> list[str]:
    """The lowest names of disks that are not taken."""
    candidates = (names.disk_name(i) for i in range(len(taken) + max(0, number)))
    return [name for name in candidates if name not in taken][: max(0, number)]


def kept_names(pool: BrokerPool, disks: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Names of a broker's disks, in their order, that the spec allows: all of them, unless maxCount was decreased."""
    return frozenset([str(disk["name"]) for disk in disks][: pool.disks.most])


def without_volume(state: ClusterState, broker: SnapshotObject, free: int) -> frozenset[str]:
    """Added disks whose volume is listed and was bound by something else before Spindle had reserved it. No pod ever had such a disk.

    Args:
        state: of the pass.
        broker: its record.
        free: number of free volumes that are its next disks.
    """
    waiting = [d for d in disks_of(broker) if _untouched(d) and not has_volume(state, broker, d)]
    return frozenset(str(disk["name"]) for disk in waiting[max(0, free) :])


def _untouched(disk: Mapping[str, Any]) -> bool:
    return bool(disk.get("added")) and not disk.get("fsUuid") and disk.get("mode") == disk_facts.ABSENT
