"""Deletion of a KafkaCluster: first the brokers, so that they hand over leadership and close their logs, then controllers, then records.

Claims, and with them the data and its identity, are kept unless ``deleteClaims`` is true: "no data deleted unless requested"
(`docs/safety.md`, rule 11).
"""

from spindle.api import names
from spindle.brokers.claim_annotations import claim_annotations
from spindle.config.broker_settings import put_back
from spindle.model import objects
from spindle.model.actions import Delete
from spindle.model.finalizers import drop_finalizer
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted
from spindle.moves.journal_record import reconcile_cleanup
from spindle.proposals.rebalance_job import withdraw_job
from spindle.security.agent_access import withdraw_agents
from spindle.topics.reconciler import release_topics
from spindle.users.reconciler import release_users


def reconcile_deletion(state: ClusterState, builder: PlanBuilder) -> bool:
    """Stop the cluster and delete what it leaves behind. True when nothing is left to do."""
    # First of all: a KafkaTopic that is deleted along with its cluster must not wait for the brokers, which stop now.
    released = release_topics(state, builder)
    # A tuple, so that `all` does not short-circuit: both are withdrawn in this pass.
    if not all((withdraw_job(state, builder), _withdraw_proposals(state, builder))):
        return False
    if not reconcile_cleanup(state, builder):
        return False
    if not put_back(state, builder):
        return False
    brokers = [pod for node_id, pod in state.pods.items() if node_id < names.FIRST_CONTROLLER_ID]
    # Pods that were created to get a claim bound use that claim.
    claim_pods = [pod for pod in state.snap.pods if objects.name(pod) in state.claims]
    pods = brokers or [*state.pods.values(), *claim_pods]
    if pods:
        _stop(builder, pods)
        return False
    if state.brokers:
        missing = [patch for broker in state.brokers.values() for patch in claim_annotations(state, broker)]
        if missing:
            builder.do(*missing)
            return False
        for broker in state.brokers.values():
            _release(builder, broker)
        return False
    if not withdraw_agents(state, builder) or not release_users(state, builder) or not released:
        return False
    if state.spec.delete_claims:
        return not _delete_data(state, builder)
    return True


def _withdraw_proposals(state: ClusterState, builder: PlanBuilder) -> bool:
    """Delete the KafkaRebalances of a deleted KafkaCluster: they do not apply to another cluster of the same name. True when none are left."""
    ours = [raw for raw in state.snap.rebalances if objects.owned_by(raw, state.cluster)]
    left = [raw for raw in ours if not objects.deleting(raw)]
    for raw in left:
        builder.delete("KafkaRebalance", raw)
    return not left


def _stop(builder: PlanBuilder, pods: list[SnapshotObject]) -> None:
    for pod in pods:
        message = f"Stopping {objects.name(pod)}: its KafkaCluster is being deleted."
        builder.delete("Pod", pod, "ClusterDeleted", message)
    builder.wait(
        Waiting(
            "Delete",
            f"Pod/{objects.name(pods[0])}",
            "PodsTerminating",
            f"{counted(len(pods), 'pod')} {'is' if len(pods) == 1 else 'are'} terminating; brokers close their logs first.",
            "Nothing to do: Spindle continues when the pods have terminated.",
            quiet=True,
        )
    )


def _release(builder: PlanBuilder, broker: SnapshotObject) -> None:
    """Delete a KafkaBroker; its claims carry everything that it records."""
    builder.delete("KafkaBroker", broker)
    drop_finalizer(builder, broker)


def _delete_data(state: ClusterState, builder: PlanBuilder) -> bool:
    """Delete the claims and the identity record, because ``deleteClaims`` is true. False if they are gone.

    Only claims that carry this cluster's id are deleted.
    """
    identity = state.known_identity
    ours = identity.cluster_id if identity is not None else state.status.get("clusterId")
    claims = [
        c for c in state.claims.values() if ours and objects.annotation(c, names.ANN_CLUSTER_ID) == ours
    ]
    for claim in claims:
        message = f"Deleting claim {objects.name(claim)}: spec.deleteClaims is true."
        builder.delete("PersistentVolumeClaim", claim, "ClaimDeleted", message)
    kept = (names.pools_map(state.name), names.identity_map(state.name))
    records = [record for name in kept if (record := state.config_maps.get(name)) is not None]
    if not claims:
        builder.do(*(Delete(kind="ConfigMap", name=objects.name(r), uid=objects.uid(r)) for r in records))
    return bool(claims or records)
