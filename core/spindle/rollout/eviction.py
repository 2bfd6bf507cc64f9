"""Evictions: the only way in which Spindle stops a running Kafka, under "no restart below min.insync.replicas" (`docs/safety.md`, rule 2).

Mark the pod in ``status.takingDown`` by compare-and-swap, observe the mark in the next pass, check the rule again, evict with UID and
resourceVersion as preconditions; the mark stays until the successor is in sync. Withdrawing a mark changes the pod first, so that an operator
that has lost its lease without noticing can no longer evict the pod with the resourceVersion that it had read.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from spindle.api import names
from spindle.evacuation.deadlocks import name_deadlock
from spindle.model import objects
from spindle.model.actions import Delete, Evict, MarkDown, Patch
from spindle.model.blockers import Blocked
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import RestartRequest
from spindle.model.restart_safety import RestartSafety, TopicPartition
from spindle.model.restart_verdict import RestartVerdict, RolloutDecision
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import stamp
from spindle.model.unavailable import ANN_WITHDRAWN, current_records, token, unavailable_with
from spindle.model.waiting import Waiting, some
from spindle.rollout.restart_policy import RestartPolicy
from spindle.rollout.rollout_order import RolloutMember, at_once, next_to_restart
from spindle.rollout.stalled_rollout import (
    CHANGES,
    copying,
    crash_loops,
    crashed_pods,
    overdue,
    stalled_rollout,
)

_ACTION: Final = "RestartPod"


@dataclass(frozen=True)
class EvictionLimits:
    """What holds evictions back besides the rule.

    Attributes:
        held: nodes that are not evicted in this pass, though they may stay marked.
        refused: nodes that have to wait for another reason than the rule.
        given: brokers that a drain may evict from this pass on, or that are to restart next.
        before: see `RestartSafety`.
    """

    held: AbstractSet[int] = frozenset()
    refused: Mapping[int, Waiting] = field(default_factory=dict)
    given: AbstractSet[int] = frozenset()
    before: Mapping[TopicPartition, tuple[int, ...]] | None = None


def reconcile_evictions(
    state: ClusterState,
    builder: PlanBuilder,
    wanted: Mapping[int, RestartRequest],
    limits: EvictionLimits,
    fences: Sequence[Delete],
    blocked: Mapping[int, Blocked],
) -> None:
    """Continue evictions that have started, then start the next ones if "no restart below min.insync.replicas" allows them.

    Args:
        state, builder: of this pass.
        wanted: nodes to restart or stop, and why.
        limits: what holds evictions back besides the rule.
        fences: brokers that are stopped at once. They are marked, too: an operator that has lost its lease cannot write the mark.
        blocked: brokers with failed disks whose replicas cannot be dropped for now, and why.
    """
    kept = current_records(state)
    fenced = _fenced(state, kept, fences)
    now = {int(mark["nodeId"]) for mark in fenced} | {
        n for n, pod in state.pods.items() if objects.uid(pod) in {fence.uid for fence in fences}
    }
    evictions = _Evictions(
        state,
        builder,
        {node_id: why for node_id, why in wanted.items() if node_id not in now},
        RestartPolicy(state.restart_safety.meaning(limits.before), limits.refused),
        unavailable_with(state, kept) | limits.given | now,
    )
    kept = evictions.continue_all(kept, limits.held | now)
    fresh = evictions.begin(kept, blocked)
    entries = (*kept, *fenced, *fresh)
    if list(entries) != list(state.unavailable_records):
        builder.do(MarkDown(resource_version=objects.version(state.cluster), entries=entries))
    builder.do(*fences)


def _fenced(
    state: ClusterState, kept: list[Mapping[str, Any]], fences: Sequence[Delete]
) -> tuple[dict[str, Any], ...]:
    """Marks for brokers that are stopped at once and have no mark yet."""
    marked = {str(mark["uid"]) for mark in kept}
    going = {fence.uid: fence.reason for fence in fences if fence.uid not in marked}
    return tuple(
        _mark(state, node_id, pod, RestartRequest(going[uid], ""))
        for node_id, pod in state.pods.items()
        if (uid := objects.uid(pod)) in going
    )


class _Evictions:
    """The evictions of one pass.

    Attributes:
        wanted: nodes to restart or stop, and why, without those that are stopped at once.
        policy: whether a node may go down.
        down: brokers that are down or may go down.
    """

    def __init__(
        self,
        state: ClusterState,
        builder: PlanBuilder,
        wanted: Mapping[int, RestartRequest],
        policy: RestartPolicy,
        down: frozenset[int],
    ) -> None:
        self.state, self.builder, self.wanted, self.policy, self.down = state, builder, wanted, policy, down
        self.changes = {node_id for node_id, why in wanted.items() if why.reason in CHANGES}

    def ask(self, node_id: int, going: frozenset[int] = frozenset()) -> RestartVerdict:
        """Whether a node may go down together with others."""
        return self.policy.ask(self.state, node_id, self.down | going, change=node_id in self.changes)

    def continue_all(
        self, marks: Sequence[Mapping[str, Any]], held: AbstractSet[int]
    ) -> list[Mapping[str, Any]]:
        """Continue the evictions that have started; returns the marks that stay."""
        continued = (self._continue(mark, held) for mark in marks)
        return [mark for mark in continued if mark is not None]

    def _continue(self, mark: Mapping[str, Any], held: AbstractSet[int]) -> Mapping[str, Any] | None:
        """Evict a marked pod, or check whether its successor is back; returns the mark if it stays."""
        state, builder, node_id = self.state, self.builder, int(mark["nodeId"])
        pod = state.pods.get(node_id)
        if pod is not None and objects.uid(pod) == mark["uid"]:
            if not objects.deleting(pod) and node_id not in held:
                _go_on(state, builder, mark, pod, self.wanted.get(node_id), self.ask(node_id))
            return mark
        if _is_back(state, self.policy.rolling, node_id):
            return None
        if pod is None or objects.deleting(pod) or node_id not in self.wanted:
            return mark
        # The successor is outdated itself (for example, the image was corrected meanwhile): it is recreated, too.
        why = self.wanted[node_id]
        if recreate_now(state, builder, node_id, why):
            return mark
        return _again(state, builder, mark, why, self.ask(node_id))

    def begin(
        self, kept: list[Mapping[str, Any]], blocked: Mapping[int, Blocked]
    ) -> tuple[dict[str, Any], ...]:
        """Mark the next pods, and report why others wait."""
        state, builder = self.state, self.builder
        report = partial(name_deadlock, state, builder, self.policy.rolling, self.down, blocked)
        fresh = _begin(state, builder, self.wanted, kept, self.ask, report)
        # Reported independently of the rollout order, so that the time of waiting for the copies is known.
        for node_id in sorted(self.changes):
            if (copies := copying(state, node_id)) is not None:
                pod_name = names.pod_name(state.name, node_id)
                builder.wait(replace(Waiting.of(_ACTION, f"Pod/{pod_name}", copies), quiet=True))
        return fresh


def recreate_now(state: ClusterState, builder: PlanBuilder, node_id: int, wanted: RestartRequest) -> bool:
    """Evict a pod in which Kafka does not run; nothing depends on it. False if Kafka runs there.

    The resourceVersion makes sure that Kafka was not started in the meantime.
    """
    pod = state.pods[node_id]
    if objects.kafka_runs(pod) or (pod.get("status") or {}).get("phase") == "Unknown":
        return False
    message = f"Recreating {objects.name(pod)}, in which Kafka does not run: {wanted.message}."
    builder.do(_next(state, node_id, wanted.reason, message))
    return True


def _again(
    state: ClusterState,
    builder: PlanBuilder,
    mark: Mapping[str, Any],
    wanted: RestartRequest,
    verdict: RestartVerdict,
) -> Mapping[str, Any]:
    """The mark of a node that has to go down again before it was back in sync.

    If it may not, the old mark stays, so that the node still counts as overdue and the rollout as stalled.
    """
    pod = state.pods[int(mark["nodeId"])]
    if verdict.refusal is None:
        return _mark(state, int(mark["nodeId"]), pod, wanted)
    builder.wait(Waiting.of(_ACTION, f"Pod/{objects.name(pod)}", verdict.refusal))
    return mark


def _go_on(
    state: ClusterState,
    builder: PlanBuilder,
    mark: Mapping[str, Any],
    pod: SnapshotObject,
    wanted: RestartRequest | None,
    verdict: RestartVerdict,
) -> None:
    """Evict a marked pod, or withdraw its mark if it no longer needs to, or may not, go down."""
    if wanted is not None and verdict.refusal is None:
        also = (
            f" While it is down, these partitions are unavailable: {some(verdict.named)}."
            if verdict.named
            else ""
        )
        message = f"Evicting {objects.name(pod)}: {wanted.message}.{also}"
        builder.do(_next(state, int(mark["nodeId"]), wanted.reason, message))
        return
    if verdict.refusal is not None:
        builder.wait(Waiting.of(_ACTION, f"Pod/{objects.name(pod)}", verdict.refusal))
    builder.do(
        Patch(
            kind="Pod",
            name=objects.name(pod),
            uid=objects.uid(pod),
            body={
                "metadata": {
                    "annotations": {ANN_WITHDRAWN: token(mark)},
                    "labels": {names.LABEL_BUDGET: _budget(state, int(mark["nodeId"]))},
                }
            },
        )
    )


def _next(state: ClusterState, node_id: int, reason: str, message: str) -> Evict | Patch:
    """Evict a pod. If its PodDisruptionBudget may forbid that, take the pod out of the budget first and evict it in the next pass."""
    pod = state.pods[node_id]
    name, uid, version = objects.name(pod), objects.uid(pod), objects.version(pod)
    if names.LABEL_BUDGET in objects.labels(pod) and _budget_forbids(state, node_id):
        unlabelled = {"metadata": {"labels": {names.LABEL_BUDGET: None}}}
        return Patch(kind="Pod", name=name, uid=uid, body=unlabelled, resource_version=version)
    return Evict(pod=name, uid=uid, resource_version=version, reason=reason, message=message)


def _budget(state: ClusterState, node_id: int) -> str:
    """The name of the PodDisruptionBudget that counts a node's pod."""
    broker = node_id < names.FIRST_CONTROLLER_ID
    return names.broker_budget(state.name) if broker else names.controller_budget(state.name)


