"""The readiness gate ``spindle.dev/in-sync``: written by the operator only, so that a PodDisruptionBudget counts brokers in sync."""

from spindle.api import names
from spindle.manifests.budgets import broker_budget
from spindle.model import objects
from spindle.model.actions import SetPodCondition
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.unavailable import counted_brokers
from spindle.rollout.controllers import controller_in_sync


def reconcile_gates(state: ClusterState, builder: PlanBuilder) -> None:
    """Set each pod's gate from what Kafka reports; leave it as it is where Kafka reports nothing.

    A broker that has just joined becomes ready only when the PodDisruptionBudget already counts it: else two could be evicted in between.
    """
    rolling = state.restart_safety
    too_few = budget_counts_too_few(state)
    for node_id, pod in state.pods.items():
        if objects.deleting(pod) or objects.is_over(pod):
            continue
        if node_id >= names.FIRST_CONTROLLER_ID:
            fresh = controller_in_sync(state.kafka.quorum, node_id)
            why = "a voter that has caught up" if fresh else "not a voter, or behind the leader"
        else:
            fresh = rolling.in_sync(node_id)
            why = (
                "unfenced and in every ISR it belongs to"
                if fresh
                else "fenced, or missing from an ISR it belongs to"
            )
        if not objects.kafka_runs(pod):
            # For some seconds Kafka still counts the previous pod's process as this broker.
            fresh, why = False, "Kafka does not run in this pod"
        if fresh is None or fresh == objects.is_true(pod, names.READINESS_GATE):
            continue
        if not fresh and objects.condition(pod, names.READINESS_GATE) is None:
            continue  # an absent gate equals a false one
        if fresh and too_few and node_id < names.FIRST_CONTROLLER_ID:
            continue
        builder.do(
            SetPodCondition(
                pod=objects.name(pod), uid=objects.uid(pod), type=names.READINESS_GATE, status=fresh, why=why
            )
        )


def budget_counts_too_few(state: ClusterState) -> bool:
    """Whether the live PodDisruptionBudget protects fewer brokers than it should, because its update has not been applied yet."""
    name = names.broker_budget(state.name)
    live = objects.by_name(state.snap.budgets).get(name)
    if "poddisruptionbudgets" in state.snap.unknown or live is None:
        return False
    least = (live.get("spec") or {}).get("minAvailable")
    wanted = broker_budget(state.cluster, counted_brokers(state))["spec"]["minAvailable"]
    return isinstance(least, int) and least < wanted
