"""Drains of a zone: while one rack is drained, its brokers have a budget of their own, and the others may lose none.

The usual budget lets anybody evict one broker while all are in sync. Who may go besides leaves that budget for one that forbids nothing; the
rest then has too few for the usual one to allow anything. So each pod is counted by one budget, and the two never allow at once.

Kubernetes counts a budget anew when one of its pods changes, and one that leaves it by its label is none of them any more (the
disruption controller's updatePod). So pods leave only while the usual budget allows nothing anyway, because another one is away.
"""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, some
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.unavailable import evicted_for_drain, on_closed_node, unavailable
from spindle.rolling.brokers import RestartSafety
from spindle.rolling.drains import Drain, DrainCandidate, next_to_drain
from spindle.rolling.verdict import RestartVerdict

_ACTION: Final = "Drain"


def reconcile_drains(
    state: ClusterState, builder: PlanBuilder, before: Mapping[tuple[str, int], tuple[int, ...]] | None = None
) -> frozenset[int]:
    """Move pods between the two budgets; returns who may be evicted by a drain from this pass on.

    ``before``: see `RestartSafety`. When the nodes could not be read nothing is given to a drain that was not before, and what was stays known as going down.
    """
    drain = _drain(state, before)
    given = {i for i in state.brokers if evicted_for_drain(state, i)}
    usual, own = names.broker_budget(state.name), names.drain_budget(state.name)
    for node_id in sorted(given - set(drain.go)):
        builder.do(_move(state.pods[node_id], usual))
    # Those of another rack come back first: nobody is given to a drain before that is seen.
    fresh = set(drain.go) - given if given <= set(drain.go) else set()
    for node_id in sorted(fresh):
        pod = state.pods[node_id]
        if objects.labels(pod).get(names.LABEL_BUDGET) == usual:
            others = some([names.broker_name(state.name, i) for i in drain.away])
            builder.do(
                _move(
                    pod,
                    own,
                    "DrainAllowed",
                    f"{objects.name(pod)} may be evicted together with {others}: its node is closed, and no partition falls below "
                    "min.insync.replicas by that.",
                )
            )
    _tell(state, builder, drain)
    return frozenset(given | fresh)


def _drain(state: ClusterState, before: Mapping[tuple[str, int], tuple[int, ...]] | None) -> Drain:
    if "nodes" in state.snap.unknown:
        return Drain()
    residents = [_resident(state, i, broker) for i, broker in state.brokers.items()]
    if not any(each.closed for each in residents):
        return Drain()
    rolling, gone = RestartSafety(state.kafka, before), unavailable(state)

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


def _tell(state: ClusterState, builder: PlanBuilder, drain: Drain) -> None:
    """Say why the others on closed nodes stay."""
    for node_id, refusal in drain.refused.items():
        builder.wait(Waiting.of(_ACTION, f"Pod/{objects.name(state.pods[node_id])}", refusal))
    away = some([names.broker_name(state.name, i) for i in drain.away])
    for node_id in drain.later:
        name = objects.name(state.pods[node_id])
        rack = f"zone {drain.rack} is drained" if drain.rack else "brokers are down already"
        builder.wait(
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "EvictionDeferred",
                f"The node of {name} is closed to new pods, and {rack}{f' ({away})' if away else ''}: its eviction is refused meanwhile.",
                "Those brokers are back in sync: uncordon their nodes. Brokers of one zone can be drained together.",
            )
        )
