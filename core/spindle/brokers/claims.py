"""The claims: one per disk, created with the identity of the disk: "no second bootstrap" (`docs/safety.md`, rule 13)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.api.cluster import BrokerPool
from spindle.brokers.all_disks import NodeVolumes, class_problem, has_volume
from spindle.brokers.claim_annotations import noted
from spindle.brokers.records import find_location, new_disk, node_of_volume
from spindle.brokers.topology import topology_of
from spindle.brokers.volume_choice import carry_out, choose
from spindle.brokers.volume_room import DiskWant
from spindle.brokers.zone_spread import Placed, spread
from spindle.config.inputs import cluster_inputs
from spindle.manifests.claim_pods import claim_pod
from spindle.manifests.claims import ClaimedDisk, ClaimingCluster, claim
from spindle.model import disk_facts, objects
from spindle.model.actions import Create
from spindle.model.broker_disks import disks_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity
from spindle.model.layout import METADATA_DISK
from spindle.model.lost_brokers import node_is_lost
from spindle.model.nodes import section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_ACTION: Final = "CreateClaim"
_NEEDED: Final = frozenset({"nodes", "persistentvolumes", "storageclasses"})


@dataclass(frozen=True)
class _ClaimPass:
    """What the claims of new brokers with all disks of their nodes share in one pass."""

    state: ClusterState
    builder: PlanBuilder
    records: BrokerRecords
    identity: NodeIdentity
    free: NodeVolumes


def reconcile_claims(
    state: ClusterState, builder: PlanBuilder, records: BrokerRecords, identity: NodeIdentity
) -> None:
    """Create missing claims and report claims of another disk or cluster."""
    _controllers(state, builder, identity)
    shared = _ClaimPass(state, builder, records, identity, NodeVolumes.of(state))
    for broker in state.brokers.values():
        pool, gone = state.pool_of(broker), node_is_lost(state, int(broker["spec"]["id"]))
        for disk in disks_of(broker):
            if disk["claim"] in state.claims:
                retired = broker["spec"].get("retired") or ()
                _check(builder, identity, state.claims[disk["claim"]], disk["directoryId"], retired)
            elif (
                pool is not None
                and disk.get("mode") == disk_facts.ACTIVE
                and not gone
                and not broker["spec"].get("leaving")
            ):
                # A disk that was used before gets its claim at once: whether another volume may take its place is decided when the claim has one.
                if pool.disks.all and not disk.get("pvUid"):
                    _claim_on_node(shared, pool, broker, disk)
                else:
                    builder.do(Create(object=claim_of(state, identity, broker, pool, disk)))


def _claim_on_node(
    shared: _ClaimPass, pool: BrokerPool, broker: SnapshotObject, disk: Mapping[str, Any]
) -> None:
    """Take the next step towards a claim of a new broker with all disks of its node: a volume there is reserved first, and names the size.

    If something else has bound the volume meanwhile, the broker starts without that disk.
    """
    state, builder, records, free = shared.state, shared.builder, shared.records, shared.free
    if state.snap.unknown & _NEEDED:
        return  # already reported
    choice = choose(free, broker, disk)
    if choice.claim is not None:
        builder.do(Create(object=claim_of(state, shared.identity, broker, pool, disk, choice.claim)))
    if carry_out(choice, state, builder, records, broker, disk):
        return
    broker_id = int(broker["spec"]["id"])
    if broker_id not in state.pods and class_problem(state, pool) is None:
        having = any(has_volume(state, broker, each) for each in disks_of(broker))
        if having or free.of_brokers.get(broker_id):
            records.drop_disk(broker_id, disk["name"])
        else:
            _place_again(state, builder, records, broker_id)


def _place_again(state: ClusterState, builder: PlanBuilder, records: BrokerRecords, broker_id: int) -> None:
    """Place a broker that no pod had on another node: something else has bound all volumes that it was placed for."""
    broker = state.brokers[broker_id]
    location = find_location(state, broker_id)
    there = {each["name"] for each in disks_of(broker)}
    if not location.found:
        builder.wait(
            Waiting(
                _ACTION,
                f"KafkaBroker/{objects.name(broker)}",
                "InsufficientVolumesOnNode",
                f"{objects.name(broker)} has no disk: something else has bound the volumes on node {broker['spec'].get('node')} that it was placed for, "
                "and no other node has free volumes for it.",
                location.way_out,
            )
        )
        return
    for name in there - location.disks.keys():
        records.drop_disk(broker_id, name)
    for name in there & location.disks.keys():
        records.note_disk(broker_id, name, pv=None)
    for name in location.disks:
        if name not in there and not any(new["name"] == name for new in records.fresh.get(broker_id, ())):
            records.add_disk(broker_id, new_disk(state, broker_id, name))
    records.note(broker_id, node=location.node, rack=location.zone)


def claim_of(
    state: ClusterState,
    identity: NodeIdentity,
    broker: SnapshotObject,
    pool: BrokerPool,
    disk: Mapping[str, Any],
    volume: SnapshotObject | None = None,
) -> SnapshotObject:
    """The claim of a broker's disk; bound to `volume` if that is given. It requests the size of the spec, else that of the volume."""
    capacity = section(volume, "spec", "capacity").get("storage")
    result = claim(
        _claiming(state, identity),
        ClaimedDisk(
            node_id=int(broker["spec"]["id"]),
            name=disk["name"],
            directory_id=disk["directoryId"],
            size=pool.disks.size or str(capacity or pool.disks.least_size),
            storage_class=pool.disks.storage_class,
            pool=pool.name,
            rack=broker["spec"].get("rack"),
            volume=objects.name(volume) if volume is not None else None,
        ),
    )
    result["metadata"]["annotations"] |= noted(broker, disk)
    return result