def _budget_forbids(state: ClusterState, node_id: int) -> bool:
    """Whether the budget, which counts only ready pods, may forbid a safe eviction, because another pod is not ready.

    Otherwise a broker whose disk is back and a broker that cannot get in sync before that would wait for each other.
    """
    broker = node_id < names.FIRST_CONTROLLER_ID
    others = (state.brokers.keys() if broker else frozenset(state.controller_ids)) - {node_id}
    if any(int(mark["nodeId"]) in others for mark in state.unavailable_records):
        return True  # several nodes go down together, but the budget allows one at a time
    return not all((pod := state.pods.get(n)) is not None and objects.is_true(pod, "Ready") for n in others)


def _begin(
    state: ClusterState,
    builder: PlanBuilder,
    wanted: Mapping[int, RestartRequest],
    kept: list[Mapping[str, Any]],
    ask: Callable[[int, frozenset[int]], RestartVerdict],
    report_deadlock: Callable[[RolloutDecision, frozenset[int]], None],
) -> tuple[dict[str, Any], ...]:
    """Mark the next pods, as many as may be down at once.

    ``report_deadlock`` gets the decision on restarts for more than a change, and the brokers that are expected back.
    """
    marked = {int(mark["nodeId"]) for mark in state.unavailable_records}
    stuck = stalled_rollout(state, builder, _away(state, kept), wanted)
    able = [n for n in wanted if n not in marked and _up(state, builder, n, wanted[n], stopped=bool(stuck))]
    most = at_once(len(state.brokers), state.spec.rolling.max_unavailable)

    # Restarts for more than a change wait neither for a failed change nor for their turn in its rollout.
    urgent = [_member(state, n, wanted[n]) for n in able if wanted[n].reason not in CHANGES]
    going = [_going(state, mark) for mark in kept if not overdue(state, mark)]
    first = next_to_restart(urgent, going, most, ask)
    _report_later(state, builder, wanted, kept, first)
    # Includes brokers that were found back in this pass: part of what this pass has read is older than their return.
    report_deadlock(
        first,
        frozenset(int(mark["nodeId"]) for mark in state.unavailable_records if not overdue(state, mark)),
    )
    changes = [_member(state, n, wanted[n]) for n in able if wanted[n].reason in CHANGES]
    going = [_going(state, mark) for mark in kept] + [m for m in urgent if m.node_id in first.go]
    if stuck:
        for member in changes:
            pod = f"Pod/{objects.name(state.pods[member.node_id])}"
            builder.wait(replace(Waiting.of(_ACTION, pod, crashed_pods(stuck)), quiet=True))
        second = RolloutDecision()
    else:
        second = next_to_restart(changes, going, most, lambda n, others: ask(n, others | set(first.go)))
        _report_later(state, builder, wanted, kept, second)
    return tuple(_mark(state, n, state.pods[n], wanted[n]) for n in (*first.go, *second.go))


