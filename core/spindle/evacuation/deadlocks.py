"""Restart deadlocks: brokers that have to restart for their disks and block each other, because each has replicas that the others need.

One of them has to restart anyway, and the user decides which topics may refuse writes for that, with ``spec.acceptUnavailable`` of the
KafkaBroker. The acceptance applies to exactly this pod, so to one restart, and to exactly the partitions that were named. It accepts
unavailability and nothing else: it never permits the restart of a broker with the only in-sync replica of a partition.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.evacuation.deadlock import deadlock, word_for
from spindle.model import objects
from spindle.model.blockers import Blocked
from spindle.model.given_consent import restart_command
from spindle.model.plan_builder import PlanBuilder
from spindle.model.restart_safety import BELOW_MIN_ISR, RestartSafety
from spindle.model.restart_verdict import RestartVerdict, RolloutDecision
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_FIELD: Final = "acceptUnavailable"


def let_go(
    state: ClusterState, rolling: RestartSafety, node_id: int, verdict: RestartVerdict, down: AbstractSet[int]
) -> RestartVerdict:
    """The verdict on a broker after applying the user's acceptance: accepted partitions are named and no longer forbid the restart.

    Args:
        state: of this pass.
        rolling: that gave the verdict.
        node_id: the broker.
        verdict: of "no restart below min.insync.replicas" (`docs/safety.md`, rule 2).
        down: brokers that are down or going down.
    """
    refusal, pod = verdict.refusal, state.pods.get(node_id)
    if refusal is None or refusal.reason != BELOW_MIN_ISR or pod is None or node_id not in state.brokers:
        return verdict
    if state.brokers[node_id]["spec"].get(_FIELD) != word_for(objects.uid(pod), refusal.objects):
        return verdict
    if rolling.left_alone(node_id, refusal.objects, down):
        return verdict
    return replace(verdict, refusal=None, named=(*verdict.named, *refusal.objects))


def held_by(
    rolling: RestartSafety, node_id: int, refusal: Waiting, down: AbstractSet[int], *, restarts: bool = True
) -> Blocked:
    """What blocks a broker; with ``restarts=False``, it would not restart even if min ISR allowed it, so all other replicas have to be back."""
    return Blocked(
        refusal.objects,
        rolling.blockers(node_id, refusal.objects, down, all_back=not restarts),
        tuple(rolling.left_alone(node_id, refusal.objects, down)),
        restarts,
    )


def name_deadlock(
    state: ClusterState,
    builder: PlanBuilder,
    rolling: RestartSafety,
    down: AbstractSet[int],
    shrinks: Mapping[int, Blocked],
    turn: RolloutDecision,
    coming: AbstractSet[int],
) -> None:
    """Report which brokers block each other, for which partitions, and how the user resolves it.

    Args:
        state, builder: of this pass.
        rolling: computed from one observation of Kafka.
        down: brokers that are down or going down.
        shrinks: brokers with failed disks whose replicas cannot be dropped for now.
        turn: which brokers restart now and which may not, among those that need a restart for more than a configuration change.
        coming: brokers that went down and are expected back. Nothing is reported while any of them could resolve the deadlock.
    """
    blocked = dict(shrinks)
    for node_id, refusal in turn.refused.items():
        if refusal.reason == BELOW_MIN_ISR and node_id < names.FIRST_CONTROLLER_ID:
            blocked[node_id] = held_by(rolling, node_id, refusal, down | set(turn.go))
    found = deadlock({node_id: each.blockers for node_id, each in blocked.items()})
    away = coming | set(turn.go)
    if any(each.missing & away for node_id in found for each in blocked[node_id].blockers):
        return
    able = [node_id for node_id in found if blocked[node_id].restarts and node_id in state.pods]
    if not able:
        return
    first = min(able, key=lambda n: (bool(blocked[n].alone), len(blocked[n].partitions), n))
    each = "; ".join(f"{_name(state, n)} for {some(found[n])}" for n in sorted(found))
    builder.wait(
        Waiting(
            "RestartPod",
            f"KafkaCluster/{state.name}",
            "RestartDeadlock",
            f"{some([_name(state, n) for n in sorted(found)])} have to restart for their disks, but block each other: each of them is needed "
            f"for partitions that lack a replica on another of them: {each}. Spindle restarts none of them on its own.",
            _way_out(state, first, blocked[first]),
            asks=True,
        )
    )


def _way_out(state: ClusterState, node_id: int, blocked: Blocked) -> str:
    pod, named = state.pods[node_id], blocked.partitions
    if blocked.alone:
        return (
            f"Choose one broker and restart it, for example: `kubectl delete pod {objects.name(pod)}`. It has the only in-sync replica of "
            f"{counted(len(blocked.alone), 'partition')}, which cannot be read or written until it is back: {some(blocked.alone)}."
        )
    command = restart_command(_name(state, node_id), word_for(objects.uid(pod), named))
    return (
        f"Choose one broker and allow its restart, for example: `{command}`. "
        f"Until it is back, after about half a minute, writes with acks=all to {counted(len(named), 'partition')} are rejected: {some(named)}. "
        "The permission applies to these partitions and to one restart."
    )


def _name(state: ClusterState, node_id: int) -> str:
    return names.broker_name(state.name, node_id)
