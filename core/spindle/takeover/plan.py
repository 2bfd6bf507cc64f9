"""The plan of a take-over: the new ids of nodes, their disks, and the problems to solve first."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from spindle.model.waiting import counted
from spindle.takeover.volumes import VolumeOrder, VolumePlace

DISKS_ROOT = "/disks"  # mount point in the pod that changes the layout of volumes


@dataclass(frozen=True)
class DiskPlan:
    """One volume.

    Attributes:
        claim: name of its claim with the other operator.
        becomes: name of its claim with Spindle.
        volume: the PersistentVolume.
        folder: the log dir at its root.
        disk: ``disk0``, …, or ``metadata``.
        size: of the new claim.
        storage_class: of the new claim; empty for none, which is not the default class.
    """

    claim: str
    becomes: str
    volume: str
    folder: str
    disk: str
    size: str
    storage_class: str | None = None


@dataclass(frozen=True)
class NodePlan:
    """One broker or controller.

    Attributes:
        node_id: its present id.
        as_node: its new id, which differs only for controllers.
        pod: its present pod.
        pool: its pool; None for controllers.
        rack: the zone of the Kubernetes node that it runs on.
    """

    node_id: int
    as_node: int
    pod: str
    pool: str | None
    rack: str | None
    disks: tuple[DiskPlan, ...]

    @property
    def controller(self) -> bool:
        """Whether it is a controller."""
        return self.pool is None

    def order(self, cluster_id: str, *, undo: bool = False) -> VolumeOrder:
        """The order for the pod that changes the layout of its volumes."""
        places = (
            VolumePlace(
                f"{DISKS_ROOT}/{disk.disk}",
                disk.folder,
                self.node_id,
                self.as_node,
                controller=self.controller,
            )
            for disk in self.disks
        )
        return VolumeOrder(cluster_id, tuple(places), undo)


@dataclass(frozen=True)
class TakeoverPlan:
    """The plan of a take-over.

    Attributes:
        manifest: the KafkaCluster.
        problems: what must change before the take-over; empty if nothing must.
        differences: what will be different afterwards, and what to do about it.
    """

    name: str
    namespace: str
    cluster_id: str
    nodes: tuple[NodePlan, ...]
    manifest: Mapping[str, Any]
    problems: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def controllers(self) -> tuple[NodePlan, ...]:
        """The controllers."""
        return tuple(node for node in self.nodes if node.controller)

    @property
    def brokers(self) -> tuple[NodePlan, ...]:
        """The brokers."""
        return tuple(node for node in self.nodes if not node.controller)


@dataclass(frozen=True)
class TakeoverRecord:
    """The state before the take-over, to continue or undo it; written before anything is changed.

    Attributes:
        claims: the original claims, by name.
        policies: PersistentVolume → its original reclaim policy.
    """

    plan: TakeoverPlan
    claims: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def parse_record(text: str) -> TakeoverRecord:
    """Parse the record.

    Raises:
        ValueError: it is not valid.
    """
    try:
        document = json.loads(text)
        plan = document["plan"]
        nodes = tuple(
            NodePlan(**{**node, "disks": tuple(DiskPlan(**disk) for disk in node["disks"])})
            for node in plan["nodes"]
        )
        lists = {key: tuple(plan[key]) for key in ("problems", "differences")}
        return TakeoverRecord(
            TakeoverPlan(**{**plan, "nodes": nodes, **lists}), document["claims"], document["policies"]
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"cannot be parsed: {error}") from error


def steps(plan: TakeoverPlan) -> Sequence[str]:
    """The steps of the take-over in their order, one text each."""
    disks = sum(len(node.disks) for node in plan.nodes)
    return (
        f"Record the present state in ConfigMap {record_name(plan.name)}, so that the migration can be continued or undone.",
        f"Pause Strimzi: annotate the Kafka resource {plan.name} with strimzi.io/pause-reconciliation, and wait until Strimzi reports the pause.",
        f"Set the reclaim policy of all {disks} volumes to Retain, so that they stay when their claims are deleted.",
        f"Stop Kafka: delete the StrimziPodSets of {counted(len(plan.brokers), 'broker')}, then those of {counted(len(plan.controllers), 'controller')}; clients cannot connect from here on.",
        "For each volume, delete Strimzi's claim and reserve the volume (claimRef) for a new claim with Spindle's name.",
        "On each volume, rename the folder kafka-log<id> to log. Nothing is copied, formatted or deleted. "
        "Brokers keep their ids. Controllers get new ids: "
        + ", ".join(f"{node.node_id} becomes {node.as_node}" for node in plan.controllers)
        + ".",
        "Annotate each new claim with the cluster id, node id and directory id from the meta.properties on its disk.",
        f"Apply the KafkaCluster {plan.name}: Spindle finds the disks by these annotations and starts Kafka on them, after which there is no undo.",
        "When Kafka runs, Spindle raises kraft.version to 1 (dynamic quorum) and restarts all nodes once more, one by one.",
    )


def record_name(cluster: str) -> str:
    """Name of the ConfigMap with the record."""
    return f"{cluster}-takeover"
