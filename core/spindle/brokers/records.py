"""Decides which brokers exist: each gets a KafkaBroker with its rack and the identities of its disks before any other object."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from typing import Any

from spindle.api import names
from spindle.api.cluster import BrokerPool
from spindle.brokers.all_disks import NodeVolumes, class_problem, size_of
from spindle.brokers.claim_annotations import (
    claim_annotations,
    dynamic_config_of,
    has_left,
    is_out,
    list_on,
    retired_of,
)
from spindle.brokers.topology import topology_of
from spindle.brokers.volume_room import DiskWant
from spindle.brokers.zone_spread import Placed, Topology, spread
from spindle.manifests.brokers import OPERATOR_FIELDS, kafka_broker
from spindle.model import maintenance, objects
from spindle.model.actions import Apply, Create
from spindle.model.broker_disks import disks_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_volumes import hosts_of_volumes
from spindle.model.dir_list import DirList
from spindle.model.disk_facts import ABSENT, ACTIVE, PLACEHOLDER
from spindle.model.finalizers import drop_finalizer
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_ACTION = "PlaceBroker"
_MOST_DIGITS = 10  # of a node id


def write_records(records: BrokerRecords, state: ClusterState, builder: PlanBuilder) -> None:
    """Apply the collected changes that differ from the recorded KafkaBrokers."""
    for broker_id, broker in state.brokers.items():
        spec = broker["spec"]
        fresh = {key: spec[key] for key in OPERATOR_FIELDS if spec.get(key)} | records.fields.get(
            broker_id, {}
        )
        disks = records.changed_disks(broker_id, broker)
        # Joining and returning are set to False instead of left out: another field manager created them.
        fields = {
            key: value for key, value in fresh.items() if value or (value is False and key != "leaving")
        }
        wanted = kafka_broker(state.cluster, broker_id, spec["pool"], disks, **fields)
        changed = any((spec.get(key) or None) != (value or None) for key, value in fresh.items())
        if changed or disks != disks_of(broker) or not _has_finalizer(broker):
            builder.do(Apply(object=wanted, seen=broker))


def reconcile_brokers(state: ClusterState, builder: PlanBuilder, records: BrokerRecords) -> None:
    """Create missing KafkaBrokers; report what in the spec cannot be fulfilled."""
    if state.snap.unknown & {"nodes", "persistentvolumes", "storageclasses"}:
        builder.wait(
            Waiting(
                _ACTION,
                f"KafkaCluster/{state.name}",
                "NodesUnknown",
                f"Brokers cannot be placed: {some(sorted(state.snap.unknown))} cannot be read.",
                "Check that the API server answers and that the operator's ClusterRole allows it to list them.",
            )
        )
        return
    existing = {i: _placed(state, broker) for i, broker in state.brokers.items()}
    _record_locations(state, records)
    unrecorded = _unrecorded(state)
    lost = _pools_lost(state, builder, unrecorded)
    for pool in (*state.spec.broker_pools, *state.former.values()):
        mine = [
            i
            for i, broker in state.brokers.items()
            if broker["spec"].get("pool") == pool.name and not return_deadline_passed(state, broker)
        ]
        missing = max(0, pool.replicas - len(mine)) if pool.name in state.pools else 0
        returning = _returning(unrecorded, pool.name)
        # A broker with data is readopted even if the pool needs fewer brokers: it leaves by a scale-in, once it is empty.
        taken = [i for n, i in enumerate(returning) if n < missing or not _had_left(unrecorded[i])]
        for broker_id in taken:
            _adopt(state, builder, broker_id, pool, existing, unrecorded[broker_id])
        problem = class_problem(state, pool)
        if problem is not None:
            builder.wait(problem)
        elif not lost:
            used = {*existing, *state.brokers, *(state.kafka.brokers or {}), *unrecorded}
            ids = _free_ids(used, max(0, missing - len(taken)))
            existing |= _place_new(state, builder, pool, ids, existing)
    _report_orphans(state, builder)
    _check_deleted(state, builder)


def return_deadline_passed(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a broker that was stopped for good can no longer come back: its record or one of its claims is deleted or being deleted."""
    if not broker["spec"].get("leaving"):
        return False
    claims = [state.claims.get(disk["claim"]) for disk in disks_of(broker)]
    return objects.deleting(broker) or any(claim is None or objects.deleting(claim) for claim in claims)


