"""Checks of where brokers and controllers would run: StorageClasses, volumes, nodes, zones. Pure functions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import quantity
from spindle.api.cluster import KafkaCluster
from spindle.model import nodes
from spindle.model.tolerations import STANDING_TOLERATIONS
from spindle.model.waiting import counted, some
from spindle_cli.doctor.facts import Facts, Finding, Level
from spindle_cli.kube import Json

_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
_LOCAL: Final = "kubernetes.io/no-provisioner"


@dataclass(frozen=True)
class Need:
    """Disks that a part of a cluster needs.

    Attributes:
        part: as in a sentence: "pool main".
        replicas: brokers or controllers.
        disks: of each of them.
        size: of each disk, in bytes.
        storage_class: None for the default one.
        all: whether each broker uses all volumes of the class on its node; `disks` and `size` are then the least that it needs.
    """

    part: str
    replicas: int
    disks: int
    size: int
    storage_class: str | None
    all: bool = False


def needs(cluster: KafkaCluster) -> list[Need]:
    """The disks of each part of a cluster."""
    spec, storage = cluster.spec, cluster.spec.controllers.storage
    pools = [
        Need(
            f"pool {pool.name}",
            pool.replicas,
            1 if pool.disks.all else pool.disks.most,
            quantity.whole(pool.disks.least_size),
            pool.disks.storage_class,
            pool.disks.all,
        )
        for pool in spec.broker_pools
    ]
    controllers = Need(
        "the controllers", spec.controllers.replicas, 1, quantity.whole(storage.size), storage.storage_class
    )
    return [*pools, controllers]


def storage_classes(facts: Facts) -> Iterator[Finding]:
    """Whether the StorageClasses exist that clusters name, or a default one where they name none."""
    if "classes" in facts.unreadable:
        return
    if not facts.clusters:
        yield _default_class(facts)
    for cluster in facts.clusters:
        for need in needs(cluster):
            yield _class_of(facts, cluster, need)


def _default_class(facts: Facts) -> Finding:
    default, there = default_class(facts), _names(facts.classes)
    if default is not None:
        return Finding("StorageClass", Level.OK, f"the default StorageClass is {nodes.name(default)}")
    return Finding(
        "StorageClass",
        Level.WARNING,
        f"no StorageClass is the default; there is {some(there) if there else 'none'}: the claims of a KafkaCluster that names none stay Pending",
        "Name one in the KafkaCluster (storageClass), or make one the default: kubectl annotate storageclass NAME "
        f"{_DEFAULT}=true",
    )


def _class_of(facts: Facts, cluster: KafkaCluster, need: Need) -> Finding:
    whose, there = f"{need.part} of {cluster.metadata.name}", _names(facts.classes)
    found = class_for(facts, need)
    if found is None and need.storage_class is None:
        return Finding(
            "StorageClass",
            Level.PROBLEM,
            f"{whose} names no StorageClass, and none is the default: its claims would stay Pending",
            f"Set storageClass there to one of {some(there)}." if there else _create_one(),
        )
    if found is None:
        return Finding(
            "StorageClass",
            Level.PROBLEM,
            f"{whose} names StorageClass {need.storage_class}, which does not exist",
            f"Create it, or name one of {some(there)}." if there else _create_one(),
        )
    name, local = nodes.name(found), found.get("provisioner") == _LOCAL
    if need.all and not (local and found.get("volumeBindingMode") == "WaitForFirstConsumer"):
        return Finding(
            "StorageClass",
            Level.PROBLEM,
            f"{whose} has disks.all, and the volumes of StorageClass {name} do not belong to nodes: it has provisioner {found.get('provisioner')} and "
            f"volumeBindingMode {found.get('volumeBindingMode')}",
            f"Write disks.count and disks.size there, or name a class with provisioner {_LOCAL} and volumeBindingMode WaitForFirstConsumer.",
        )
    if found.get("volumeBindingMode") != "WaitForFirstConsumer":
        return Finding(
            "StorageClass",
            Level.WARNING,
            f"{whose}: StorageClass {name} binds claims at once, so the node of a volume is chosen before that of the pod: brokers may end on few "
            "nodes or in one zone",
            f"Use a StorageClass with volumeBindingMode: WaitForFirstConsumer{' (a class cannot be changed: create another)' if there else ''}.",
        )
    return Finding(
        "StorageClass",
        Level.OK,
        f"{whose}: {name} ({'local volumes' if local else found.get('provisioner')})",
    )


def _create_one() -> str:
    return "Create a StorageClass: a provisioner of your platform, or local volumes with provisioner: kubernetes.io/no-provisioner."


def class_for(facts: Facts, need: Need) -> Json | None:
    """The StorageClass that the claims get; None if there is none."""
    if need.storage_class is None:
        return default_class(facts)
    return next((each for each in facts.classes if nodes.name(each) == need.storage_class), None)


def default_class(facts: Facts) -> Json | None:
    """The default StorageClass."""
    return next(
        (
            each
            for each in facts.classes
            if nodes.section(each, "metadata", "annotations").get(_DEFAULT) == "true"
        ),
        None,
    )


def volumes(facts: Facts) -> Iterator[Finding]:
    """Whether there are enough free local volumes for clusters that do not exist yet."""
    if {"volumes", "classes", "nodes"} & facts.unreadable.keys():
        return
    for cluster in facts.clusters:
        if cluster.metadata.name in facts.existing:
            continue
        for need in needs(cluster):
            found = class_for(facts, need)
            if found is not None and found.get("provisioner") == _LOCAL:
                yield _volumes(facts, cluster, need, nodes.name(found))


def _volumes(facts: Facts, cluster: KafkaCluster, need: Need, storage_class: str) -> Finding:
    whose, usable = f"{need.part} of {cluster.metadata.name}", usable_nodes(facts, cluster)
    free = [each for each in facts.volumes if is_free(each, storage_class, need.size)]
    by_node = {nodes.name(node): sum(1 for each in free if _reachable(each, node)) for node in usable}
    fit = [name for name, count in by_node.items() if count >= need.disks]
    hosts = (
        sum(by_node[name] // need.disks for name in fit)
        if cluster.spec.scheduling.shared_nodes and not need.all
        else len(fit)
    )
    each = counted(need.disks, "free volume")
    if hosts >= need.replicas and need.all:
        using = some([f"{name} {by_node[name]}" for name in sorted(fit)])
        return Finding("Volumes", Level.OK, f"{whose}: free volumes of {storage_class} on each node: {using}")
    if hosts >= need.replicas:
        return Finding(
            "Volumes", Level.OK, f"{whose}: {counted(len(fit), 'node')} with {each} of {storage_class}"
        )
    least = f"{need.size / 2**30:.3g}Gi"
    return Finding(
        "Volumes",
        Level.PROBLEM,
        f"{whose} needs {counted(need.replicas, 'node')} with {each} of class {storage_class} and at least {least} each; there are {hosts}: "
        + (
            some([f"{name} {count}" for name, count in sorted(by_node.items())])
            if by_node
            else "no usable node"
        ),
        f"Provide PersistentVolumes of class {storage_class} (phase Available, without claimRef), or lower replicas or disks.",
    )


def is_free(volume: Mapping[str, Any], storage_class: str, size: int) -> bool:
    """Whether a claim of this class and size could be bound to a volume."""
    spec = nodes.section(volume, "spec")
    capacity = nodes.section(spec, "capacity").get("storage")
    return (
        spec.get("storageClassName") == storage_class
        and not spec.get("claimRef")
        and nodes.section(volume, "status").get("phase") == "Available"
        and capacity is not None
        and quantity.whole(capacity) >= size
    )


def _reachable(volume: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    required = nodes.section(volume, "spec", "nodeAffinity").get("required")
    return required is None or nodes.matches_selector(node, required)


def usable_nodes(facts: Facts, cluster: KafkaCluster | None) -> list[Json]:
    """Nodes that brokers can be scheduled to now."""
    scheduling = cluster.spec.scheduling if cluster else None
    selector = dict(scheduling.node_selector) if scheduling else {}
    tolerations = [each.to_dict() for each in scheduling.tolerations] if scheduling else []
    return [
        node
        for node in facts.nodes
        if nodes.belongs(node, selector, tolerations)
        and nodes.admits(node, [*tolerations, *STANDING_TOLERATIONS])
    ]


def node_count(facts: Facts) -> Iterator[Finding]:
    """Whether there are enough nodes."""
    if "nodes" in facts.unreadable:
        return
    for cluster in (*facts.clusters,) or (None,):
        usable = [nodes.name(each) for each in usable_nodes(facts, cluster)]
        wanted = _most_brokers(cluster)
        if not usable:
            yield Finding(
                "Nodes",
                Level.PROBLEM,
                "no node can take a broker: all are cordoned, not ready, tainted, or do not match scheduling.nodeSelector",
                "Uncordon nodes, or set scheduling.tolerations and scheduling.nodeSelector of the KafkaCluster.",
            )
        elif cluster is not None and len(usable) < wanted and not cluster.spec.scheduling.shared_nodes:
            yield Finding(
                "Nodes",
                Level.PROBLEM,
                f"{cluster.metadata.name} needs {counted(wanted, 'node')}, one for each broker; brokers can be scheduled to "
                f"{counted(len(usable), 'node')}: {some(usable)}",
                "Add nodes, lower replicas, or set scheduling.sharedNodes: true (a node that fails then takes several brokers with it).",
            )
        else:
            yield Finding("Nodes", Level.OK, f"brokers can be scheduled to {counted(len(usable), 'node')}")


def _most_brokers(cluster: KafkaCluster | None) -> int:
    if cluster is None:
        return 1
    brokers = sum(pool.replicas for pool in cluster.spec.broker_pools)
    return max(brokers, cluster.spec.controllers.replicas)


def zones(facts: Facts) -> Iterator[Finding]:
    """Whether the nodes have zones that brokers can be spread over."""
    if "nodes" in facts.unreadable:
        return
    for cluster in (*facts.clusters,) or (None,):
        key = cluster.spec.racks.topology_key if cluster else "topology.kubernetes.io/zone"
        usable = usable_nodes(facts, cluster)
        if usable:
            yield _zones(usable, key)


def _zones(usable: Sequence[Json], key: str) -> Finding:
    by_node = {nodes.name(node): nodes.zone(node, key) for node in usable}
    without = sorted(name for name, zone in by_node.items() if zone is None)
    found = sorted({zone for zone in by_node.values() if zone is not None})
    label = f"Label them: kubectl label node NAME {key}=ZONE. Or set racks.topologyKey to the label that your nodes have."
    if not found:
        message = f"no node has the label {key}: the cluster would have no racks, and replicas of a partition may share whatever fails together"
        return Finding("Zones", Level.WARNING, message, label)
    if without:
        return Finding(
            "Zones",
            Level.WARNING,
            f"{some(without)} {'has' if len(without) == 1 else 'have'} no label {key}, other nodes have: brokers there have no rack, and Kafka "
            "cannot spread replicas over racks",
            label,
        )
    if len(found) == 1:
        message = f"all nodes are in zone {found[0]}: replicas cannot be spread over zones"
        return Finding("Zones", Level.WARNING, message, "Add nodes in other zones, or accept it.")
    return Finding("Zones", Level.OK, f"{counted(len(found), 'zone')}: {some(found)}")


def _names(found: Sequence[Json]) -> list[str]:
    return sorted(nodes.name(each) for each in found)
