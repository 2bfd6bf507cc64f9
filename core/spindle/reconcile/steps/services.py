"""Services, PodDisruptionBudgets, NetworkPolicies and each node's ConfigMap."""

from spindle.cluster import names
from spindle.manifests.budgets import broker_budget, controller_budget, drain_budget
from spindle.manifests.config_maps import node_config_map
from spindle.manifests.identity import NodeIdentity
from spindle.manifests.inputs import VoterInputs
from spindle.manifests.network import network_policies, spark_policy
from spindle.manifests.services import services
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete
from spindle.reconcile.certificates import has_job
from spindle.reconcile.claim_annotations import has_left
from spindle.reconcile.ensure_applied import ensure_applied
from spindle.reconcile.inputs import broker_inputs, cluster_inputs, controller_inputs
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.pools import pools_map
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.listeners import listener_ports, listener_services, reconcile_listeners


def reconcile_services(state: ClusterState, builder: PlanBuilder) -> None:
    """Create Services and PodDisruptionBudgets, and restore them where they were changed or deleted by hand."""
    if "services" not in state.snap.unknown:
        live = objects.by_name(state.snap.services)
        scraped = state.spec.metrics.enabled
        for wanted in (*services(state.cluster, metrics=scraped), *listener_services(state)):
            ensure_applied(builder, wanted, live.get(objects.name(wanted)))
        reconcile_listeners(state, builder)
    if "poddisruptionbudgets" not in state.snap.unknown:
        live = objects.by_name(state.snap.budgets)
        for wanted in (
            broker_budget(state.cluster, counted_brokers(state)),
            drain_budget(state.cluster),
            controller_budget(state.cluster, len(state.controller_ids)),
        ):
            ensure_applied(builder, wanted, live.get(objects.name(wanted)))


def counted_brokers(state: ClusterState) -> int:
    """How many brokers the PodDisruptionBudget protects: those of the cluster that Kafka knows.

    A broker that never ran (no node for it, or an unschedulable pod) is neither registered nor in any assignment. If it counted as
    unavailable, no broker could be evicted until it runs. While Kafka's state is unknown, all brokers count.
    """
    replicas, registered = state.replica_counts, state.kafka.brokers
    if replicas is None or registered is None:
        return state.broker_count
    known = {*registered, *replicas} - (state.brokers.keys() - state.staying.keys())
    return min(state.broker_count, len(known))


def budget_counts_too_few(state: ClusterState) -> bool:
    """Whether the live PodDisruptionBudget protects fewer brokers than it should, because its update has not been applied yet."""
    name = names.broker_budget(state.name)
    live = objects.by_name(state.snap.budgets).get(name)
    if "poddisruptionbudgets" in state.snap.unknown or live is None:
        return False
    least = (live.get("spec") or {}).get("minAvailable")
    wanted = broker_budget(state.cluster, counted_brokers(state))["spec"]["minAvailable"]
    return isinstance(least, int) and least < wanted


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
        if ours and name not in kept and not objects.deleting(policy):
            builder.do(Delete(kind="NetworkPolicy", name=name, uid=objects.uid(policy)))


def _policies(state: ClusterState) -> tuple[SnapshotObject, ...]:
    spindle = [name for name in (state.snap.operator_namespace, state.snap.agent_namespace) if name]
    return network_policies(state.cluster, listener_ports(state), spindle, metrics=state.spec.metrics.enabled)


def reconcile_pools(state: ClusterState, builder: PlanBuilder) -> None:
    """Record the pools: the brokers of a pool that the spec no longer has run until they are drained."""
    known = {str(broker["spec"].get("pool")) for broker in state.brokers.values()}
    known |= {str(objects.annotation(c, names.ANN_POOL)) for c in state.claims.values() if not has_left(c)}
    kept = {name: pool for name, pool in state.former.items() if name in known}
    identity = state.known_identity
    cluster_id = identity.cluster_id if identity is not None else None
    wanted = pools_map(state.cluster, {**state.pools, **kept}, state.spec, cluster_id)
    ensure_applied(builder, wanted, state.config_maps.get(objects.name(wanted)))


def reconcile_configuration(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """The ConfigMap of every controller and broker."""
    shared = cluster_inputs(state, identity)
    voters = tuple(VoterInputs(node_id=v.id, directory_id=v.directory_id) for v in identity.voters)
    inputs = [controller_inputs(state, node_id) for node_id in state.controller_ids]
    inputs += [broker_inputs(state, broker) for broker in state.staying.values()]
    for node in inputs:
        if node is not None:
            wanted = node_config_map(shared, node, voters)
            ensure_applied(builder, wanted, state.config_maps.get(objects.name(wanted)))
