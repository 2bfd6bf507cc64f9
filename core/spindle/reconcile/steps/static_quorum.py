"""The quorum of a cluster that was taken over: its voters stand in the configuration until Kafka has them on record (KIP-853)."""

from dataclasses import replace
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting
from spindle.manifests.identity import DYNAMIC, NodeIdentity, identity_map
from spindle.reconcile import objects
from spindle.reconcile.actions import Apply, RaiseFeatures
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState

KRAFT: Final = "kraft.version"


def reconcile_static_quorum(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Raise kraft.version once every controller runs; when it is raised, note that the configuration need not name the voters.

    The nodes then restart one after the other, as for any other change of their configuration.
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
                message="Kafka has its voters on record; its nodes are restarted without them in their configuration.",
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
                "The cluster was taken over with voters that stand in its configuration. They are put on record (kraft.version 1) "
                "when all controllers run and nobody restarts.",
                "All controllers are ready.",
                quiet=True,
            )
        )
        return
    builder.do(
        RaiseFeatures(
            levels={KRAFT: 1},
            reason="KraftVersionRaised",
            message="kraft.version is raised to 1: Kafka puts its voters on record.",
        )
    )
