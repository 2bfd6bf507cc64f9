"""One birth (rule 13): who the cluster is, decided once, written down before the first format."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from spindle.cluster import names
from spindle.cluster.ids import uuid_from_entropy
from spindle.cluster.layout import METADATA_DISK
from spindle.cluster.waiting import Waiting, some
from spindle.manifests.identity import (
    ConfiguredVoter,
    IdentityError,
    NodeIdentity,
    identity_map,
    parse_voters,
)
from spindle.reconcile import objects
from spindle.reconcile.actions import Create
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState

_ACTION = "Birth"


def reconcile_identity(state: ClusterState, builder: PlanBuilder) -> NodeIdentity | None:
    """The cluster's identity; None while it is being written down or cannot be told.

    Nothing else may be made without it.
    """
    if isinstance(state.identity, IdentityError):
        builder.wait(
            Waiting(
                _ACTION,
                f"ConfigMap/{names.identity_map(state.name)}",
                "IdentityUnreadable",
                f"The record of the cluster's identity cannot be read: {state.identity}",
                "Restore the ConfigMap, or delete it: it is made again from the claims, which carry the same ids.",
            )
        )
        return None
    if state.identity is not None:
        return _agreed(state, state.identity, builder)
    found = _from_claims(state, builder)
    if found is _UNTOLD:
        return None
    identity = found if isinstance(found, NodeIdentity) else _new_identity(state)
    born = (
        "again from what the claims carry"
        if isinstance(found, NodeIdentity)
        else "before anything is formatted"
    )
    builder.do(
        Create(
            object=identity_map(state.name, state.namespace, identity),
            reason="IdentityRecorded",
            message=f"Cluster id {identity.cluster_id} and {len(identity.voters)} voters were written down {born}.",
        )
    )
    return None


class _UnpublishedIdentity:
    """The claims contradict one another or say too little."""


_UNTOLD = _UnpublishedIdentity()


def _new_identity(state: ClusterState) -> NodeIdentity:
    ids = state.snap.entropy
    return NodeIdentity(
        cluster_id=uuid_from_entropy(ids, "cluster"),
        voters=tuple(
            ConfiguredVoter(id=node_id, directory_id=uuid_from_entropy(ids, "controller", str(node_id)))
            for node_id in (names.controller_id(i) for i in range(state.spec.controllers.replicas))
        ),
        clearances={},
    )


def _from_claims(state: ClusterState, builder: PlanBuilder) -> NodeIdentity | _UnpublishedIdentity | None:
    """The identity that claims of an earlier KafkaCluster of this name carry; None if there are no such claims."""
    carrying = {
        name: claim for name, claim in state.claims.items() if objects.annotation(claim, names.ANN_CLUSTER_ID)
    }
    if not carrying and not state.brokers:
        return None
    cluster_ids = sorted(
        {str(objects.annotation(claim, names.ANN_CLUSTER_ID)) for claim in carrying.values()}
    )
    voters = sorted(
        {text for claim in carrying.values() if (text := objects.annotation(claim, names.ANN_VOTERS))}
    )
    if len(cluster_ids) == 1 and len(voters) == 1:
        with contextlib.suppress(ValueError):
            rebuilt = _rebuilt(state, cluster_ids[0], parse_voters(voters[0]))
            return replace(rebuilt, quorum=_quorum(carrying.values()))
    said = f"cluster ids {some(cluster_ids)}" if cluster_ids else "no cluster id"
    builder.wait(
        Waiting(
            _ACTION,
            f"KafkaCluster/{state.name}",
            "ClusterIdConflict",
            f"There are disks of an earlier cluster of this name, but their claims ({some(sorted(carrying)) or 'none left'}) "
            f"do not tell one identity: they carry {said} and {len(voters)} different lists of voters. "
            "A new cluster is not born over them.",
            f"Restore ConfigMap {names.identity_map(state.name)}, or, to begin anew, delete these claims and the "
            "KafkaBrokers of this cluster.",
        )
    )
    return _UNTOLD


def _quorum(claims: Iterable[SnapshotObject]) -> str | None:
    """Whether the cluster was taken over, and its voters have to stand in the configuration until Kafka has them on record."""
    return next((told for claim in claims if (told := objects.annotation(claim, names.ANN_QUORUM))), None)


def _rebuilt(state: ClusterState, cluster_id: str, voters: tuple[ConfiguredVoter, ...]) -> NodeIdentity:
    """The record from the claims: who was a controller at birth, and under which directory ids there are controllers now.

    A controller of the birth without a claim may have left, or have lost its disk. It counts as cleared for a disk that nobody has, since
    a blank one under its first directory id could found the cluster a second time.
    """
    now = {
        int(node_id): ConfiguredVoter(int(node_id), directory_id)
        for claim in state.claims.values()
        if objects.annotation(claim, names.ANN_DISK) == METADATA_DISK
        and (node_id := objects.annotation(claim, names.ANN_NODE_ID)) is not None
        and (directory_id := objects.annotation(claim, names.ANN_DIRECTORY_ID)) is not None
    }
    cleared = _cleared(state)
    if cleared:
        carried = {voter.directory_id for voter in now.values()}
        gone = [voter for voter in voters if voter.directory_id not in carried]
        cleared |= {voter.directory_id: {"claim": "", "pvUid": "", "fsUuid": ""} for voter in gone}
    members = {voter.id: voter for voter in voters} | now
    controllers = tuple(members[i] for i in sorted(members))
    return NodeIdentity(cluster_id, voters, cleared, () if controllers == voters else controllers)


def _cleared(state: ClusterState) -> dict[str, Mapping[str, str]]:
    """Which file system each controller's directory id was given to, as the claims remember it."""
    cleared: dict[str, Mapping[str, str]] = {}
    for claim in state.claims.values():
        directory_id = objects.annotation(claim, names.ANN_DIRECTORY_ID)
        fs_uuid = objects.annotation(claim, names.ANN_FS_UUID)
        volume = state.volume(claim)
        if directory_id and fs_uuid and objects.annotation(claim, names.ANN_DISK) == METADATA_DISK:
            cleared[directory_id] = {
                "claim": objects.name(claim),
                "pvUid": objects.uid(volume) if volume else "",
                "fsUuid": fs_uuid,
            }
    return cleared


def _agreed(state: ClusterState, identity: NodeIdentity, builder: PlanBuilder) -> NodeIdentity | None:
    """The record, unless claims or Kafka itself know the cluster by another id (rule 7)."""
    for name, claim in sorted(state.claims.items()):
        carried = objects.annotation(claim, names.ANN_CLUSTER_ID)
        if carried and carried != identity.cluster_id:
            builder.wait(
                Waiting(
                    _ACTION,
                    f"PersistentVolumeClaim/{name}",
                    "ClaimClusterIdMismatch",
                    f"The claim carries cluster id {carried}, the record says {identity.cluster_id}. It is not used.",
                    f"Move the claim out of the way, or restore the ConfigMap {names.identity_map(state.name)} that "
                    "belongs to it.",
                )
            )
            return None
    return identity
