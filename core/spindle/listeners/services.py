"""Services and PodDisruptionBudgets."""

from spindle.listeners.external_addresses import listener_services, reconcile_listeners
from spindle.listeners.routes import reconcile_routes
from spindle.manifests.budgets import broker_budget, controller_budget, drain_budget
from spindle.manifests.ensure_applied import ensure_applied
from spindle.manifests.pod_template import described
from spindle.manifests.services import services
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.unavailable import counted_brokers


def reconcile_services(state: ClusterState, builder: PlanBuilder) -> None:
    """Create Services and PodDisruptionBudgets, and restore them where they were changed or deleted by hand."""
    if "services" not in state.snap.unknown:
        live = objects.by_name(state.snap.services)
        scraped = state.spec.metrics.enabled
        for wanted in (*services(state.cluster, metrics=scraped), *listener_services(state)):
            made = described(wanted, state.spec.service_metadata)
            ensure_applied(builder, made, live.get(objects.name(made)))
        reconcile_listeners(state, builder)
        reconcile_routes(state, builder)
    if "poddisruptionbudgets" not in state.snap.unknown:
        live = objects.by_name(state.snap.budgets)
        for wanted in (
            broker_budget(state.cluster, counted_brokers(state)),
            drain_budget(state.cluster),
            controller_budget(state.cluster, len(state.controller_ids)),
        ):
            ensure_applied(builder, wanted, live.get(objects.name(wanted)))
