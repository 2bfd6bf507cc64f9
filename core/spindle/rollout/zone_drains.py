"""Drains of a zone: while a rack is drained, its brokers have their own PodDisruptionBudget, and no broker of another rack may be evicted.

The usual budget allows the eviction of one broker while all are in sync. Brokers that may be evicted in addition are moved to a second budget
that forbids nothing; the usual budget then has too few healthy pods to allow an eviction. So each pod is counted by exactly one budget, and
the two never allow evictions at the same time.

Kubernetes recomputes a budget when one of its pods changes, but not when a pod leaves the budget by a label change (updatePod of the disruption
controller). So pods are moved only while the usual budget allows no eviction anyway, because another broker is down.
"""

from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.plan_builder import PlanBuilder
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.unavailable import evicted_for_drain, on_closed_node, unavailable
from spindle.model.waiting import Waiting, some
from spindle.rollout.drains import Drain, DrainCandidate, next_to_drain

_ACTION: Final = "Drain"


def reconcile_drains(
    state: ClusterState, builder: PlanBuilder, before: Mapping[tuple[str, int], tuple[int, ...]] | None = None
) -> frozenset[int]:
    """Move pods between the two budgets; returns the brokers that a drain may evict from this pass on.

    ``before``: see `RestartSafety`. While the nodes cannot be read, no further broker is released to a drain, and those that were released
    still count as going down.
    """
    drain = _drain(state, before)
    released = {i for i in state.brokers if evicted_for_drain(state, i)}
    usual, own = names.broker_budget(state.name), names.drain_budget(state.name)
    for node_id in sorted(released - set(drain.go)):
        builder.do(_move(state.pods[node_id], usual))
    # Brokers of another rack return to the usual budget first; no broker is released before that is observed.
    fresh = set(drain.go) - released if released <= set(drain.go) else set()
    for node_id in sorted(fresh):
        pod = state.pods[node_id]
        if objects.labels(pod).get(names.LABEL_BUDGET) == usual:
            others = some([names.broker_name(state.name, i) for i in drain.away])
            builder.do(
                _move(
                    pod,
                    own,
                    "DrainAllowed",
                    f"{objects.name(pod)} may be evicted together with {others}: its node is cordoned, and no partition falls below "
                    "min.insync.replicas.",
                )
            )
    _report_refused(state, builder, drain)
    return frozenset(released | fresh)


def _drain(state: ClusterState, before: Mapping[tuple[str, int], tuple[int, ...]] | None) -> Drain:
    if "nodes" in state.snap.unknown:
        return Drain()
    residents = [_resident(state, i, broker) for i, broker in state.brokers.items()]
    if not any(each.closed for each in residents):
        return Drain()
    rolling, gone = state.restart_safety.meaning(before), unavailable(state)

    def ask(node_id: int, going: frozenset[int]) -> RestartVerdict:
        return rolling.may_go_down(node_id, (gone | going) - {node_id})

    return next_to_drain(residents, ask)


def _resident(state: ClusterState, node_id: int, broker: SnapshotObject) -> DrainCandidate:
    pod = state.pods.get(node_id)
    there = pod is not None and not objects.deleting(pod) and state.node_of(node_id) is not None
    return DrainCandidate(
        node_id=node_id,
        rack=broker["spec"].get("rack") or None,
        closed=on_closed_node(state, node_id),
        whole=there and pod is not None and objects.is_true(pod, "Ready"),
        there=there,
        taken=any(int(mark["nodeId"]) == node_id for mark in state.unavailable_records),
        open=evicted_for_drain(state, node_id),
    )


def _move(pod: SnapshotObject, budget: str, reason: str = "", message: str = "") -> Patch:
    return Patch(
        kind="Pod",
        name=objects.name(pod),
        uid=objects.uid(pod),
        body={"metadata": {"labels": {names.LABEL_BUDGET: budget}}},
        resource_version=objects.version(pod),
        reason=reason,
        message=message,
    )


def _report_refused(state: ClusterState, builder: PlanBuilder, drain: Drain) -> None:
    """Report why the other brokers on cordoned nodes cannot be evicted yet."""
    for node_id, refusal in drain.refused.items():
        builder.wait(Waiting.of(_ACTION, f"Pod/{objects.name(state.pods[node_id])}", refusal))
    away = some([names.broker_name(state.name, i) for i in drain.away])
    for node_id in drain.later:
        name = objects.name(state.pods[node_id])
        rack = f"zone {drain.rack} is being drained" if drain.rack else "other brokers are down already"
        builder.wait(
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "EvictionDeferred",
                f"Eviction of {name} is refused for now: its node is cordoned, but {rack}{f' ({away})' if away else ''}.",
                "Uncordon the nodes of those brokers and wait until they are back in sync. Brokers of one zone can be drained together.",
            )
        )