def _check_deleted(state: ClusterState, builder: PlanBuilder) -> None:
    """Release a deleted KafkaBroker only if its claims carry everything it records; it is then recreated from them.

    A stopped broker is retained: the request to stop it is recorded nowhere else. So is a broker of a pool with more brokers than
    replicas: it would not be recreated, and its pod would keep running.
    """
    for broker in state.brokers.values():
        if not objects.deleting(broker) or broker["spec"].get("leaving"):
            continue
        complete = all(
            (claim := state.claims.get(disk["claim"])) is not None
            and objects.annotation(claim, names.ANN_DIRECTORY_ID) == disk["directoryId"]
            and objects.annotation(claim, names.ANN_FS_UUID) == disk.get("fsUuid")
            for disk in disks_of(broker)
        )
        complete = complete and not claim_annotations(state, broker)
        if complete and not maintenance.stopped(broker) and not _too_many(state, broker):
            drop_finalizer(builder, broker)
        else:
            builder.wait(
                Waiting(
                    "DeleteBroker",
                    f"KafkaBroker/{objects.name(broker)}",
                    "BrokerRecordRetained",
                    f"KafkaBroker {objects.name(broker)} was deleted by hand, but it records which disks belong to the broker. Its "
                    "finalizer keeps it, and the broker keeps running.",
                    "Start the broker (spec.maintenance.stopped: false) and wait until all its disks are in use; Spindle then recreates "
                    "the KafkaBroker from its claims. If the pool has more brokers than replicas, it stays until the scale-in is complete.",
                )
            )


