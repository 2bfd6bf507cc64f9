"""``Available``, ``Ready``, ``Reconciling`` and ``Stalled`` of the KafkaCluster.

``Reconciling`` and ``Stalled`` are what kstatus (sigs.k8s.io/cli-utils/pkg/kstatus) defines: True is abnormal, and at most one of them is True.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.model import maintenance, objects
from spindle.model.actions import (
    Action,
    AlterUser,
    ElectPreferred,
    ElectUnclean,
    KeepPassword,
    PlaceReplicas,
    Reassign,
    ReloadCertificates,
    SetConfigs,
    SetPassword,
    TrimPartitions,
)
from spindle.model.condition_rows import ConditionRow
from spindle.model.partition_faults import PartitionFaults
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted, some
from spindle.reconcile.wait_kinds import WaitKind, kind_of
from spindle.rollout.stalled_rollout import overdue
from spindle.security.name_conflicts import regards

_FAILING: Final = (DiskState.FAILED, DiskState.EVACUATING)
# Why Spindle takes a pod down that does not serve any more: the restart is planned, what it is for is a fault.
_FOR_A_FAULT: Final = frozenset({"BrokerStoppedForHungDisk", "Fenced"})
# Part of running a cluster, whatever its spec.
_ROUTINE: Final = (
    AlterUser,
    ElectPreferred,
    ElectUnclean,
    KeepPassword,
    PlaceReplicas,
    Reassign,
    ReloadCertificates,
    SetConfigs,
    SetPassword,
    TrimPartitions,
)
_ORDER: Final = (WaitKind.USER, WaitKind.FAULT, WaitKind.DELAYED, WaitKind.WORK)


@dataclass(frozen=True)
class NodeReadiness:
    """The brokers and controllers that are not ready, by pod name.

    Attributes:
        stopped: a user stopped them.
        restarting: Spindle restarts them, and they are within their deadline.
        joining: they are new and within the deadline for a first start.
        down: all others. They are faults.
        unplaced: how many brokers and controllers of the spec have no record yet.
    """

    stopped: tuple[str, ...] = ()
    restarting: tuple[str, ...] = ()
    joining: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    unplaced: int = 0

    @property
    def all_ready(self) -> bool:
        """Whether every broker and controller of the spec is ready."""
        return not (self.stopped or self.restarting or self.joining or self.down or self.unplaced)


@dataclass(frozen=True)
class _Pass:
    """What the four conditions are made from."""

    state: ClusterState
    builder: PlanBuilder
    status: Mapping[str, Any]
    nodes: NodeReadiness
    waits: Mapping[WaitKind, Sequence[Waiting]]
    failing: Sequence[str]
    moving: bool
    partitions: PartitionFaults | None

    def first(self, *kinds: WaitKind) -> Waiting | None:
        """The first wait of the first of these kinds that has one."""
        return next((wait for kind in kinds for wait in self.waits[kind]), None)

    @property
    def started(self) -> bool:
        """Whether the cluster was ever ready: ``status.version`` is there once all nodes run it."""
        return self.state.born and (bool(self.state.status.get("version")) or self.nodes.all_ready)

    @cached_property
    def stall(self) -> Waiting | None:
        """What only a user can unblock; also what did not come by itself within ``rolling.backWithinSeconds``."""
        now = self.first(WaitKind.USER)
        if now is not None:
            return now
        within = self.state.spec.rolling.back_within_seconds
        return next(
            (
                wait
                for kind in (WaitKind.FAULT, WaitKind.DELAYED)
                for wait in self.waits[kind]
                if self.state.waited(wait.key) > within
            ),
            None,
        )

    @property
    def counts(self) -> str:
        """How many nodes are ready, for a message."""
        brokers, controllers = self.status["brokers"], self.status["controllers"]
        return f"{brokers['summary']} brokers and {controllers['summary']} controllers are in sync"


def progress_rows(
    state: ClusterState,
    builder: PlanBuilder,
    status: Mapping[str, Any],
    broker_statuses: Mapping[str, Mapping[str, Any]],
    partitions: PartitionFaults | None,
    *,
    moving: bool,
) -> list[ConditionRow]:
    """The four conditions, as type, status, reason and message.

    Args:
        state, builder: of the pass.
        status: of the KafkaCluster, with ``phase`` and the tallies.
        broker_statuses: of all KafkaBrokers.
        partitions: those with a fault; None if they are unknown.
        moving: whether replicas move for another reason than a KafkaRebalance.
    """
    seen = _Pass(
        state,
        builder,
        status,
        node_readiness(state),
        _by_kind(state, builder),
        _failing(broker_statuses),
        moving,
        partitions,
    )
    available = _available(seen)
    return [available, _ready(seen, available), _reconciling(seen), _stalled(seen)]


def node_readiness(state: ClusterState) -> NodeReadiness:
    """Sort the brokers and controllers that are not ready by why they are not."""
    found: dict[str, list[str]] = {"stopped": [], "restarting": [], "joining": [], "down": []}
    troubled = {int(mark["nodeId"]) for mark in _troubled_marks(state)}
    marked = {int(mark["nodeId"]) for mark in state.unavailable_records}
    for node_id in (*state.staying, *state.controller_ids):
        pod = state.pods.get(node_id)
        if pod is not None and objects.is_true(pod, "Ready") and not objects.deleting(pod):
            continue
        broker = state.staying.get(node_id)
        if broker is not None and maintenance.stopped(broker):
            why = "stopped"
        elif node_id in troubled:
            why = "down"
        elif node_id in marked:
            why = "restarting"
        elif _joining(state, node_id):
            why = "joining"
        else:
            why = "down"
        found[why].append(names.pod_name(state.name, node_id))
    unplaced = state.broker_count - len(state.staying)
    unplaced += max(0, state.spec.controllers.replicas - len(state.controller_ids))
    return NodeReadiness(**{why: tuple(pods) for why, pods in found.items()}, unplaced=unplaced)


def _troubled_marks(state: ClusterState) -> list[Mapping[str, Any]]:
    """Marks of pods that went down for a fault, or are not back in time."""
    return [
        mark
        for mark in state.unavailable_records
        if mark.get("reason") in _FOR_A_FAULT or overdue(state, mark)
    ]


def _joining(state: ClusterState, node_id: int) -> bool:
    """Whether a node is new and may still be on its first start."""
    broker, pod = state.staying.get(node_id), state.pods.get(node_id)
    if broker is not None:
        if ((broker.get("status") or {}).get("start") or {}).get("seconds") is not None:
            return False  # it was ready before
        return _young(state, broker)
    quorum = state.kafka.quorum
    if quorum is None or quorum.leader < 0:
        return False
    if all(voter.id != node_id for voter in quorum.voters):
        return pod is None or _young(state, pod)
    # It has just become a voter; the kubelet is about to find it ready.
    started = objects.container_status(pod, names.CONTAINER_KAFKA) if pod is not None else {}
    return (
        pod is not None
        and bool(started.get("ready"))
        and not started.get("restartCount")
        and _young(state, pod)
    )


def _young(state: ClusterState, obj: SnapshotObject) -> bool:
    """Whether an object was created within the deadline for a start."""
    since = seconds(obj["metadata"].get("creationTimestamp"))
    return since is not None and state.now - since <= state.spec.rolling.back_within_seconds


def _by_kind(state: ClusterState, builder: PlanBuilder) -> dict[WaitKind, list[Waiting]]:
    """The waits by kind, in a fixed order. A name that a KafkaUser's Secret cannot have is reported on the KafkaUser."""
    theirs = {f"Secret/{names.user_secret(state.name, objects.name(user))}" for user in state.snap.users}
    found: dict[WaitKind, list[Waiting]] = {kind: [] for kind in WaitKind}
    for wait in sorted(builder.waits, key=lambda wait: wait.order):
        found[WaitKind.NOTE if wait.object in theirs else kind_of(wait)].append(wait)
    return found


