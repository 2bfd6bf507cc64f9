"""The end of a KafkaCluster: brokers first, so that they hand over and close their logs, then controllers, then the records.

Claims, and with them the data and who it belongs to, stay unless ``deleteClaims`` is true (rule 11).
"""

from typing import Any

from spindle.cluster import names
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, Patch
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.keepsakes import keepsakes
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.steps.agent_access import withdraw_agents
from spindle.reconcile.steps.journal import settle_cleanup
from spindle.reconcile.steps.rebalance_job import withdraw_job
from spindle.reconcile.steps.tuning import put_back
from spindle.reconcile.steps.users import release_users


def settle_deletion(state: State, draft: Draft) -> bool:
    """Take the cluster down. True when nothing is left to do."""
    # No short cut: whatever is found to be left is taken away in this very pass.
    if not all((withdraw_job(state, draft), _withdraw_proposals(state, draft))):
        return False
    if not settle_cleanup(state, draft):
        return False
    if not put_back(state, draft):
        return False
    brokers = [pod for node_id, pod in state.pods.items() if node_id < names.FIRST_CONTROLLER_ID]
    # Pods that ask for a volume hold its claim.
    asking = [pod for pod in state.snap.pods if objects.name(pod) in state.claims]
    pods = brokers or [*state.pods.values(), *asking]
    if pods:
        _stop(draft, pods)
        return False
    if state.brokers:
        untold = [patch for broker in state.brokers.values() for patch in keepsakes(state, broker)]
        if untold:
            draft.do(*untold)
            return False
        for broker in state.brokers.values():
            _release(draft, broker)
        return False
    if not withdraw_agents(state, draft) or not release_users(state, draft):
        return False
    if state.spec.delete_claims:
        return not _delete_data(state, draft)
    return True


def _withdraw_proposals(state: State, draft: Draft) -> bool:
    """Before a KafkaCluster goes: its proposals, which are of no use to one of the same name. True when there are none."""
    ours = [raw for raw in state.snap.rebalances if objects.owned_by(raw, state.cluster)]
    left = [raw for raw in ours if not objects.deleting(raw)]
    for raw in left:
        draft.do(Delete(kind="KafkaRebalance", name=objects.name(raw), uid=objects.uid(raw)))
    return not left


def _stop(draft: Draft, pods: list[Object]) -> None:
    for pod in pods:
        if not objects.deleting(pod):
            draft.do(
                Delete(
                    kind="Pod",
                    name=objects.name(pod),
                    uid=objects.uid(pod),
                    reason="ClusterDeleted",
                    message=f"{objects.name(pod)} is stopped because its KafkaCluster is deleted.",
                )
            )
    draft.wait(
        Wait(
            "Delete",
            f"Pod/{objects.name(pods[0])}",
            "PodsStopping",
            f"{len(pods)} pods are stopping; brokers close their logs first.",
            "The pods end.",
            quiet=True,
        )
    )


def _release(draft: Draft, broker: Object) -> None:
    """Let a KafkaBroker go; the claims carry all that it knew."""
    if not objects.deleting(broker):
        draft.do(Delete(kind="KafkaBroker", name=objects.name(broker), uid=objects.uid(broker)))
    drop_finalizer(draft, broker)


def drop_finalizer(draft: Draft, broker: Object) -> None:
    """Take our finalizer off a KafkaBroker."""
    finalizers: list[Any] = list(broker["metadata"].get("finalizers") or ())
    if names.FINALIZER in finalizers:
        draft.do(
            Patch(
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
                resource_version=None,
                body={
                    "metadata": {"finalizers": [entry for entry in finalizers if entry != names.FINALIZER]}
                },
            )
        )


def _delete_data(state: State, draft: Draft) -> bool:
    """Delete the claims and the birth record, because the owner asked for it. False if they are gone.

    Only claims that carry this cluster's id are ours to delete.
    """
    identity = state.known_identity
    ours = identity.cluster_id if identity is not None else state.status.get("clusterId")
    claims = [
        c for c in state.claims.values() if ours and objects.annotation(c, names.ANN_CLUSTER_ID) == ours
    ]
    for claim in claims:
        if not objects.deleting(claim):
            draft.do(
                Delete(
                    kind="PersistentVolumeClaim",
                    name=objects.name(claim),
                    uid=objects.uid(claim),
                    reason="ClaimDeleted",
                    message=f"{objects.name(claim)} is deleted: spec.deleteClaims is true.",
                )
            )
    kept = (names.pools_map(state.name), names.identity_map(state.name))
    records = [record for name in kept if (record := state.config_maps.get(name)) is not None]
    if not claims:
        draft.do(*(Delete(kind="ConfigMap", name=objects.name(r), uid=objects.uid(r)) for r in records))
    return bool(claims or records)
