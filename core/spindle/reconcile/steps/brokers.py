"""Which brokers there are: a KafkaBroker each, with its rack and its disks' identities, before anything else of it is made."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.api.cluster import BrokerPool
from spindle.cluster import names
from spindle.cluster.ids import uuid_from_entropy
from spindle.cluster.layout import METADATA_DISK
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks.dir_list import DirList
from spindle.disks.facts import ABSENT, ACTIVE, PLACEHOLDER
from spindle.healing import maintenance
from spindle.manifests.brokers import kafka_broker
from spindle.placement.room import DiskWant
from spindle.placement.spread import Placed, spread
from spindle.reconcile import objects
from spindle.reconcile.actions import Apply, Create
from spindle.reconcile.claim_annotations import (
    claim_annotations,
    dynamic_config_of,
    has_left,
    is_out,
    list_on,
    retired_of,
)
from spindle.reconcile.inputs import disks_of
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.deletion import drop_finalizer
from spindle.reconcile.topology import topology_of

_ACTION = "PlaceBroker"
_MOST_DIGITS = 10  # of a node id
# Fields of spec that are the operator's beside identity and disks → arguments of `kafka_broker`.
_OWNED = {
    "node": "node",
    "rack": "rack",
    "moves": "moves",
    "throttleBytesPerSecond": "throttle",
    "throttleBytesPerSecondMin": "throttle_min",
    "retired": "retired",
    "thresholds": "thresholds",
    "ballastBytes": "ballast",
    "samplesEverySeconds": "samples_every",
    "scrub": "scrub",
    "leaving": "leaving",
    "joining": "joining",
    "returning": "returning",
    "logDirs": "log_dirs",
}


@dataclass
class BrokerRecords:
    """Changes to KafkaBrokers, collected over the steps and applied at the end: one write for each broker at most.

    Attributes:
        fields: broker id → operator-owned fields of its spec, by their names there; an empty one is left out of what is applied, so it
            goes, but for what the record was created with (another owner to the API server): that is taken back by False.
        disks: (broker id, disk) → fields of that disk.
        fresh: broker id → entries of disks that it gets.
        dropped: (broker id, disk) of those that it no longer has.
    """

    fields: dict[int, dict[str, Any]] = field(default_factory=dict)
    disks: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    fresh: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    dropped: set[tuple[int, str]] = field(default_factory=set)

    def note(self, broker_id: int, **fields: Any) -> None:
        """Set fields of a broker's spec."""
        self.fields.setdefault(broker_id, {}).update(fields)

    def note_disk(self, broker_id: int, disk: str, **fields: Any) -> None:
        """Set fields of one disk."""
        self.disks.setdefault((broker_id, disk), {}).update(fields)

    def add_disk(self, broker_id: int, entry: dict[str, Any]) -> None:
        """Give a broker one more disk."""
        self.fresh.setdefault(broker_id, []).append(entry)

    def drop_disk(self, broker_id: int, disk: str) -> None:
        """Take a disk off a broker's record."""
        self.dropped.add((broker_id, disk))

    def _disks(self, broker_id: int, broker: SnapshotObject) -> list[dict[str, Any]]:
        kept = [disk for disk in disks_of(broker) if (broker_id, disk["name"]) not in self.dropped]
        return [
            *(disk | self.disks.get((broker_id, disk["name"]), {}) for disk in kept),
            *self.fresh.get(broker_id, ()),
        ]

    def write(self, state: ClusterState, builder: PlanBuilder) -> None:
        """Apply what differs from what is recorded."""
        for broker_id, broker in state.brokers.items():
            spec = broker["spec"]
            fresh = {key: spec[key] for key in _OWNED if spec.get(key)} | self.fields.get(broker_id, {})
            disks = self._disks(broker_id, broker)
            arguments: dict[str, Any] = {
                _OWNED[key]: value for key, value in fresh.items() if value or value is False
            }
            wanted = kafka_broker(state.cluster, broker_id, spec["pool"], disks, **arguments)
            changed = any((spec.get(key) or None) != (value or None) for key, value in fresh.items())
            if changed or disks != disks_of(broker) or not _has_finalizer(broker):
                builder.do(Apply(object=wanted, seen=broker))


