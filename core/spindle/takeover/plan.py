"""What a take-over is made of: which node becomes which, on what disks, and what stands against it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from spindle.takeover.volumes import VolumeOrder, VolumePlace

DISKS_ROOT = "/disks"  # where a pod that lays volumes out anew mounts them


@dataclass(frozen=True)
class DiskPlan:
    """One volume.

    Attributes:
        claim: its claim as the other operator named it.
        becomes: its claim as Spindle names it.
        volume: the PersistentVolume.
        folder: the log dir at its root.
        disk: ``disk0``, …, or ``metadata``.
        size, storage_class: what the new claim asks for.
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
        node_id: its id until now.
        as_node: its id from then on; another one only for controllers.
        pod: its pod until now.
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
        """What is to be done with its volumes."""
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
    """All of it.

    Attributes:
        manifest: the KafkaCluster.
        problems: what has to be changed before it can begin; empty if it can.
        differences: what will not be as it was, and what to do about it.
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
    """What is needed to go on, and to go back; written down before anything is changed.

    Attributes:
        claims: the claims as they were, by name.
        policies: PersistentVolume → its reclaim policy as it was.
    """

    plan: TakeoverPlan
    claims: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), sort_keys=True)


def parse_memory(text: str) -> TakeoverRecord:
    """What was written down.

    Raises:
        ValueError: it can't be understood.
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
    """What happens, in words, in the order in which it does."""
    disks = sum(len(node.disks) for node in plan.nodes)
    return (
        f"What the cluster is now is written to the ConfigMap {memory_map(plan.name)}.",
        f"Strimzi is told to leave it alone: strimzi.io/pause-reconciliation on Kafka {plan.name}, and then waits until it has stopped.",
        f"The {disks} volumes are set to be retained, even if their claims are deleted.",
        f"Kafka is stopped: the {len(plan.brokers)} brokers, then the {len(plan.controllers)} controllers. Clients wait from here on.",
        "Each volume is kept for a claim with the name that Spindle gives it (claimRef); the claim that it had is deleted.",
        "On each volume the folder kafka-log<id> is renamed to log; nothing is copied, formatted or deleted. "
        "Controllers get new ids: "
        + ", ".join(f"{node.node_id} is {node.as_node}" for node in plan.controllers)
        + ".",
        "Each claim gets annotations with the identity from its disk's meta.properties.",
        f"The KafkaCluster {plan.name} is applied. Spindle finds its disks, as it does for one that was deleted.",
        "When Kafka runs, its quorum is made dynamic (kraft.version 1), and its nodes restarted once more, one after the other.",
    )


def memory_map(cluster: str) -> str:
    """Name of the ConfigMap with what was."""
    return f"{cluster}-takeover"
