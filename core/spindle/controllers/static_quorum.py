"""The static quorum of a cluster that was taken over: its voters are in the configuration until kraft.version is 1 (KIP-853)."""

from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Apply, RaiseFeatures
from spindle.model.cluster_identity import DYNAMIC, NodeIdentity, identity_map
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

KRAFT: Final = "kraft.version"


def reconcile_static_quorum(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Raise kraft.version once every controller is ready; then record that the configuration need not list the voters.

    The rolling restart that follows is the usual one for a change of the configuration.
    """
    features = state.kafka.features
    if not identity.static or features is None:
        return
    if features.get(KRAFT, 0) >= 1:
        builder.do(
            Apply(
                object=identity_map(state.name, state.namespace, replace(identity, quorum=DYNAMIC)),
                seen=state.config_maps[names.identity_map(state.name)],
                reason="QuorumDynamic",
                message="Kafka keeps its voters in the metadata log now; its nodes restart without controller.quorum.voters.",
            )
        )
        return
    away = [
        node
        for node in state.controller_ids
        if (pod := state.pods.get(node)) is None or not objects.is_true(pod, "Ready")
    ]
    if away or state.unavailable_records:
        builder.wait(
            Waiting(
                "RaiseKraftVersion",
                f"KafkaCluster/{state.name}",
                "QuorumStatic",
                "The cluster was taken over with a static quorum (controller.quorum.voters). Spindle makes it dynamic (kraft.version 1) "
                "when all controllers are ready and no pod restarts.",
                "Nothing to do: Spindle continues when all controllers are ready and no pod restarts.",
                quiet=True,
            )
        )
        return
    builder.do(
        RaiseFeatures(
            levels={KRAFT: 1},
            reason="KraftVersionRaised",
            message="Raised kraft.version to 1: Kafka keeps its voters in the metadata log from now on.",
        )
    )