def reconcile_brokers(state: ClusterState, builder: PlanBuilder, records: BrokerRecords) -> None:
    """Make the KafkaBrokers that are missing; say what of the spec can't be had."""
    if state.snap.unknown & {"nodes", "persistentvolumes", "storageclasses"}:
        builder.wait(
            Waiting(
                _ACTION,
                f"KafkaCluster/{state.name}",
                "NodesUnknown",
                f"{some(sorted(state.snap.unknown))} could not be read; no broker is placed meanwhile.",
                "The API server answers, and the operator's role allows to list them.",
            )
        )
        return
    existing = {i: _placed(state, broker) for i, broker in state.brokers.items()}
    _where_they_are(state, records)
    lost = _pools_lost(state, builder)
    for pool in (*state.spec.broker_pools, *state.former.values()):
        mine = [
            i
            for i, broker in state.brokers.items()
            if broker["spec"].get("pool") == pool.name and not return_deadline_passed(state, broker)
        ]
        missing = max(0, pool.replicas - len(mine)) if pool.name in state.pools else 0
        returning = _returning(state, pool.name)
        # Who has data is taken up even if the pool is to have fewer brokers: it leaves as any other, when it is empty.
        taken = [i for n, i in enumerate(returning) if n < missing or not _had_left(state, i)]
        for broker_id in taken:
            _adopt(state, builder, broker_id, pool, existing)
        if not lost:
            existing |= _place_new(state, builder, pool, max(0, missing - len(taken)), existing)
    _orphans(state, builder)
    _deleted_by_hand(state, builder)


def return_deadline_passed(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a broker that was stopped for good cannot come back any more: its record or one of its claims is gone, or going."""
    if not broker["spec"].get("leaving"):
        return False
    claims = [state.claims.get(disk["claim"]) for disk in disks_of(broker)]
    return objects.deleting(broker) or any(claim is None or objects.deleting(claim) for claim in claims)


def _deleted_by_hand(state: ClusterState, builder: PlanBuilder) -> None:
    """Let a deleted KafkaBroker go only if its claims know all that it knew; it is made again from them.

    One that is stopped is kept: that a person wants it down is written nowhere else. So is one of a pool that has too many: nobody
    would make it again, and its pod would run on.
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
                    f"{objects.name(broker)} was deleted by hand, but it is the record of whose its disks are; it stays, and "
                    "its broker runs on.",
                    "Start the broker (spec.stopped: false) and wait until all its disks are in use; the record is then made "
                    "anew from its claims. If its pool has more brokers than replicas says, it stays until one has left.",
                )
            )