def _claiming(state: ClusterState, identity: NodeIdentity) -> ClaimingCluster:
    return ClaimingCluster(state.name, state.namespace, identity.cluster_id, identity.voters)


def _controllers(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    spec = state.spec.controllers
    missing = [voter for voter in identity.members if state.claim(voter.id, METADATA_DISK) is None]
    for voter in identity.members:
        found = state.claim(voter.id, METADATA_DISK)
        if found is not None:
            _check(builder, identity, found, voter.directory_id, identity.clearances)
    if not missing or state.snap.unknown & {"nodes", "persistentvolumes", "storageclasses"}:
        return
    zones = _zones(state, builder, identity, missing)
    for voter in missing:
        if voter.id in zones:
            disk = ClaimedDisk(
                node_id=voter.id,
                name=METADATA_DISK,
                directory_id=voter.directory_id,
                size=spec.storage.size,
                storage_class=spec.storage.storage_class,
                rack=zones[voter.id],
            )
            builder.do(Create(object=claim(_claiming(state, identity), disk)))


def _zones(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, missing: list[ConfiguredVoter]
) -> dict[int, str | None]:
    """Choose a zone for each controller that has no claim yet."""
    storage = state.spec.controllers.storage
    existing = {
        voter.id: Placed(
            zone=objects.annotation(found, names.ANN_RACK),
            node=state.node_of(voter.id) or node_of_volume(state, state.volume(found)),
        )
        for voter in identity.members
        if (found := state.claim(voter.id, METADATA_DISK)) is not None
    }
    template = state.spec.controllers.pod_template
    where = topology_of(state, [DiskWant(storage.size, storage.storage_class)], "controller", template)
    result = spread(where, existing, [voter.id for voter in missing])
    for refusal in result.problems:
        builder.wait(Waiting.of("PlaceController", f"KafkaCluster/{state.name}", refusal))
    return dict(result.assignments)


def _check(
    builder: PlanBuilder,
    identity: NodeIdentity,
    found: SnapshotObject,
    directory_id: str,
    retired: Collection[str] = (),
) -> None:
    """Report a claim of the right name that belongs to another cluster or disk: "no disk mistaken for another" (`docs/safety.md`, rule 7).

    A claim with a retired directory id is fine: another step is about to write the new id to it.
    """
    noted = objects.annotations(found)
    carried = noted.get(names.ANN_DIRECTORY_ID)
    # A claim with the id of another cluster ends the pass in `spindle.brokers.cluster_identity`.
    told, annotations = [], {}
    if noted.get(names.ANN_CLUSTER_ID) != identity.cluster_id:
        told.append(f"no cluster id; the cluster id on record is {identity.cluster_id}")
        annotations[names.ANN_CLUSTER_ID] = identity.cluster_id
    if carried != directory_id and carried not in retired:
        told.append(
            f"{f'directory id {carried}' if carried else 'no directory id'}; the directory id on record for this disk is {directory_id}"
        )
        annotations[names.ANN_DIRECTORY_ID] = directory_id
    if told:
        name = objects.name(found)
        command = " ".join(f"{key}={value}" for key, value in annotations.items())
        builder.wait(
            Waiting(
                "UseClaim",
                f"PersistentVolumeClaim/{name}",
                "ClaimDirectoryIdMismatch",
                f"Claim {name} carries {', and '.join(told)}. Preflight uses only a disk with the ids on record.",
                f"Restore the annotations: `kubectl annotate pvc {name} --overwrite {command}`; or, if the claim belongs to another disk, set its "
                "volume to Retain and delete the claim.",
            )
        )


def request_volume(state: ClusterState, identity: NodeIdentity, claim_name: str, node: str) -> Create:
    """The pod that makes the provisioner create a claim's volume on a node, for a class with WaitForFirstConsumer."""
    return Create(object=claim_pod(cluster_inputs(state, identity), claim_name, node))
