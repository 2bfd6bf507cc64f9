"""Deletion of a KafkaCluster: first the brokers, so that they hand over leadership and close their logs, then controllers, then records.

Claims, and with them the data and its identity, are kept unless ``deleteClaims`` is true: "no data deleted unless requested"
(`docs/safety.md`, rule 11).
"""

from spindle.api import names
from spindle.brokers.claim_annotations import claim_annotations
from spindle.brokers.reservations import release_broker, unneeded
from spindle.config.broker_settings import put_back
from spindle.model import objects
from spindle.model.actions import Delete
from spindle.model.claim_volumes import VOLUMES_UNREADABLE, is_reserved, kept_volumes, refer
from spindle.model.finalizers import drop_finalizer
from spindle.model.nodes import section
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
        _release_brokers(state, builder)
        return False
    if reserved := unneeded(state):
        builder.do(*reserved)
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


def _release_brokers(state: ClusterState, builder: PlanBuilder) -> None:
    """Delete the KafkaBrokers once their claims carry everything that they record, and no volume is reserved for a claim that does not exist."""
    missing = [patch for broker in state.brokers.values() for patch in claim_annotations(state, broker)]
    if missing:
        builder.do(*missing)
        return
    for broker in state.brokers.values():
        if not release_broker(state, builder, broker):
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
        if (unseen := _reserved_unseen(state, claim)) is not None:
            builder.wait(unseen)
            continue
        # Before the claim, which is not bound yet: without a claim, nothing would tell whose reservation it is.
        reserved = [v for v in kept_volumes(state, objects.name(claim)) if is_reserved(v)]
        builder.do(*(refer(volume, None) for volume in reserved))
        message = f"Deleting claim {objects.name(claim)}: spec.deleteClaims is true."
        builder.delete("PersistentVolumeClaim", claim, "ClaimDeleted", message)
    kept = (names.pools_map(state.name), names.identity_map(state.name))
    records = [record for name in kept if (record := state.config_maps.get(name)) is not None]
    if not claims:
        builder.do(*(Delete(kind="ConfigMap", name=objects.name(r), uid=objects.uid(r)) for r in records))
    return bool(claims or records)


def _reserved_unseen(state: ClusterState, claim: SnapshotObject) -> Waiting | None:
    """Why a claim is not deleted yet: it is not bound, and the volume that it names may be reserved for it and is not listed."""
    name, volume = objects.name(claim), str(section(claim, "spec").get("volumeName") or "")
    bound = section(claim, "status").get("phase") != "Pending"
    if bound or not volume or volume in state.volumes or objects.deleting(claim):
        return None
    unreadable = "persistentvolumes" in state.snap.unknown
    return Waiting(
        "Delete",
        f"PersistentVolumeClaim/{name}",
        "VolumeUnavailable",
        f"Claim {name} is not bound to volume {volume} yet, and "
        + (
            "PersistentVolumes cannot be read. "
            if unreadable
            else f"{volume} is not in the list of PersistentVolumes. "
        )
        + "The volume may be reserved for the claim, and would stay so without it.",
        (
            VOLUMES_UNREADABLE
            if unreadable
            else f"Nothing to do if {volume} is listed again soon. If it was deleted, delete the claim: kubectl delete pvc {name}."
        ),
    )