def _failing(broker_statuses: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Disks that failed and still have replicas to be re-replicated."""
    return [
        f"{broker}/{disk['name']} ({disk['state']})"
        for broker, status in sorted(broker_statuses.items())
        for disk in status.get("disks") or ()
        if disk["state"] in _FAILING
    ]


def _available(seen: _Pass) -> ConditionRow:
    partitions = seen.partitions
    if not seen.state.born:
        return ("Available", "False", "Starting", "Kafka has not started for the first time yet.")
    if partitions is None:
        why = seen.state.kafka.error or "partitions not read"
        return ("Available", "Unknown", "KafkaUnknown", f"Kafka cannot be queried: {why}.")
    if named := partitions.offline:
        message = f"{counted(len(named), 'partition')} {'has' if len(named) == 1 else 'have'} no leader and cannot be read or written: {some(named)}."
        return ("Available", "False", "OfflinePartitions", message)
    if named := partitions.under_min_isr:
        message = f"{counted(len(named), 'partition')} {'is' if len(named) == 1 else 'are'} below min.insync.replicas, so Kafka rejects writes with acks=all: {some(named)}."
        return ("Available", "False", "PartitionsUnderMinIsr", message)
    message = "Every partition has a leader and at least min.insync.replicas in-sync replicas."
    return ("Available", "True", "MinIsrMet", message)


def _ready(seen: _Pass, available: ConditionRow) -> ConditionRow:
    row = _not_carried_out(seen) or _faulty(seen, available)
    if row is not None:
        return row
    nodes = seen.nodes
    if nodes.stopped:
        message = f"Stopped by an administrator: {some(list(nodes.stopped))}; all others are in sync."
        return ("Ready", "False", "BrokersStopped", message)
    if nodes.restarting:
        message = f"Rolling restart: {some(list(nodes.restarting))} not in sync yet; all others are in sync."
        return ("Ready", "True", "RolloutInProgress", message)
    if not nodes.all_ready:
        message = "All brokers and controllers that ran before are in sync; new ones start."
        return ("Ready", "True", "NodesJoining", message)
    return ("Ready", "True", "AllInSync", "All brokers and controllers run and are in sync.")


def _not_carried_out(seen: _Pass) -> ConditionRow | None:
    """Not ready because of the spec, or because the state is not known."""
    state = seen.state
    if state.refused:
        first = state.refused[0]
        message = f"The spec is not applied: {first.field}: {first.message}. {seen.counts}."
        return ("Ready", "False", first.reason, message)
    if objects.deleting(state.cluster):
        return ("Ready", "False", "Deleting", "The KafkaCluster is being deleted.")
    if {"pods", "kafkabrokers"} & state.snap.unknown:
        return ("Ready", "Unknown", "CannotRead", "The API server does not list the pods or KafkaBrokers.")
    return None


def _faulty(seen: _Pass, available: ConditionRow) -> ConditionRow | None:
    """Not ready because of a fault, or because the cluster never was."""
    wait = seen.stall or seen.first(WaitKind.FAULT)
    if not seen.started:
        return ("Ready", "False", "Starting", f"{seen.counts}.{_why(wait)}")
    if wait is not None:
        return ("Ready", "False", wait.reason, f"{wait.sentence} {seen.counts}.")
    if seen.failing:
        message = f"{counted(len(seen.failing), 'disk')} failed: {some(list(seen.failing), 20)}."
        return ("Ready", "False", "DisksFailed", f"{message} {seen.counts}.")
    nodes = seen.nodes
    if nodes.down:
        return ("Ready", "False", "NotAllInSync", f"{seen.counts}. Not in sync: {some(list(nodes.down))}.")
    if available[1] == "False" and not (nodes.restarting or nodes.stopped):
        return ("Ready", *available[1:])
    return None


def _reconciling(seen: _Pass) -> ConditionRow:
    state, nodes = seen.state, seen.nodes
    if objects.deleting(state.cluster):
        return ("Reconciling", "True", "Deleting", seen.status["phase"])
    if state.spec.paused:
        return ("Reconciling", "False", "Paused", "spec.paused is true: Spindle changes nothing.")
    if seen.stall is not None:
        return ("Reconciling", "False", "Stalled", "The condition Stalled says what needs a user.")
    if not seen.started:
        return ("Reconciling", "True", "Starting", f"{seen.counts}.{_why(seen.first(*_ORDER))}")
    if (
        state.unavailable_records
        or seen.moving
        or seen.failing
        or any(not _is_routine(state, action) for action in seen.builder.actions)
    ):
        return ("Reconciling", "True", "Working", seen.status["phase"])
    wait = seen.first(*_ORDER)
    if wait is not None:
        return ("Reconciling", "True", "Waiting", wait.sentence)
    if nodes.down or nodes.joining or nodes.unplaced:
        return ("Reconciling", "True", "Starting", f"{seen.counts}.")
    return ("Reconciling", "False", "Settled", "The spec is in effect.")


def _stalled(seen: _Pass) -> ConditionRow:
    if seen.state.spec.paused and not seen.state.refused:
        return ("Stalled", "False", "Paused", "spec.paused is true: Spindle changes nothing.")
    if seen.state.refused:
        first = seen.state.refused[0]
        message = f"{first.field}: {first.message}. To resolve: {first.way_out}."
        return ("Stalled", "True", first.reason, message)
    wait = None if objects.deleting(seen.state.cluster) else seen.stall
    if wait is not None:
        return ("Stalled", "True", wait.reason, wait.sentence)
    return ("Stalled", "False", "NotStalled", "Nothing waits for a user.")


def _is_routine(state: ClusterState, action: Action) -> bool:
    """Whether an action does not apply the spec, so that it may run while the spec is in effect: users, leaders, moves and their record."""
    if isinstance(action, _ROUTINE):
        return True
    kinds = {(kind, name) for kind, _, name in regards(action, state.namespace)}
    ours = {("ConfigMap", names.moves_map(state.name))}
    return bool(kinds) and all(
        entry in ours or entry[0] in ("KafkaUser", "KafkaRebalance") for entry in kinds
    )


def _why(wait: Waiting | None) -> str:
    return "" if wait is None else f" {wait.sentence}"
