"""The cluster's identity, decided once and recorded before the first format: "no second bootstrap" (`docs/safety.md`, rule 13)."""

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Create
from spindle.model.cluster_identity import (
    ConfiguredVoter,
    IdentityError,
    NodeIdentity,
    identity_map,
    parse_voters,
)
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_ACTION = "Birth"


def reconcile_identity(state: ClusterState, builder: PlanBuilder) -> NodeIdentity | None:
    """The cluster's identity; None while it is being recorded or cannot be determined.

    Nothing else may be created without it.
    """
    if isinstance(state.identity, IdentityError):
        builder.wait(
            Waiting(
                _ACTION,
                f"ConfigMap/{names.identity_map(state.name)}",
                "IdentityUnreadable",
                f"ConfigMap {names.identity_map(state.name)}, which records the cluster's identity, cannot be read: {state.identity}",
                "Restore the ConfigMap from a backup, or delete it: Spindle recreates it from the claims, which carry the same ids.",
            )
        )
        return None
    if state.identity is not None:
        return _checked(state, state.identity, builder)
    found = _from_claims(state, builder)
    if found is _AMBIGUOUS:
        return None
    identity = found if isinstance(found, NodeIdentity) else _new_identity(state)
    how = "again, from the claims" if isinstance(found, NodeIdentity) else "before the first format"
    builder.do(
        Create(
            object=identity_map(state.name, state.namespace, identity),
            reason="IdentityRecorded",
            message=f"Recorded cluster id {identity.cluster_id} and {counted(len(identity.voters), 'voter')} {how}.",
        )
    )
    return None


class _AmbiguousIdentity:
    """The claims contradict each other or carry too little."""


_AMBIGUOUS = _AmbiguousIdentity()


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


def _from_claims(state: ClusterState, builder: PlanBuilder) -> NodeIdentity | _AmbiguousIdentity | None:
    """The identity that the claims of an earlier KafkaCluster of this name carry; None if there are no such claims."""
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
    ids = (
        f"cluster id{'' if len(cluster_ids) == 1 else 's'} {some(cluster_ids)}"
        if cluster_ids
        else "no cluster id"
    )
    builder.wait(
        Waiting(
            _ACTION,
            f"KafkaCluster/{state.name}",
            "ClusterIdConflict",
            f"Disks of an earlier cluster of this name exist, but their claims ({some(sorted(carrying)) or 'none left'}) do not agree "
            f"on one identity: they carry {ids} and {counted(len(voters), 'different list')} of voters. "
            "Spindle does not create a new cluster on these disks.",
            f"Restore ConfigMap {names.identity_map(state.name)}; or, to create a new cluster, delete these claims and the "
            "KafkaBrokers of this cluster.",
        )
    )
    return _AMBIGUOUS


def _quorum(claims: Iterable[SnapshotObject]) -> str | None:
    """The quorum annotation of a cluster that was taken over: its voters stay in the configuration until Kafka has recorded them."""
    return next((quorum for claim in claims if (quorum := objects.annotation(claim, names.ANN_QUORUM))), None)


def _rebuilt(state: ClusterState, cluster_id: str, voters: tuple[ConfiguredVoter, ...]) -> NodeIdentity:
    """The record rebuilt from the claims: the controllers at bootstrap, and the directory ids of the controllers now.

    A controller of the bootstrap without a claim may have left or lost its disk. It is recorded as cleared for a disk that does not exist:
    a blank disk formatted under its first directory id could bootstrap the cluster a second time.
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
    """The file system that was cleared for each controller's directory id, as the claims record it."""
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


def _checked(state: ClusterState, identity: NodeIdentity, builder: PlanBuilder) -> NodeIdentity | None:
    """The record, unless a claim carries another cluster id: "no disk mistaken for another" (`docs/safety.md`, rule 7)."""
    own = ("", identity.cluster_id)
    others = {
        name: carried
        for name, claim in state.claims.items()
        if (carried := objects.annotation(claim, names.ANN_CLUSTER_ID) or "") not in own
    }
    if not others:
        return identity
    name, carried = min(others.items())
    builder.wait(
        Waiting(
            _ACTION,
            f"PersistentVolumeClaim/{name}",
            "ClaimClusterIdMismatch",
            f"Claim {name} carries cluster id {carried}, but the cluster id on record is {identity.cluster_id}. Spindle does not use "
            "the claim.",
            f"If the claim belongs to another cluster, set its volume to Retain and delete the claim; else restore the ConfigMap "
            f"{names.identity_map(state.name)} with the cluster id of the claim.",
        )
    )
    return None