def _too_many(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether the pool of a broker has more of them than the spec asks for."""
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
    """The one node that a broker's local volumes are pinned to."""
    for disk in disks_of(broker):
        node = node_of_volume(state, state.volume(state.claims.get(disk["claim"])))
        if node:
            return node
    return None


def node_of_volume(state: ClusterState, volume: SnapshotObject | None) -> str | None:
    """The node that a volume is pinned to; None if it is bound to none, or to several."""
    host = objects.pinned_to(volume) if volume is not None else None
    hosts = {
        objects.labels(node).get("kubernetes.io/hostname", name): name for name, node in state.nodes.items()
    }
    return hosts.get(host or "")


def _where_they_are(state: ClusterState, records: BrokerRecords) -> None:
    """Write down node and volumes once they are bound."""
    for broker_id, broker in state.brokers.items():
        node = state.node_of(broker_id) or node_of_volumes(state, broker)
        if node:
            records.note(broker_id, node=node)
        for disk in disks_of(broker):
            volume = state.volume(state.claims.get(disk["claim"]))
            if volume is not None and not disk.get("pvUid"):
                records.note_disk(broker_id, disk["name"], pv=objects.name(volume), pvUid=objects.uid(volume))
        if maintenance.stopped(broker) and broker_id not in state.pods:
            _fresh_start(state, records, broker_id, broker)


def _fresh_start(state: ClusterState, records: BrokerRecords, broker_id: int, broker: SnapshotObject) -> None:
    """A stopped broker starts with what is true then: its node's zone, and every disk tried again."""
    zone = state.zone_of_node(broker["spec"].get("node"))
    if zone and broker["spec"].get("rack"):
        records.note(broker_id, rack=zone)
    for disk in disks_of(broker):
        if disk.get("mode") == "Placeholder":
            records.note_disk(broker_id, disk["name"], mode="Active")


def _place_new(
    state: ClusterState, builder: PlanBuilder, pool: BrokerPool, count: int, existing: Mapping[int, Placed]
) -> dict[int, Placed]:
    """Choose zones for new brokers and record them; returns where they are to be."""
    wanted = [DiskWant(pool.disks.size, pool.disks.storage_class)] * pool.disks.count
    where = topology_of(state, wanted, "broker", _promised(state))
    found = spread(where, existing, _free_ids(state, existing, count))
    for refusal in found.problems:
        builder.wait(Waiting.of(_ACTION, f"KafkaCluster/{state.name}", refusal))
    for broker_id, zone in found.assignments.items():
        disks = [new_disk(state, broker_id, names.disk_name(index)) for index in range(pool.disks.count)]
        zone_text = f"zone {zone}" if zone else "no zone"
        builder.do(
            Create(
                object=kafka_broker(
                    state.cluster, broker_id, pool.name, disks, rack=zone, joining=state.born or None
                ),
                reason="BrokerPlaced",
                message=f"Broker {broker_id} of pool {pool.name} goes to {zone_text}, with {counted(len(disks), 'disk')}.",
            )
        )
    return {broker_id: Placed(zone) for broker_id, zone in found.assignments.items()}


@dataclass(frozen=True)
class BrokerLocation:
    """Where a broker could start anew.

    Attributes:
        found: whether there is a place.
        zone: None where there are no zones.
        way_out: how there could be one.
    """

    found: bool
    zone: str | None = None
    way_out: str = ""


def find_location(state: ClusterState, broker_id: int) -> BrokerLocation:
    """A place for a broker that has none any more, chosen as for a new one."""
    pool = state.pool_of(state.brokers[broker_id])
    if pool is None or state.snap.unknown & {"nodes", "persistentvolumes", "storageclasses"}:
        return BrokerLocation(
            found=False, way_out="It is known which nodes and volumes there are, and the spec has its pool."
        )
    wanted = [DiskWant(pool.disks.size, pool.disks.storage_class)] * pool.disks.count
    others = {i: _placed(state, broker) for i, broker in state.brokers.items() if i != broker_id}
    found = spread(topology_of(state, wanted, "broker", _promised(state)), others, [broker_id])
    if broker_id in found.assignments:
        return BrokerLocation(found=True, zone=found.assignments[broker_id])
    return BrokerLocation(
        found=False,
        way_out=" ".join(p.unblocked_by for p in found.problems if p.reason == "InsufficientNodes"),
    )


def _promised(state: ClusterState) -> list[DiskWant]:
    """What a controller may still take of a node's volumes: the choice of a zone is for good, so room is left for it."""
    storage = state.spec.controllers.storage
    waiting = [
        node_id
        for node_id in state.controller_ids
        if (claim := state.claim(node_id, METADATA_DISK)) is None or not objects.bound_volume(claim)
    ]
    return [DiskWant(storage.size, storage.storage_class)] if waiting else []


def _free_ids(state: ClusterState, existing: Mapping[int, Placed], count: int) -> list[int]:
    """The lowest ids that nothing knows: no KafkaBroker, no claim, no registration in Kafka."""
    taken = {*existing, *state.brokers, *(state.kafka.brokers or {})}
    taken |= {i for claim in state.claims.values() if (i := _claimed_by(claim)) is not None}
    ids: list[int] = []
    candidate = 0
    while len(ids) < count:
        if candidate not in taken:
            ids.append(candidate)
        candidate += 1
    return ids


def _claimed_by(claim: SnapshotObject) -> int | None:
    text = objects.annotation(claim, names.ANN_NODE_ID) or objects.name(claim).rsplit("-", 1)[-1]
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


def new_disk(state: ClusterState, broker_id: int, disk: str) -> dict[str, Any]:
    """The entry of a disk that Kafka has never had."""
    return {
        "name": disk,
        "claim": names.claim_name(state.name, broker_id, disk),
        "directoryId": uuid_from_entropy(state.snap.entropy, "broker", str(broker_id), disk),
        "mode": "Active",
    }


def _returning(state: ClusterState, pool: str) -> list[int]:
    """Brokers of this pool whose claims are there, of a KafkaCluster that was deleted; last those that had left it before that."""
    found = {
        broker_id
        for claim in state.claims.values()
        if objects.annotation(claim, names.ANN_POOL) == pool
        and objects.annotation(claim, names.ANN_DIRECTORY_ID)
        and objects.annotation(claim, names.ANN_DISK) != METADATA_DISK
        and (broker_id := _claimed_by(claim)) is not None
    }
    return sorted(found - set(state.brokers), key=lambda i: (_had_left(state, i), i))


def _had_left(state: ClusterState, broker_id: int) -> bool:
    """Whether all claims of a broker say that it had left its cluster, so that nothing is on its disks."""
    return all(has_left(claim) for claim in state.claims.values() if _claimed_by(claim) == broker_id)


def _pools_lost(state: ClusterState, builder: PlanBuilder) -> bool:
    """Whether there are disks with data of brokers whose pool nobody knows; no new broker is placed beside them."""
    known = state.pools.keys() | state.former.keys()
    found: dict[str, set[int]] = {}
    for claim in state.claims.values():
        broker_id, pool = _claimed_by(claim), objects.annotation(claim, names.ANN_POOL) or ""
        data = objects.annotation(claim, names.ANN_DIRECTORY_ID) and objects.annotation(
            claim, names.ANN_FS_UUID
        )
        disk = objects.annotation(claim, names.ANN_DISK)
        if broker_id is None or broker_id in state.brokers or not data or disk in (None, METADATA_DISK):
            continue
        if pool not in known and not _had_left(state, broker_id):
            found.setdefault(pool, set()).add(broker_id)
    for pool, ids in sorted(found.items()):
        brokers = some([str(i) for i in sorted(ids)])
        builder.wait(
            Waiting(
                _ACTION,
                f"KafkaCluster/{state.name}",
                "UnknownPoolClaims",
                f"There are disks with data of brokers {brokers}, and their pool {pool or '(none)'} is not in the spec. They are not "
                "started, and no new broker is made meanwhile.",
                f"Put pool {pool or 'of these brokers'} back into spec.brokerPools with {len(ids)} replicas: it may be removed when they "
                "run, and they are emptied then. Or, if nobody needs what is on these disks, delete their claims.",
            )
        )
    return bool(found)


def _adopt(
    state: ClusterState, builder: PlanBuilder, broker_id: int, pool: BrokerPool, existing: dict[int, Placed]
) -> None:
    """Make the KafkaBroker again that the claims tell of.

    The claims may be those of an old backup, or not all of them, so it starts with a placeholder dir besides its disks (rule 15).
    """
    mine = [claim for claim in state.claims.values() if _claimed_by(claim) == broker_id]
    known = list_on(mine)
    disks = [disk for claim in mine if (disk := _adopted(state, claim, known)) is not None]
    there = {disk["name"] for disk in disks}
    disks += [missing_disk(state, broker_id, n, known.dirs[n]) for n in sorted(known.dirs.keys() - there)]
    rack = next((rack for claim in mine if (rack := objects.annotation(claim, names.ANN_RACK))), None)
    new = state.born and _had_left(state, broker_id)
    record = kafka_broker(
        state.cluster,
        broker_id,
        pool.name,
        disks,
        rack=rack,
        retired=retired_of(mine),
        joining=new or None,
        returning=True if _unseen(state, broker_id, disks) else None,
        log_dirs=known.document() if known else None,
    )
    record["metadata"].setdefault("annotations", {}).update(dynamic_config_of(mine))
    existing[broker_id] = Placed(rack, node_of_volumes(state, record))
    builder.do(
        Create(
            object=record,
            reason="BrokerReadopted",
            message=f"Broker {broker_id} was found again by its {counted(len(there), 'claim')}.",
        )
    )


def _adopted(state: ClusterState, claim: SnapshotObject, known: DirList) -> dict[str, Any] | None:
    """The entry of a disk as its claim tells it, unless a newer list says otherwise."""
    name, carried = (objects.annotation(claim, key) for key in (names.ANN_DISK, names.ANN_DIRECTORY_ID))
    if not name or not carried or name == METADATA_DISK:
        return None
    directory_id = known.dirs.get(name, carried)
    out = is_out(claim) and name not in known.dirs
    disk = {
        "name": name,
        "claim": objects.name(claim),
        "directoryId": directory_id,
        "mode": ABSENT if out else "Active",
    }
    if directory_id == carried and (fs_uuid := objects.annotation(claim, names.ANN_FS_UUID)):
        disk["fsUuid"] = fs_uuid
    volume = state.volume(claim)
    if volume is not None:
        disk |= {"pv": objects.name(volume), "pvUid": objects.uid(volume)}
    return disk


def missing_disk(state: ClusterState, broker_id: int, name: str, directory_id: str) -> dict[str, Any]:
    """The entry of a disk whose claim is not there: its broker must not start without it."""
    claim = names.claim_name(state.name, broker_id, name)
    return {"name": name, "claim": claim, "directoryId": directory_id, "mode": PLACEHOLDER}


def _unseen(state: ClusterState, broker_id: int, disks: list[dict[str, Any]]) -> bool:
    """Whether a broker has to be started; a pod that runs with all these disks is what the record was made of."""
    pod = state.pods.get(broker_id)
    try:
        named = json.loads(objects.annotation(pod, names.ANN_DISKS) or "[]") if pod is not None else []
        used = {(disk["name"], disk["directoryId"]) for disk in named if disk["mode"] == ACTIVE}
    except (ValueError, KeyError, TypeError):
        return True
    return pod is None or not used <= {(d["name"], d["directoryId"]) for d in disks if d["mode"] == ACTIVE}


def _orphans(state: ClusterState, builder: PlanBuilder) -> None:
    """Brokers of pools that the spec no longer has, and that nobody knows any more."""
    gone = sorted(i for i, broker in state.brokers.items() if state.pool_of(broker) is None)
    if gone:
        pools = sorted({str(state.brokers[i]["spec"].get("pool")) for i in gone})
        builder.wait(
            Waiting(
                "RemovePool",
                f"KafkaCluster/{state.name}",
                "PoolNotFound",
                f"Pool {some(pools)} is not in the spec, and what it was is not on record, but brokers {some([str(i) for i in gone])} "
                "belong to it. They are left as they are.",
                f"Put pool {some(pools)} back into spec.brokerPools; it may be removed after that.",
            )
        )


def _has_finalizer(broker: SnapshotObject) -> bool:
    return objects.deleting(broker) or names.FINALIZER in (broker["metadata"].get("finalizers") or ())