def _up(
    state: ClusterState, builder: PlanBuilder, node_id: int, wanted: RestartRequest, *, stopped: bool
) -> bool:
    """Whether Kafka runs in the pod. A pod in which it does not run is recreated at once.

    A stalled rollout must not spread its change that way: then a pod in which Kafka is down only briefly counts as up, and waits.
    """
    pod = state.pods.get(node_id)
    if pod is None or objects.deleting(pod):
        return False
    if stopped and wanted.reason in CHANGES and objects.kafka_ever_ran(pod) and not crash_loops(state, pod):
        return True
    return not recreate_now(state, builder, node_id, wanted)


def _report_later(
    state: ClusterState,
    builder: PlanBuilder,
    wanted: Mapping[int, RestartRequest],
    kept: list[Mapping[str, Any]],
    turn: RolloutDecision,
) -> None:
    """Report why the other pods wait."""
    for node_id, refusal in turn.refused.items():
        builder.wait(Waiting.of(_ACTION, f"Pod/{objects.name(state.pods[node_id])}", refusal))
    before = sorted({str(mark["pod"]) for mark in kept} | {objects.name(state.pods[n]) for n in turn.go})
    for node_id in turn.later:
        name = objects.name(state.pods[node_id])
        builder.wait(
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "RolloutInProgress",
                f"{name} will be evicted ({wanted[node_id].message}) after {some(before) or 'other pods'}.",
                f"Nothing to do: Spindle continues when {some(before) or 'those pods'} {'is' if len(before) == 1 else 'are'} back in sync. Brokers of "
                f"one rack restart together, at most {_how_many(state)}; controllers one at a time.",
                quiet=True,
            )
        )


