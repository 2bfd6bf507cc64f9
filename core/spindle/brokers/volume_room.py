"""How many more brokers fit on each node with its free local volumes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spindle.api.quantity import whole
from spindle.model import nodes as node_facts
from spindle.model.nodes import NodeObject, items, section

_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_HOSTNAME = "kubernetes.io/hostname"
_NONE_FITS = 1 << 100  # bytes: a size that cannot be parsed fits no volume


@dataclass(frozen=True)
class DiskWant:
    """One disk that a broker needs.

    Attributes:
        size: a Kubernetes quantity.
        storage_class: None for the cluster's default class.
    """

    size: str
    storage_class: str | None = None


def room(
    nodes: Iterable[NodeObject],
    volumes: Iterable[NodeObject],
    storage_classes: Iterable[NodeObject],
    disks: Sequence[DiskWant],
    reserve: Sequence[DiskWant] = (),
) -> dict[str, int] | None:
    """How many brokers with these disks each node has free volumes for.

    Only classes without a provisioner are counted, since only their volumes are limited. Other classes provision volumes
    on demand.

    Args:
        nodes: all nodes.
        volumes: all PersistentVolumes.
        storage_classes: all StorageClasses.
        disks: the disks of one broker.
        reserve: further volumes to leave free on each node, for claims that are not bound yet and may bind
            there (of controllers that need a disk of the same class at the same time).

    Returns:
        Node name → number of brokers; None if volumes set no limit.
    """
    classes = {str(section(c, "metadata").get("name")): c for c in storage_classes}
    counted, kept = _by_static_class(disks, classes), _by_static_class(reserve, classes)
    if not counted:
        return None
    by_name = {node_facts.name(node): node for node in nodes if node_facts.name(node)}
    free = _free_volumes(by_name, volumes, frozenset(counted))
    return {
        node: min(
            _sets(sizes, kept.get(wanted, []), free.get((node, wanted), []))
            for wanted, sizes in counted.items()
        )
        for node in by_name
    }


def free_volume(
    node: NodeObject, volumes: Iterable[NodeObject], storage_classes: Iterable[NodeObject], want: DiskWant
) -> NodeObject | None:
    """The free volume on a node that fits a disk best: the smallest that is large enough; None if there is none.

    Args:
        node: that must be able to mount the volume.
        volumes: all PersistentVolumes.
        storage_classes: all StorageClasses.
        want: the disk, of a class without a provisioner.
    """
    classes = {str(section(c, "metadata").get("name")): c for c in storage_classes}
    wanted = _default_class(classes) if want.storage_class is None else want.storage_class
    least = _bytes(want.size, unreadable=_NONE_FITS)
    fitting = [
        (size, str(section(volume, "metadata").get("name")), volume)
        for volume in volumes
        if str(section(volume, "spec").get("storageClassName") or "") == wanted
        and is_free(volume)
        and reachable(volume, node)
        and (size := _bytes(section(volume, "spec", "capacity").get("storage"), unreadable=-1)) >= least
    ]
    return min(fitting, key=lambda found: found[:2])[2] if fitting else None


def reachable(volume: NodeObject, node: NodeObject) -> bool:
    """Whether a volume can be mounted on a node."""
    required = section(volume, "spec", "nodeAffinity").get("required")
    return required is None or node_facts.matches_selector(node, required)


def class_of(storage_class: str | None, storage_classes: Iterable[NodeObject]) -> NodeObject | None:
    """The StorageClass of a claim with this class name (None: the default class); None if there is no such object."""
    classes = {str(section(c, "metadata").get("name")): c for c in storage_classes}
    return classes.get(_default_class(classes) if storage_class is None else storage_class)


def class_name(storage_class: str | None, storage_classes: Iterable[NodeObject]) -> str:
    """Name of a claim's class: that of the default class for None; empty if there is none."""
    if storage_class is not None:
        return storage_class
    return _default_class({str(section(c, "metadata").get("name")): c for c in storage_classes})