def _too_many(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether the pool of a broker has more brokers than the spec asks for."""
    name = broker["spec"].get("pool")
    mine = [b for b in state.brokers.values() if b["spec"].get("pool") == name]
    return name not in state.pools or len(mine) > state.pools[name].replicas


def _placed(state: ClusterState, broker: SnapshotObject) -> Placed:
    node_id = int(broker["spec"]["id"])
    return Placed(
        zone=broker["spec"].get("rack"),
        node=state.node_of(node_id) or node_of_volumes(state, broker) or broker["spec"].get("node"),
    )


def node_of_volumes(state: ClusterState, broker: SnapshotObject) -> str | None:
    """The node that a broker's local volumes are pinned to."""
    nodes = (state.node_by_host.get(host) for host in hosts_of_volumes(state, broker))
    return next((node for node in nodes if node), None)


def node_of_volume(state: ClusterState, volume: SnapshotObject | None) -> str | None:
    """The node that a volume is pinned to; None if it is pinned to none or to several."""
    host = objects.pinned_to(volume) if volume is not None else None
    return state.node_by_host.get(host or "")


def _record_locations(state: ClusterState, records: BrokerRecords) -> None:
    """Record node and volumes once the claims are bound."""
    for broker_id, broker in state.brokers.items():
        node = state.node_of(broker_id) or node_of_volumes(state, broker)
        if node:
            records.note(broker_id, node=node)
        for disk in disks_of(broker):
            volume = None if disk.get("pvUid") else state.volume(state.claims.get(disk["claim"]))
            if volume is not None:
                records.note_disk(broker_id, disk["name"], pv=objects.name(volume), pvUid=objects.uid(volume))
        if maintenance.stopped(broker) and broker_id not in state.pods:
            _prepare_start(state, records, broker_id, broker)


def _prepare_start(
    state: ClusterState, records: BrokerRecords, broker_id: int, broker: SnapshotObject
) -> None:
    """Prepare the next start of a stopped broker: take over its node's zone and try every disk again."""
    zone = state.zone_of_node(broker["spec"].get("node"))
    if zone and broker["spec"].get("rack"):
        records.note(broker_id, rack=zone)
    for disk in disks_of(broker):
        if disk.get("mode") == "Placeholder":
            records.note_disk(broker_id, disk["name"], mode="Active")


def _place_new(
    state: ClusterState,
    builder: PlanBuilder,
    pool: BrokerPool,
    ids: list[int],
    existing: Mapping[int, Placed],
) -> dict[int, Placed]:
    """Choose zones for new brokers and record the brokers; returns broker id → placement."""
    where, volumes = _site(state, pool)
    found = spread(where, existing, ids)
    for refusal in found.problems:
        builder.wait(Waiting.of(_ACTION, f"KafkaCluster/{state.name}", refusal))
    placed = {}
    for broker_id, zone in found.assignments.items():
        node = found.nodes[broker_id] if pool.disks.all else None
        chosen = [None] * pool.disks.most if node is None else [objects.name(each) for each in volumes[node]]
        disks = [
            new_disk(state, broker_id, names.disk_name(index), volume) for index, volume in enumerate(chosen)
        ]
        where_text = (f"zone {zone}" if zone else "no zone") + (f" on node {node}" if node else "")
        builder.do(
            Create(
                object=kafka_broker(
                    state.cluster,
                    broker_id,
                    pool.name,
                    disks,
                    rack=zone,
                    node=node,
                    joining=state.born or None,
                ),
                reason="BrokerPlaced",
                message=f"Placed broker {broker_id} of pool {pool.name} in {where_text}, with {counted(len(disks), 'disk')}.",
            )
        )
        placed[broker_id] = Placed(zone, node)
    return placed


def _site(state: ClusterState, pool: BrokerPool) -> tuple[Topology, Mapping[str, list[SnapshotObject]]]:
    """Where brokers of a pool can run; and, with disks.all, node → the volumes that a broker gets there."""
    free = NodeVolumes.of(state)
    if pool.disks.all:
        volumes = free.unclaimed(pool)
        where = topology_of(state, (), "broker", pool.pod_template)
        return replace(where, room=dict.fromkeys(volumes, 1)), volumes
    wanted = [DiskWant(pool.disks.least_size, pool.disks.storage_class)] * pool.disks.most
    return topology_of(state, wanted, "broker", pool.pod_template, free.reserve, free.taken), {}


@dataclass(frozen=True)
class BrokerLocation:
    """Where a broker could be recreated.

    Attributes:
        found: whether there is a suitable node.
        zone: None if the cluster has no zones.
        node: with disks.all, the node whose volumes it gets; else None, as the scheduler chooses.
        disks: with disks.all, the disks that it would have, with their sizes in bytes.
        way_out: what would make a node suitable, as one or more sentences.
    """

    found: bool
    zone: str | None = None
    node: str | None = None
    disks: Mapping[str, int] = field(default_factory=dict)
    way_out: str = ""


def find_location(state: ClusterState, broker_id: int) -> BrokerLocation:
    """Choose a location for a broker that has lost its node, as for a new broker."""
    pool = state.pool_of(state.brokers[broker_id])
    if pool is None or state.snap.unknown & {"nodes", "persistentvolumes", "storageclasses"}:
        return BrokerLocation(
            found=False,
            way_out="Make sure that the operator can list nodes and volumes and that the spec contains the broker's pool.",
        )
    where, volumes = _site(state, pool)
    others = {i: _placed(state, broker) for i, broker in state.brokers.items() if i != broker_id}
    found = spread(where, others, [broker_id])
    if broker_id in found.assignments:
        zone = found.assignments[broker_id]
        if not pool.disks.all:
            return BrokerLocation(found=True, zone=zone)
        node = found.nodes[broker_id]
        sizes = {names.disk_name(index): size_of(volume) for index, volume in enumerate(volumes[node])}
        return BrokerLocation(found=True, zone=zone, node=node, disks=sizes)
    return BrokerLocation(
        found=False,
        way_out=" ".join(p.unblocked_by for p in found.problems if p.reason == "InsufficientNodes"),
    )


def _free_ids(taken: Collection[int], wanted: int) -> list[int]:
    """The lowest broker ids that no KafkaBroker, no claim and no registration in Kafka uses."""
    return list(islice((candidate for candidate in count() if candidate not in taken), wanted))


def _unrecorded(state: ClusterState) -> dict[int, list[SnapshotObject]]:
    """Broker id → the claims of a broker that has no KafkaBroker."""
    found: dict[int, list[SnapshotObject]] = {}
    for claim in state.claims.values():
        broker_id = _claimed_by(claim)
        if broker_id is not None and broker_id not in state.brokers:
            found.setdefault(broker_id, []).append(claim)
    return found


def _claimed_by(claim: SnapshotObject) -> int | None:
    text = objects.annotation(claim, names.ANN_NODE_ID) or objects.name(claim).rsplit("-", 1)[-1]
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def new_disk(state: ClusterState, broker_id: int, disk: str, volume: str | None = None) -> dict[str, Any]:
    """The entry of a disk that Kafka has never used; with the volume that is chosen for it, if there is one."""
    return {
        "name": disk,
        "claim": names.claim_name(state.name, broker_id, disk),
        "directoryId": uuid_from_entropy(state.snap.entropy, "broker", str(broker_id), disk),
        "mode": "Active",
        **({"pv": volume} if volume else {}),
    }


def _returning(unrecorded: Mapping[int, Sequence[SnapshotObject]], pool: str) -> list[int]:
    """Brokers of this pool whose claims exist and whose KafkaBroker does not; those that had left the cluster come last."""
    found = [
        broker_id
        for broker_id, claims in unrecorded.items()
        if any(
            objects.annotation(claim, names.ANN_POOL) == pool
            and objects.annotation(claim, names.ANN_DIRECTORY_ID)
            and objects.annotation(claim, names.ANN_DISK) != METADATA_DISK
            for claim in claims
        )
    ]
    return sorted(found, key=lambda i: (_had_left(unrecorded[i]), i))


def _had_left(claims: Sequence[SnapshotObject]) -> bool:
    """Whether all claims of a broker record that it had left its cluster, so that its disks hold no replicas."""
    return all(has_left(claim) for claim in claims)


def _has_data(claim: SnapshotObject) -> bool:
    """Whether a claim is that of a broker's disk that was formatted."""
    noted = objects.annotations(claim)
    return (
        bool(noted.get(names.ANN_DIRECTORY_ID))
        and bool(noted.get(names.ANN_FS_UUID))
        and noted.get(names.ANN_DISK) not in (None, METADATA_DISK)
    )


def _pools_lost(
    state: ClusterState, builder: PlanBuilder, unrecorded: Mapping[int, Sequence[SnapshotObject]]
) -> bool:
    """Whether there are disks with data of brokers of an unknown pool; no new broker is placed while there are."""
    known = state.pools.keys() | state.former.keys()
    found: dict[str, set[int]] = {}
    for broker_id, claims in unrecorded.items():
        pools = {objects.annotation(claim, names.ANN_POOL) or "" for claim in claims if _has_data(claim)}
        for pool in pools - known:
            if not _had_left(claims):
                found.setdefault(pool, set()).add(broker_id)
    for pool, ids in sorted(found.items()):
        brokers = some([str(i) for i in sorted(ids)])
        builder.wait(
            Waiting(
                _ACTION,
                f"KafkaCluster/{state.name}",
                "UnknownPoolClaims",
                f"Claims exist for disks with data of {_brokers(ids)} {brokers}, whose pool {pool or '(none)'} is not in the spec. "
                f"Until this is resolved, Spindle does not start {'it' if len(ids) == 1 else 'them'} and creates no new brokers.",
                f"Put pool {pool or 'of these brokers'} back into spec.brokerPools with {counted(len(ids), 'replica')}. You can remove it when the "
                "brokers run: Spindle then evacuates them first. Or, if the data on these disks is not needed, delete their claims.",
            )
        )
    return bool(found)


def _adopt(
    state: ClusterState,
    builder: PlanBuilder,
    broker_id: int,
    pool: BrokerPool,
    existing: dict[int, Placed],
    mine: Sequence[SnapshotObject],
) -> None:
    """Recreate a KafkaBroker from its claims.

    The claims may be from an old backup or incomplete, so the broker starts with a placeholder dir in addition to its disks:
    "no start with a log dir missing" (`docs/safety.md`, rule 15).
    """
    known = list_on(mine)
    disks = [disk for claim in mine if (disk := _adopted(state, claim, known)) is not None]
    there = {disk["name"] for disk in disks}
    disks += [missing_disk(state, broker_id, n, known.dirs[n]) for n in sorted(known.dirs.keys() - there)]
    rack = next((rack for claim in mine if (rack := objects.annotation(claim, names.ANN_RACK))), None)
    new = state.born and _had_left(mine)
    record = kafka_broker(
        state.cluster,
        broker_id,
        pool.name,
        disks,
        rack=rack,
        retired=list(retired_of(mine)) or None,
        joining=new or None,
        returning=True if _unseen(state, broker_id, disks) else None,
        logDirs=known.document() if known else None,
    )
    record["metadata"].setdefault("annotations", {}).update(dynamic_config_of(mine))
    existing[broker_id] = Placed(rack, node_of_volumes(state, record))
    builder.do(
        Create(
            object=record,
            reason="BrokerReadopted",
            message=f"Readopted broker {broker_id} from its {counted(len(there), 'claim')}.",
        )
    )


def _adopted(state: ClusterState, claim: SnapshotObject, known: DirList) -> dict[str, Any] | None:
    """The entry of a disk as its claim records it, unless a newer list of log dirs differs."""
    name, carried = (objects.annotation(claim, key) for key in (names.ANN_DISK, names.ANN_DIRECTORY_ID))
    if not name or not carried or name == METADATA_DISK:
        return None
    directory_id = known.dirs.get(name, carried)
    out = is_out(claim) and name not in known.dirs
    disk: dict[str, Any] = {
        "name": name,
        "claim": objects.name(claim),
        "directoryId": directory_id,
        "mode": ABSENT if out else "Active",
    }
    fs_uuid = objects.annotation(claim, names.ANN_FS_UUID)
    if directory_id == carried and fs_uuid:
        disk["fsUuid"] = fs_uuid
    if known and name not in known.dirs and not fs_uuid and not out:
        # The list has every disk that was formatted. This one was about to be added: it is added again when the broker runs without it.
        disk |= {"mode": ABSENT, "added": True}
    volume = state.volume(claim)
    if volume is not None:
        disk |= {"pv": objects.name(volume), "pvUid": objects.uid(volume)}
    return disk


def missing_disk(state: ClusterState, broker_id: int, name: str, directory_id: str) -> dict[str, Any]:
    """The entry of a disk whose claim is missing; a placeholder, as the broker must not start without the dir."""
    claim = names.claim_name(state.name, broker_id, name)
    return {"name": name, "claim": claim, "directoryId": directory_id, "mode": PLACEHOLDER}


def _unseen(state: ClusterState, broker_id: int, disks: list[dict[str, Any]]) -> bool:
    """Whether the broker has to be started to check its disks; not if its pod already runs with all of them."""
    pod = state.pods.get(broker_id)
    try:
        named = json.loads(objects.annotation(pod, names.ANN_DISKS) or "[]") if pod is not None else []
        used = {(disk["name"], disk["directoryId"]) for disk in named if disk["mode"] == ACTIVE}
    except (ValueError, KeyError, TypeError):
        return True
    return pod is None or not used <= {(d["name"], d["directoryId"]) for d in disks if d["mode"] == ACTIVE}


def _report_orphans(state: ClusterState, builder: PlanBuilder) -> None:
    """Report brokers of pools that are not in the spec and whose former definition is not on record."""
    gone = sorted(i for i, broker in state.brokers.items() if state.pool_of(broker) is None)
    if gone:
        pools = sorted({str(state.brokers[i]["spec"].get("pool")) for i in gone})
        builder.wait(
            Waiting(
                "RemovePool",
                f"KafkaCluster/{state.name}",
                "PoolNotFound",
                f"Pool {some(pools)} is not in the spec and its former definition is not on record, but {_brokers(gone)} "
                f"{some([str(i) for i in gone])} {'belongs' if len(gone) == 1 else 'belong'} to it. Spindle does not change or remove "
                f"{'it' if len(gone) == 1 else 'them'}.",
                f"Put pool {some(pools)} back into spec.brokerPools; you can remove it again after that.",
            )
        )


def _brokers(ids: Collection[int]) -> str:
    return "broker" if len(ids) == 1 else "brokers"


def _has_finalizer(broker: SnapshotObject) -> bool:
    return objects.deleting(broker) or names.FINALIZER in (broker["metadata"].get("finalizers") or ())
