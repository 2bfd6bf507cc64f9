"""What keeps pods from running, read from their status, and what unblocks each."""

from typing import Final

from spindle.api import names
from spindle.disks.health import FULL, OFFLINE_FULL
from spindle.model import disk_facts, objects
from spindle.model.node_loss import OUT_OF_SERVICE
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, some
from spindle.moves.journal import Journal
from spindle.moves.under_spread import under_spread_partitions
from spindle.reconcile.refused_requests import report_refused
from spindle.reconcile.unschedulable_pods import is_free_to_move, no_node
from spindle.rollout.crash_cause import crash_cause
from spindle.rollout.overdue_stops import overdue_stop

_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_STARTING: Final = frozenset({"PodInitializing", "ContainerCreating", ""})
_BACK_OFF: Final = "CrashLoopBackOff"
_ACTION: Final = "StartPod"


def report_problems(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for every pod that cannot be scheduled, does not start or does not terminate, and for every refused request."""
    report_refused(state, builder)
    for node_id, pod in state.pods.items():
        if objects.deleting(pod):
            _terminating(state, builder, node_id, pod)
        elif objects.unschedulable(pod):
            builder.wait(no_node(state, node_id, pod))
        else:
            _containers(state, builder, node_id, pod)


def _containers(state: ClusterState, builder: PlanBuilder, node_id: int, pod: SnapshotObject) -> None:
    """Report the first container that does not start."""
    object_name = f"Pod/{objects.name(pod)}"
    for container in names.NODE_CONTAINERS:
        waiting = objects.waiting(pod, container)
        if waiting is None or waiting.get("reason", "") in _STARTING:
            continue
        reason, reported = str(waiting.get("reason", "")), str(waiting.get("message", ""))
        if reason in _IMAGE:
            image = objects.container_status(pod, container).get("image", "")
            builder.wait(
                Waiting(
                    _ACTION,
                    object_name,
                    "ImagePullFailed",
                    f"The kubelet cannot pull image {image}: {reported or reason}",
                    "Correct spec.version or spec.image, name pull secrets under spec.scheduling.imagePullSecrets, or make "
                    "the image available to the node. The kubelet retries by itself.",
                )
            )
        elif (
            container == names.CONTAINER_KAFKA and reason == _BACK_OFF and (full := _all_full(state, node_id))
        ):
            builder.wait(_full(pod, full))
        else:
            builder.wait(_not_starting(pod, container, reason, reported))
        return
    _added_containers(pod, builder)


def _added_containers(pod: SnapshotObject, builder: PlanBuilder) -> None:
    """Report the first container of a pod template that does not start: the pod is not ready without it."""
    spec = pod.get("spec") or {}
    for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        container = str(each.get("name"))
        found = None if container in names.NODE_CONTAINERS else objects.waiting(pod, container)
        if found is None or found["reason"] in _STARTING:
            continue
        name, reason = objects.name(pod), str(found["reason"])
        cause = (
            f"it exits: {crash_cause(pod, container)}"
            if reason == _BACK_OFF
            else str(found["message"]) or reason
        )
        builder.wait(
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "AddedContainerFailed",
                f"Container {container} of {name}, which a pod template adds, does not run, so the pod is not ready: {cause}",
                f"Correct the container in the pod template, or remove it. For its log run: kubectl logs {name} -c {container} --previous",
            )
        )
        return


def _all_full(state: ClusterState, node_id: int) -> list[str]:
    """The active disks of a broker if its agent reports each of them as full; else none."""
    broker = state.brokers.get(node_id) or {}
    observed = (broker.get("status") or {}).get("observed") or {}
    reasons = {entry.get("name"): entry.get("reason") for entry in observed.get("disks") or ()}
    disks = (broker.get("spec") or {}).get("disks") or ()
    used = [str(disk["name"]) for disk in disks if disk.get("mode", disk_facts.ACTIVE) == disk_facts.ACTIVE]
    return used if all(reasons.get(name) in (FULL, OFFLINE_FULL) for name in used) else []


def _full(pod: SnapshotObject, disks: list[str]) -> Waiting:
    """Kafka marks a log dir that it cannot write to as offline, and exits when it has no other."""
    name = objects.name(pod)
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "DisksFull",
        f"Kafka in {name} exits soon after its start: all its disks are full ({some(disks)}), and it needs one that it can write to. "
        f"Its error: {crash_cause(pod, names.CONTAINER_KAFKA)}",
        "Free space on its disks: delete files that are not Kafka's or folders below log/ that end in -delete, or enlarge the file system. "
        "The kubelet then restarts Kafka by itself.",
    )


def _not_starting(pod: SnapshotObject, container: str, reason: str, reported: str) -> Waiting:
    object_name = f"Pod/{objects.name(pod)}"
    if reason == _BACK_OFF:
        where = {
            names.CONTAINER_KAFKA: ("KafkaCrashed", "Kafka exits soon after its start"),
            names.CONTAINER_PREFLIGHT: ("PreflightFailed", "Preflight does not let Kafka start"),
        }.get(container, ("InspectionFailed", "The disk inspection before the start fails"))
        return Waiting(
            _ACTION,
            object_name,
            where[0],
            f"{where[1]} in {objects.name(pod)}. Its error: {crash_cause(pod, container)}",
            f"Fix the error; the kubelet restarts the container by itself. For the full log run: kubectl logs {objects.name(pod)} -c "
            f"{container} --previous",
        )
    return Waiting(
        _ACTION,
        object_name,
        reason,
        f"Container {container} of {objects.name(pod)} cannot be created: {reported or reason}",
        "Fix what the message names; the kubelet retries by itself.",
    )


def _terminating(state: ClusterState, builder: PlanBuilder, node_id: int, pod: SnapshotObject) -> None:
    """Report a pod that cannot terminate because its node is not ready, or that should have ended long ago."""
    node = state.nodes.get((pod.get("spec") or {}).get("nodeName") or "")
    if node is None:
        return
    if objects.is_true(node, "Ready"):
        hung = any(
            w.reason == "ProcessHung" and objects.name(pod) in w.object.split("/") for w in builder.waits
        )
        overdue = None if hung else overdue_stop(state, node_id, pod)
        if overdue is not None:
            builder.wait(overdue)
        return
    builder.wait(
        Waiting(
            "RecreatePod",
            f"Pod/{objects.name(pod)}",
            "NodeUnreachable",
            f"Pod {objects.name(pod)} is being deleted, but its node {objects.name(node)} is not ready, so Kafka may still run there. "
            "Spindle does not replace the pod before that is ruled out.",
            f"Bring node {objects.name(node)} back. If it is permanently lost, delete the Node or taint it "
            f"{OUT_OF_SERVICE}.",
        )
    )


def report_racks(state: ClusterState, builder: PlanBuilder, journal: Journal | None) -> None:
    """Report partitions whose replicas could be spread over more racks."""
    ours = frozenset(entry.key for entry in journal.spread_violations) if journal is not None else frozenset()
    refusal = under_spread_partitions(state.kafka, ours)
    if refusal is not None:
        builder.wait(Waiting.of("SpreadReplicas", f"KafkaCluster/{state.name}", refusal))


def report_nodes(state: ClusterState, builder: PlanBuilder) -> None:
    """Report nodes that are not ready while their pods are not being deleted yet, as after a power failure."""
    for node_id, pod in state.pods.items():
        node_name = state.node_of(node_id)
        node = state.nodes.get(node_name or "")
        if objects.deleting(pod) or node_name is None or "nodes" in state.snap.unknown:
            continue
        if node is None or not objects.is_true(node, "Ready"):
            what = "is not ready" if node is not None else "no longer exists"
            moves = is_free_to_move(state, pod)
            disks = "" if moves else " and has its disks"
            then = ": the pod then starts on another node with its volumes." if moves else ";"
            builder.wait(
                Waiting(
                    "RunPod",
                    f"Pod/{objects.name(pod)}",
                    "NodeNotReady",
                    f"Node {node_name}, which runs {objects.name(pod)}{disks}, {what}.",
                    f"Bring node {node_name} back: the pod then starts there again by itself, with its disks and data. If it is gone for good, "
                    f"delete the Node or taint it {OUT_OF_SERVICE}{then} Spindle never concludes that from elapsed time alone.",
                )
            )
