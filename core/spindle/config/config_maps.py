"""The ConfigMap of every controller and broker, and those that all of them read again while they run: topics and log levels."""

from spindle.api import names
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
    _topics(state, builder)
    _loggers(state, builder)


def _topics(state: ClusterState, builder: PlanBuilder) -> None:
    """The list of ``spec.metrics.topics``. It is created with the first topic, and stays, empty, after the last: its absence is not read by a broker sooner."""
    topics = state.spec.metrics.topics
    live = state.config_maps.get(names.topics_map(state.name))
    if topics or live is not None:
        ensure_applied(builder, topics_map(state.cluster, topics), live)


def _loggers(state: ClusterState, builder: PlanBuilder) -> None:
    """The levels of ``spec.logging``: created with the first, and kept, empty, after the last, as the list of topics is."""
    levels = state.spec.logging.loggers
    live = state.config_maps.get(names.loggers_map(state.name))
    if levels or live is not None:
        ensure_applied(builder, loggers_map(state.cluster, levels), live)