def _how_many(state: ClusterState) -> int:
    return at_once(len(state.brokers), state.spec.rolling.max_unavailable)


def _member(state: ClusterState, node_id: int, wanted: RestartRequest | None = None) -> RolloutMember:
    pod, broker = state.pods.get(node_id), state.brokers.get(node_id)
    return RolloutMember(
        node_id=node_id,
        rack=(broker["spec"].get("rack") or None) if broker is not None else None,
        ready=pod is not None and objects.is_true(pod, "Ready"),
        active=state.kafka.quorum is not None and state.kafka.quorum.leader == node_id,
        urgent=wanted is not None and wanted.reason not in CHANGES,
    )


def _going(state: ClusterState, mark: Mapping[str, Any]) -> RolloutMember:
    return _member(state, int(mark["nodeId"]))


def _away(state: ClusterState, kept: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Marks of pods that went down and are expected back."""
    stopped = {i for i, broker in state.brokers.items() if objects.kept_down(broker)}
    return [mark for mark in kept if int(mark["nodeId"]) not in stopped]


def _mark(state: ClusterState, node_id: int, pod: SnapshotObject, wanted: RestartRequest) -> dict[str, Any]:
    """An entry of ``status.takingDown``."""
    return {
        "pod": objects.name(pod),
        "uid": objects.uid(pod),
        "nodeId": node_id,
        "since": stamp(state.now),
        "reason": wanted.reason,
    }


def _is_back(state: ClusterState, rolling: RestartSafety, node_id: int) -> bool:
    """Whether a node that went down is back, so that nothing waits for it any longer.

    A broker with a failed disk never passes its readiness gate; it is back when all replicas that it can hold are in sync.
    """
    broker = state.brokers.get(node_id)
    if broker is not None and objects.kept_down(broker):
        return node_id not in state.pods
    if broker is None and node_id not in state.controller_ids:
        return True
    pod = state.pods.get(node_id)
    if pod is None or not objects.kafka_runs(pod):
        return False
    if objects.is_true(pod, "Ready"):
        return True
    # Kafka's readiness probe has passed, so Kafka's answers are about this process.
    ready = bool(objects.container_status(pod, names.CONTAINER_KAFKA).get("ready"))
    return ready and broker is not None and rolling.in_sync_as_far_as_possible(node_id) is True
