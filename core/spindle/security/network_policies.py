"""NetworkPolicies of a cluster."""

from spindle.api import names
from spindle.listeners.external_addresses import listener_ports
from spindle.manifests.ensure_applied import ensure_applied
from spindle.manifests.network import network_policies, spark_policy
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.security.certificates import has_job


def reconcile_policies(state: ClusterState, builder: PlanBuilder) -> None:
    """Apply NetworkPolicies if the spec asks for them or Spark opens ports; delete those that are no longer needed."""
    if "networkpolicies" in state.snap.unknown:
        return
    live = objects.by_name(state.snap.policies)
    wanted = _policies(state) if state.spec.security.network_policies else ()
    if has_job(state) and state.spec.rebalance.engine.executors is not None:
        wanted = (*wanted, spark_policy(state.cluster))
    for policy in wanted:
        ensure_applied(builder, policy, live.get(objects.name(policy)))
    kept = {objects.name(policy) for policy in wanted}
    for name, policy in live.items():
        ours = objects.annotation(policy, names.ANN_APPLIED) is not None
        if ours and name not in kept:
            builder.delete("NetworkPolicy", policy)


def _policies(state: ClusterState) -> tuple[SnapshotObject, ...]:
    spindle = [name for name in (state.snap.operator_namespace, state.snap.agent_namespace) if name]
    return network_policies(state.cluster, listener_ports(state), spindle, metrics=state.spec.metrics.enabled)
