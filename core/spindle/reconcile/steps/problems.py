"""What keeps pods from running, read from their own status, and the way out of each."""

from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, some
from spindle.disks import facts
from spindle.disks.health import FULL, OFFLINE_FULL
from spindle.healing.node_loss import OUT_OF_SERVICE
from spindle.moves.journal import Journal
from spindle.placement.spread_violations import under_spread_partitions
from spindle.reconcile import objects
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState

_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_STARTING: Final = frozenset({"PodInitializing", "ContainerCreating", ""})
_BACK_OFF: Final = "CrashLoopBackOff"
_ACTION: Final = "StartPod"


def report_problems(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for every pod that does not get on."""
    for node_id, pod in state.pods.items():
        if objects.deleting(pod):
            _terminating(state, builder, pod)
        elif _unschedulable(pod):
            builder.wait(_pending(state, node_id, pod))
        else:
            _containers(state, builder, node_id, pod)


def _unschedulable(pod: SnapshotObject) -> bool:
    scheduled = objects.condition(pod, "PodScheduled")
    return scheduled is not None and scheduled.get("status") == "False"


def _pending(state: ClusterState, node_id: int, pod: SnapshotObject) -> Waiting:
    """Why the scheduler finds no node, with the claims that are unbound and what their class has to offer."""
    said = str((objects.condition(pod, "PodScheduled") or {}).get("message", ""))
    thing = f"Pod/{objects.name(pod)}"
    unbound = [claim for claim in _claims_of(state, pod) if not objects.bound_volume(claim)]
    if unbound and "persistent volume" in said.lower():
        wanted = _what_they_ask(unbound)
        free = sum(
            1 for volume in state.volumes.values() if (volume.get("status") or {}).get("phase") == "Available"
        )
        return Waiting(
            _ACTION,
            thing,
            "InsufficientVolumes",
            f"No node has the volumes that {objects.name(pod)} needs: {wanted}. {free} volumes are free in the whole "
            f"cluster. The scheduler says: {said}",
            f"Provide free volumes of that class and size on one node"
            f"{_in_zone(state, node_id)}, or correct the size or storageClass in the KafkaCluster.",
        )
    missing_class = [claim for claim in unbound if not (claim.get("spec") or {}).get("storageClassName")]
    if missing_class:
        return Waiting(
            _ACTION,
            thing,
            "NoStorageClass",
            f"Claim {objects.name(missing_class[0])} names no StorageClass and the cluster has no default one.",
            "Set storageClass in the KafkaCluster, or mark one StorageClass as the default.",
        )
    return Waiting(
        _ACTION,
        thing,
        "Unschedulable",
        f"No node takes {objects.name(pod)}. The scheduler says: {said or 'nothing yet'}",
        f"A schedulable node{_in_zone(state, node_id)} with enough free memory and processor time, without another "
        "broker of this cluster; or lower the resources that the KafkaCluster asks for.",
    )


def _in_zone(state: ClusterState, node_id: int) -> str:
    broker = state.brokers.get(node_id)
    rack = (broker.get("spec") or {}).get("rack") if broker else None
    return f" in zone {rack}" if rack else ""


def _claims_of(state: ClusterState, pod: SnapshotObject) -> list[SnapshotObject]:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    claimed = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes]
    return [state.claims[name] for name in claimed if name and name in state.claims]


def _what_they_ask(claims: list[SnapshotObject]) -> str:
    def ask(claim: SnapshotObject) -> str:
        spec: dict[str, Any] = claim.get("spec") or {}
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "?")
        return f"{size} of class {spec.get('storageClassName') or '(default)'}"

    asked = sorted({ask(claim) for claim in claims})
    return f"{len(claims)} x {some(asked)} ({some(sorted(objects.name(c) for c in claims))})"


def _containers(state: ClusterState, builder: PlanBuilder, node_id: int, pod: SnapshotObject) -> None:
    """The first container that does not get on."""
    thing = f"Pod/{objects.name(pod)}"
    for container in names.NODE_CONTAINERS:
        waiting = objects.waiting(pod, container)
        if waiting is None or waiting.get("reason", "") in _STARTING:
            continue
        reason, said = str(waiting.get("reason", "")), str(waiting.get("message", ""))
        if reason in _IMAGE:
            image = objects.container_status(pod, container).get("image", "")
            builder.wait(
                Waiting(
                    _ACTION,
                    thing,
                    "ImagePullFailed",
                    f"The image {image} cannot be pulled: {said or reason}",
                    "Correct spec.version or spec.image, name pull secrets under spec.scheduling.imagePullSecrets, or make "
                    "the image available to the node. The kubelet tries again by itself.",
                )
            )
        elif (
            container == names.CONTAINER_KAFKA and reason == _BACK_OFF and (full := _all_full(state, node_id))
        ):
            builder.wait(_full(pod, full))
        else:
            builder.wait(_not_starting(pod, container, reason, said))
        return


def _all_full(state: ClusterState, node_id: int) -> list[str]:
    """The disks of a broker, if its agent says of every one that Kafka has that it is full; else none."""
    broker = state.brokers.get(node_id) or {}
    observed = (broker.get("status") or {}).get("observed") or {}
    said = {entry.get("name"): entry.get("reason") for entry in observed.get("disks") or ()}
    disks = (broker.get("spec") or {}).get("disks") or ()
    used = [str(disk["name"]) for disk in disks if disk.get("mode", facts.ACTIVE) == facts.ACTIVE]
    return used if all(said.get(name) in (FULL, OFFLINE_FULL) for name in used) else []


def _full(pod: SnapshotObject, disks: list[str]) -> Waiting:
    """Kafka takes a log dir that it cannot write to for failed, and ends when it has no other."""
    name = objects.name(pod)
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "DisksFull",
        f"Kafka ends soon after its start in {name}: every disk that it has is full ({some(disks)}), and it needs one that it can write to. "
        f"It last said: {_last_words(pod, names.CONTAINER_KAFKA)}",
        "Free space on its disks: delete files that are not Kafka's, or folders below log/ that end in -delete, or enlarge the file system. "
        "Kafka is tried again by itself.",
    )


def _last_words(pod: SnapshotObject, container: str) -> str:
    ended = objects.terminated(pod, container) or {}
    return str(ended.get("message") or "").strip() or f"exit code {ended.get('exitCode', 'unknown')}"


def _not_starting(pod: SnapshotObject, container: str, reason: str, said: str) -> Waiting:
    thing = f"Pod/{objects.name(pod)}"
    if reason == _BACK_OFF:
        where = {
            names.CONTAINER_KAFKA: ("KafkaCrashed", "Kafka ends soon after its start"),
            names.CONTAINER_PREFLIGHT: ("PreflightFailed", "Preflight does not let Kafka start"),
        }.get(container, ("InspectionFailed", "The disks could not be looked at"))
        return Waiting(
            _ACTION,
            thing,
            where[0],
            f"{where[1]} in {objects.name(pod)}. It last said: {_last_words(pod, container)}",
            f"Put right what it says; it is tried again by itself. More in: kubectl logs {objects.name(pod)} -c "
            f"{container} --previous",
        )
    return Waiting(
        _ACTION,
        thing,
        reason,
        f"Container {container} of {objects.name(pod)} cannot be made: {said or reason}",
        "Put right what the message names; the kubelet tries again by itself.",
    )


def _terminating(state: ClusterState, builder: PlanBuilder, pod: SnapshotObject) -> None:
    """A pod that cannot end because its node is away."""
    node = state.nodes.get((pod.get("spec") or {}).get("nodeName") or "")
    if node is None or objects.is_true(node, "Ready"):
        return
    builder.wait(
        Waiting(
            "RecreatePod",
            f"Pod/{objects.name(pod)}",
            "NodeUnreachable",
            f"{objects.name(pod)} is being deleted, but its node {objects.name(node)} does not answer, so nobody knows "
            "whether Kafka still runs there. It is not replaced before that is certain.",
            f"Node {objects.name(node)} comes back; or, if it is gone for good, delete the Node or taint it "
            f"{OUT_OF_SERVICE}.",
        )
    )


def report_racks(state: ClusterState, builder: PlanBuilder, journal: Journal | None) -> None:
    """Replicas that could stand on more racks."""
    ours = frozenset(entry.key for entry in journal.spread_violations) if journal is not None else frozenset()
    refusal = under_spread_partitions(state.kafka, ours)
    if refusal is not None:
        builder.wait(Waiting.of("SpreadReplicas", f"KafkaCluster/{state.name}", refusal))


def report_nodes(state: ClusterState, builder: PlanBuilder) -> None:
    """Nodes that are away while their pods are not yet asked to go: the common power failure."""
    for node_id, pod in state.pods.items():
        node_name = state.node_of(node_id)
        node = state.nodes.get(node_name or "")
        if objects.deleting(pod) or node_name is None or "nodes" in state.snap.unknown:
            continue
        if node is None or not objects.is_true(node, "Ready"):
            what = "is not ready" if node is not None else "no longer exists"
            builder.wait(
                Waiting(
                    "RunPod",
                    f"Pod/{objects.name(pod)}",
                    "NodeNotReady",
                    f"Node {node_name}, where {objects.name(pod)} runs and its disks are, {what}.",
                    f"Node {node_name} comes back: the pod starts there again by itself, with its disks and data. If it is gone for good, "
                    f"delete the Node or taint it {OUT_OF_SERVICE}; no time alone counts as that.",
                )
            )
