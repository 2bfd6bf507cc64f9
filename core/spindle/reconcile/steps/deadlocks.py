"""Brokers that have to restart for their disks and need each other: found, named, and led out by a person's word.

None of them can ever be spared. One of them has to go all the same, and which topics may refuse writes for that is for a person to decide. The
word is on the KafkaBroker (``spec.acceptUnavailable``): it counts for this very pod, so once, and for exactly the partitions that were named. It
lets their availability go and nothing else: a broker that has the only copy in sync is not let go by it.
"""

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.reconcile import objects
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState
from spindle.rolling.brokers import BELOW_MIN_ISR, RestartSafety
from spindle.rolling.deadlock import Blocked, deadlock, word_for
from spindle.rolling.rollout_order import RolloutDecision
from spindle.rolling.verdict import RestartVerdict

_WORD: Final = "acceptUnavailable"


def let_go(
    state: ClusterState, rolling: RestartSafety, node_id: int, verdict: RestartVerdict, down: AbstractSet[int]
) -> RestartVerdict:
    """The verdict on a broker with a person's word counted: what it makes unavailable is then named, and no longer forbids it.

    Args:
        state: of this pass.
        rolling: that gave the verdict.
        node_id: the broker.
        verdict: what rule 2 says.
        down: brokers that are down or going down.
    """
    refusal, pod = verdict.refusal, state.pods.get(node_id)
    if refusal is None or refusal.reason != BELOW_MIN_ISR or pod is None or node_id not in state.brokers:
        return verdict
    if state.brokers[node_id]["spec"].get(_WORD) != word_for(objects.uid(pod), refusal.objects):
        return verdict
    if rolling.left_alone(node_id, refusal.objects, down):
        return verdict
    return replace(verdict, refusal=None, named=(*verdict.named, *refusal.objects))


def held_by(
    rolling: RestartSafety, node_id: int, refusal: Waiting, down: AbstractSet[int], *, restarts: bool = True
) -> Blocked:
    """What holds a broker; where it does not go even if these partitions could spare it, every copy of theirs is needed."""
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
    """Say which brokers wait for each other, for which partitions, and how a person lets one of them go.

    Args:
        state, builder: of this pass.
        rolling: one look at Kafka.
        down: brokers that are down or going down.
        shrinks: brokers whose dead disks cannot be given up for now.
        turn: who of those that are to go down for more than a change goes now, and who may not.
        coming: brokers that went down and are expected back. Whether others need each other, and who is the last in sync, is seen when they
            are.
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
    each = "; ".join(f"{_name(state, n)} by {some(found[n])}" for n in sorted(found))
    builder.wait(
        Waiting(
            "RestartPod",
            f"KafkaCluster/{state.name}",
            "RestartDeadlock",
            f"{some([_name(state, n) for n in sorted(found)])} have to restart for their disks, and each is needed by partitions that lack a "
            f"copy because of another one of them: {each}. None of them is restarted by itself.",
            _way_out(state, first, blocked[first]),
        )
    )


def _way_out(state: ClusterState, node_id: int, blocked: Blocked) -> str:
    pod, named = state.pods[node_id], blocked.partitions
    if blocked.alone:
        return (
            f"Choose one and restart it: `kubectl delete pod {objects.name(pod)}`. It has the only copy in sync of "
            f"{counted(len(blocked.alone), 'partition')}, which nobody can read or write until it is back: {some(blocked.alone)}."
        )
    word = json.dumps({"spec": {_WORD: word_for(objects.uid(pod), named)}}, separators=(",", ":"))
    return (
        f"Choose one and let it go: `kubectl patch kafkabroker {_name(state, node_id)} --type merge -p '{word}'`. Until it is back, about half "
        f"a minute, writes with acks=all are refused to {counted(len(named), 'partition')}: {some(named)}. It counts for these partitions and "
        "this one restart."
    )


def _name(state: ClusterState, node_id: int) -> str:
    return names.broker_name(state.name, node_id)
