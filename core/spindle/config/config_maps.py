"""The ConfigMap of every controller and broker, and those that all of them read again while they run: topics and log levels."""

from spindle.config.inputs import broker_inputs, cluster_inputs, controller_inputs
from spindle.manifests.config_maps import loggers_map, node_config_map, topics_map
from spindle.manifests.ensure_applied import ensure_applied
from spindle.model import objects
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.node_inputs import VoterInputs
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState


def reconcile_configuration(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """The ConfigMap of every controller and broker, the list of topics, and the levels of loggers."""
    shared = cluster_inputs(state, identity)
    voters = tuple(VoterInputs(node_id=v.id, directory_id=v.directory_id) for v in identity.voters)
    inputs = [controller_inputs(state, node_id) for node_id in state.controller_ids]
    inputs += [broker_inputs(state, broker) for broker in state.staying.values()]
    for node in inputs:
        if node is not None:
            wanted = node_config_map(shared, node, voters)
            ensure_applied(builder, wanted, state.config_maps.get(objects.name(wanted)))
    _read_while_running(state, builder)


def _read_while_running(state: ClusterState, builder: PlanBuilder) -> None:
    """The lists of ``spec.metrics.topics`` and ``spec.logging``. Each is created with its first entry, and stays, empty, after the last: its absence is not read by a node sooner."""
    topics, levels = state.spec.metrics.topics, state.spec.logging.loggers
    for filled, wanted in (
        (bool(topics), topics_map(state.cluster, topics)),
        (bool(levels), loggers_map(state.cluster, levels)),
    ):
        live = state.config_maps.get(objects.name(wanted))
        if filled or live is not None:
            ensure_applied(builder, wanted, live)