def _by_static_class(disks: Sequence[DiskWant], classes: Mapping[str, NodeObject]) -> dict[str, list[int]]:
    """Class → requested sizes, for classes without a provisioner."""
    sizes: dict[str, list[int]] = {}
    for disk in disks:
        wanted = _default_class(classes) if disk.storage_class is None else disk.storage_class
        if is_static(classes.get(wanted)):
            sizes.setdefault(wanted, []).append(_bytes(disk.size, unreadable=_NONE_FITS))
    return sizes


def _sets(sizes: list[int], kept: list[int], free: list[int]) -> int:
    """How many times all of these sizes fit into the free volumes, one volume each, without the reserved ones.

    A volume that is large enough for one size is large enough for all smaller ones. So for each size, it is enough to compare the
    number of volumes that are at least as large with the number of requested ones.
    """

    def at_least(some: list[int], size: int) -> int:
        return sum(one >= size for one in some)

    kept = [
        size for size in kept if at_least(free, size)
    ]  # a reservation that fits no volume here reserves none
    spare = {size: at_least(free, size) - at_least(kept, size) for size in {*sizes, *kept}}
    if any(left < 0 for left in spare.values()):
        return 0
    return min(left // wanted for size, left in spare.items() if (wanted := at_least(sizes, size)))


def _free_volumes(
    nodes: Mapping[str, NodeObject], volumes: Iterable[NodeObject], classes: frozenset[str]
) -> dict[tuple[str, str], list[int]]:
    """(node, class) → sizes of the unclaimed volumes there."""
    hosts: dict[str, list[str]] = {}
    for name, node in nodes.items():
        hosts.setdefault(node_facts.labels(node).get(_HOSTNAME, name), []).append(name)
    found: dict[tuple[str, str], list[int]] = {}
    for volume in volumes:
        spec = section(volume, "spec")
        wanted = str(spec.get("storageClassName") or "")
        if wanted not in classes or not is_free(volume):
            continue
        size = _bytes(section(spec, "capacity").get("storage"), unreadable=-1)
        for name in _reachable(spec, nodes, hosts):
            found.setdefault((name, wanted), []).append(size)
    return found


def _reachable(
    spec: Mapping[str, Any], nodes: Mapping[str, NodeObject], hosts: Mapping[str, list[str]]
) -> list[str]:
    """The nodes on which a volume can be mounted."""
    required = section(spec, "nodeAffinity").get("required")
    if required is None:
        return list(nodes)
    named = _hostnames(required)
    candidates = list(nodes) if named is None else [name for host in named for name in hosts.get(host, ())]
    return [name for name in candidates if node_facts.matches_selector(nodes[name], required)]


def _hostnames(required: object) -> list[str] | None:
    """The host names of a one-term affinity, as local volumes have it; avoids a check of all nodes."""
    terms = items(section(required).get("nodeSelectorTerms"))
    if len(terms) != 1:
        return None
    for part in items(terms[0].get("matchExpressions")):
        values = part.get("values")
        if part.get("key") == _HOSTNAME and part.get("operator") == "In" and isinstance(values, list | tuple):
            return sorted({str(value) for value in values})
    return None


def is_free(volume: NodeObject) -> bool:
    """Whether a claim could still bind a volume; not if it is reserved for another claim."""
    spec = section(volume, "spec")
    modes = spec.get("accessModes")
    return (
        section(volume, "status").get("phase") == "Available"
        and not spec.get("claimRef")
        and not section(volume, "metadata").get("deletionTimestamp")
        and spec.get("volumeMode") in (None, "Filesystem")
        and isinstance(modes, list | tuple)
        and "ReadWriteOnce" in modes
    )


def is_static(storage_class: NodeObject | None) -> bool:
    """Whether a class has no provisioner, which includes a class without a StorageClass object."""
    return storage_class is None or storage_class.get("provisioner") == _NO_PROVISIONER


def _default_class(classes: Mapping[str, NodeObject]) -> str:
    """Name of the default class, of the newest if there are several; empty (volumes without class) if there is none."""
    defaults = [
        name
        for name, c in sorted(classes.items())
        if section(c, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    ]
    made = {name: str(section(classes[name], "metadata").get("creationTimestamp") or "") for name in defaults}
    return max(defaults, key=made.__getitem__, default="")


def _bytes(text: object, *, unreadable: int) -> int:
    """A quantity in bytes."""
    try:
        return whole(str(text))
    except ValueError:
        return unreadable
