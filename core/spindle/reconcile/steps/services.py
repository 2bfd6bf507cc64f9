"""What surrounds the pods: Services, disruption budgets, and each node's configuration."""

from collections.abc import Mapping

from spindle.cluster import names
from spindle.manifests.budgets import broker_budget, controller_budget, drain_budget
from spindle.manifests.common import drifted, with_applied
from spindle.manifests.config_maps import node_config_map
from spindle.manifests.identity import Identity
from spindle.manifests.inputs import VoterInputs
from spindle.manifests.network import network_policies
from spindle.manifests.services import services
from spindle.reconcile import objects
from spindle.reconcile.actions import Apply, Delete
from spindle.reconcile.draft import Draft
from spindle.reconcile.inputs import broker_inputs, cluster_inputs, controller_inputs
from spindle.reconcile.pools import pools_map
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.steps.listeners import listener_ports, listener_services, settle_listeners


def settle_services(state: State, draft: Draft) -> None:
    """Services and budgets: made, and put back where they were changed or deleted by hand."""
    if "services" not in state.snap.unknown:
        live = objects.by_name(state.snap.services)
        for wanted in (*services(state.cluster), *listener_services(state)):
            _settle(draft, wanted, live)
        settle_listeners(state, draft)
    if "poddisruptionbudgets" not in state.snap.unknown:
        live = objects.by_name(state.snap.budgets)
        _settle(draft, broker_budget(state.cluster, state.broker_count), live)
        _settle(draft, drain_budget(state.cluster), live)
        _settle(draft, controller_budget(state.cluster, len(state.controller_ids)), live)


def settle_policies(state: State, draft: Draft) -> None:
    """NetworkPolicies, where they are wanted; those that are not wanted any more go, and no others."""
    if "networkpolicies" in state.snap.unknown:
        return
    live = objects.by_name(state.snap.policies)
    wanted: tuple[Object, ...] = ()
    if state.spec.security.network_policies:
        ports = listener_ports(state)
        spindle = [name for name in (state.snap.operator_namespace, state.snap.agent_namespace) if name]
        wanted = network_policies(state.cluster, ports, spindle)
    for policy in wanted:
        _settle(draft, policy, live)
    kept = {objects.name(policy) for policy in wanted}
    for name, policy in live.items():
        ours = objects.annotation(policy, names.ANN_APPLIED) is not None
        if ours and name not in kept and not objects.deleting(policy):
            draft.do(Delete(kind="NetworkPolicy", name=name, uid=objects.uid(policy)))


def settle_pools(state: State, draft: Draft) -> None:
    """What the pools are, for the time when one is removed from the spec and its brokers are not empty yet."""
    known = {str(broker["spec"].get("pool")) for broker in state.brokers.values()}
    kept = {name: pool for name, pool in state.former.items() if name in known}
    wanted = with_applied(pools_map(state.cluster, {**state.pools, **kept}))
    live = state.config_maps.get(objects.name(wanted))
    if live is None or drifted(wanted, live):
        draft.do(Apply(object=wanted))


def settle_configuration(state: State, draft: Draft, identity: Identity) -> None:
    """The ConfigMap of every controller and broker."""
    shared = cluster_inputs(state, identity)
    voters = tuple(VoterInputs(node_id=v.id, directory_id=v.directory_id) for v in identity.voters)
    inputs = [controller_inputs(state, node_id) for node_id in state.controller_ids]
    inputs += [broker_inputs(state, broker) for broker in state.staying.values()]
    for node in inputs:
        if node is not None:
            _settle(draft, node_config_map(shared, node, voters), state.config_maps)


def _settle(draft: Draft, wanted: Object, live: Mapping[str, Object]) -> None:
    """Apply an object unless it says already what it should."""
    wanted = with_applied(wanted)
    found = live.get(objects.name(wanted))
    if found is not None and not drifted(wanted, found):
        return
    kind, name = wanted["kind"], objects.name(wanted)
    if found is None:
        draft.do(Apply(object=wanted))
    else:
        draft.do(
            Apply(
                object=wanted,
                reason="Restored",
                message=f"{kind} {name} was not as it should be and was put right.",
            )
        )
