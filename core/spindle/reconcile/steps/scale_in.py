"""Brokers that their pool is to have no more: who they are, whether they may leave, and how they are stopped, unregistered and forgotten.

All disks of a broker that leaves are emptied as drained ones are. What remains is done here, one step in each pass, each found again
from what Kubernetes and Kafka show: ``spec.leaving`` on record, the pod taken down, Kafka told to forget the broker, its claims kept or
released, its Secret and configuration deleted, and last its KafkaBroker. Until a claim or the KafkaBroker goes it can be taken back.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks.lifecycle import DiskState
from spindle.healing.maintenance import removed_first
from spindle.healing.replica_index import names_of
from spindle.manifests.identity import NodeIdentity
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, Patch, UnregisterBroker
from spindle.reconcile.claim_annotations import claim_annotations
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.inputs import disks_of
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.brokers import BrokerRecords, return_deadline_passed
from spindle.reconcile.steps.deletion import drop_finalizer
from spindle.reconcile.steps.dynamic_config import put_back_on
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.steps.pods import SCALED_IN
from spindle.reconcile.steps.remove_disks import BEGUN, find_stuck, release, room_of
from spindle.scaling.choose import ScaleInCandidate, choose_brokers
from spindle.scaling.rules import may_begin, may_go

_ACTION: Final = "ScaleIn"
_GB: Final = 1e9


def find_scaling_in(inventory: DiskInventory, builder: PlanBuilder, *, acting: bool) -> frozenset[int]:
    """The brokers that are on their way out; says of those that may not begin why not."""
    state = inventory.state
    out = {i for i, broker in state.brokers.items() if return_deadline_passed(state, broker)}
    asked = {name: _too_many(state, name, out) for name in [*state.pools, *state.former]}
    begun = {i for brokers in asked.values() for i in brokers if _begun(inventory, i)}
    departing = out | begun
    for pool, brokers in asked.items():
        asking = [i for i in brokers if i not in begun]
        if acting and asking and _may(inventory, builder, pool, asking, departing):
            departing |= set(asking)
    return frozenset(departing)


def _too_many(state: ClusterState, pool: str, out: set[int]) -> tuple[int, ...]:
    """The brokers of a pool that are more than it is to have.

    One whose KafkaBroker was deleted by hand counts as any other: its record is held until its pool has no more than it is to have.
    """
    registered = state.kafka.brokers
    members = [
        ScaleInCandidate(
            i,
            stopped=bool(broker["spec"].get("leaving")),
            named=removed_first(broker),
            idle=registered is not None and i not in registered,
        )
        for i, broker in state.brokers.items()
        if broker["spec"].get("pool") == pool and i not in out
    ]
    return choose_brokers(members, state.pools[pool].replicas if pool in state.pools else 0)


def _begun(inventory: DiskInventory, broker: int) -> bool:
    """Whether a broker is being emptied already, by its own record: then it is not asked again whether it may."""
    if inventory.state.brokers[broker]["spec"].get("leaving"):
        return True
    mine = inventory.by_broker.get(broker, [])
    said = any(
        (s.before.get("state"), s.before.get("reason")) == (DiskState.DRAINING, "ScaleInStarted")
        for s in mine
    )
    return said and all(slot.recorded in BEGUN for slot in mine)


def _may(
    inventory: DiskInventory, builder: PlanBuilder, pool: str, asking: list[int], departing: set[int]
) -> bool:
    """Whether brokers of one pool may begin to leave besides others: all of them or none."""
    thing = f"Pool/{pool}"
    if not inventory.replica_index.known or inventory.journal is None:
        builder.wait(_not_known(inventory, thing, asking))
        return False
    leaving = {*asking, *departing}
    racks = {i: broker["spec"].get("rack") or None for i, broker in inventory.state.brokers.items()}
    refusal = may_begin(inventory.replica_index, leaving, racks, inventory.state.spec.config)
    if refusal is not None:
        builder.wait(_refused(thing, asking, refusal))
        return False
    short = [i for i in asking if inventory.journal.dropped_on(i)]
    if short:
        builder.wait(_owed(thing, short))
        return False
    full = [i for i in asking if inventory.replica_index.assigned.get(i)]
    silent = [i for i in full if inventory.replica_index.dirs(i) is None and i not in inventory.dead_brokers]
    if silent:
        builder.wait(_silent(inventory, thing, silent))
        return False
    return not full or _room(inventory, builder, thing, full, leaving)


def _room(
    inventory: DiskInventory, builder: PlanBuilder, thing: str, full: list[int], leaving: set[int]
) -> bool:
    """Whether everything on these brokers finds a place on those that stay."""
    going = [slot for slot in inventory.slots if slot.broker in leaving]
    asking = [slot for slot in going if slot.broker in full and inventory.partitions_on(slot)]
    stuck = None if inventory.journal is None else find_stuck(inventory, inventory.journal, asking, going)
    staying = [i for i in inventory.state.brokers if i not in leaving]
    # A broker that restarts is no target, and will be one in a moment.
    waiting = any(
        inventory.replica_index.dirs(i) is None and i not in inventory.dead_brokers for i in staying
    )
    left = {key for keys in (stuck or {}).values() for key in keys}
    if stuck is None or (left and waiting):
        builder.wait(_not_known(inventory, thing, full))
        return False
    if not left:
        return True
    dirs = frozenset((slot.broker, slot.path) for slot in going)
    size, room = sum(map(inventory.replica_index.size, left)) / _GB, room_of(inventory, staying, dirs) / _GB
    builder.wait(
        Waiting(
            _ACTION,
            thing,
            "InsufficientSpaceToScaleIn",
            f"{_named(full)} cannot leave: there is no place elsewhere for {counted(len(left), 'replica')} ({size:.1f} GB): "
            f"{some(names_of(left))}. Up to {inventory.limit:.0%} of each, the disks of the other brokers could take {room:.1f} GB.",
            "Free space, or add disks or brokers in racks that can take them; or raise replicas of the pool again.",
        )
    )
    return False


# The way out


def reconcile_scale_in(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    wanted: dict[int, RestartRequest],
) -> frozenset[int]:
    """The next step of each broker that leaves; brings back those that are wanted again. Returns who is not stopped in this pass."""
    held: set[int] = set()
    for broker_id, broker in inventory.state.brokers.items():
        if broker_id not in inventory.scaling_in:
            if broker["spec"].get("leaving"):
                _stay(records, wanted, broker_id)
        elif _is_needed(inventory, builder, records, wanted, broker):
            if broker["spec"].get("leaving"):  # one that is only being emptied restarts like any other
                held.add(broker_id)
        elif not _leave(inventory, builder, records, identity, broker):
            held.add(broker_id)
    return frozenset(held)


def _is_needed(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    broker: SnapshotObject,
) -> bool:
    """Rule 5: whether something stands on a broker, or may do so for all that is known."""
    broker_id = int(broker["spec"]["id"])
    needed = may_go(inventory.view, broker_id, _owed_to(inventory, broker_id))
    if needed is None:
        return False
    builder.wait(replace(Waiting.of(_ACTION, _thing(broker), needed), quiet=True))
    # What is not known changes nothing; but a topic that was made here in the last moment takes the broker up again.
    if needed.reason != "KafkaUnknown" and not return_deadline_passed(inventory.state, broker):
        _stay(records, wanted, broker_id)
    return True


def _stay(records: BrokerRecords, wanted: dict[int, RestartRequest], broker: int) -> None:
    records.note(broker, leaving=None)
    if broker in wanted and wanted[broker].reason == SCALED_IN:
        del wanted[broker]


def _leave(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    broker: SnapshotObject,
) -> bool:
    """One step. False if the broker is not to be stopped yet."""
    state, broker_id = inventory.state, int(broker["spec"]["id"])
    if not broker["spec"].get("leaving"):
        records.note(broker_id, leaving=True)
        return True
    if broker_id in state.pods:
        return put_back_on(state, builder, broker_id, broker)
    known = (state.kafka.brokers or {}).get(broker_id)
    if known is not None:
        _unregister(builder, broker, fenced=known.fenced is True)
    else:
        _forget(state, builder, identity, broker)
    return True


def _unregister(builder: PlanBuilder, broker: SnapshotObject, *, fenced: bool) -> None:
    name = objects.name(broker)
    if fenced:
        message = f"{name} is stopped, and nothing stands on it: Kafka is told to forget it."
        builder.do(
            UnregisterBroker(broker=int(broker["spec"]["id"]), reason="BrokerUnregistered", message=message)
        )
    builder.wait(
        Waiting(
            _ACTION,
            _thing(broker),
            "BrokerStillRegistered",
            f"{name} is stopped, and Kafka still counts it among its brokers.",
            "Kafka has noticed that it is gone, and forgets it.",
            quiet=True,
        )
    )


def _forget(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, broker: SnapshotObject
) -> None:
    """Take away what was made for a broker: its claims if that is wished, what only it used, and its KafkaBroker when all that is gone."""
    left = _claims(state, builder, identity, broker) | _hand_over(state, builder, broker)
    if left:
        return
    if not objects.deleting(broker):
        kept = some([disk["claim"] for disk in disks_of(broker) if disk["claim"] in state.claims])
        message = f"{objects.name(broker)} has left the cluster. " + (
            f"Its claims are kept: {kept}." if kept else "None of its claims is left; their volumes are kept."
        )
        builder.do(
            Delete(
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
                reason="BrokerRemoved",
                message=message,
            )
        )
    elif not claim_annotations(state, broker):
        drop_finalizer(builder, broker)


def _claims(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, broker: SnapshotObject
) -> bool:
    """Release the claims that are not to be kept. True while one of them is there.

    Rule 11: kept is what holds anything, unless the owner said otherwise. A disk that was never formatted holds nothing.
    """
    there = False
    for disk in disks_of(broker):
        claim = state.claims.get(disk["claim"])
        ours = claim is not None and objects.annotation(claim, names.ANN_CLUSTER_ID) == identity.cluster_id
        if claim is not None and ours and (state.spec.delete_claims or not disk.get("fsUuid")):
            release(
                state, builder, identity, claim, f"{_thing(broker)}/{disk['name']}", "its broker has left"
            )
            there = True
    return there


def _hand_over(state: ClusterState, builder: PlanBuilder, broker: SnapshotObject) -> bool:
    """Have what only this broker used go with its KafkaBroker. True while something is still the cluster's.

    Kubernetes collects what belongs to an object that is gone, so the operator needs no right to delete Secrets. Services go with the others that
    nobody needs.
    """
    if "secrets" in state.snap.unknown:
        return True
    broker_id, left = int(broker["spec"]["id"]), False
    secret = state.secrets.get(names.tls_secret(state.name, broker_id))
    config = state.config_maps.get(names.config_map(state.name, broker_id))
    owner = {"apiVersion": names.API_VERSION, "kind": "KafkaBroker"}
    owner |= {"name": objects.name(broker), "uid": objects.uid(broker)}
    for kind, metadata in (
        ("Secret", secret.metadata if secret is not None else None),
        ("ConfigMap", config["metadata"] if config is not None else None),
    ):
        if metadata is None or [o.get("uid") for o in metadata.get("ownerReferences") or ()] == [
            owner["uid"]
        ]:
            continue
        left = True
        builder.do(
            Patch(
                kind=kind,
                name=str(metadata["name"]),
                uid=str(metadata["uid"]),
                body={"metadata": {"ownerReferences": [owner]}},
            )
        )
    return left


def _owed_to(inventory: DiskInventory, broker: int) -> list[tuple[str, int]]:
    return [
        move.key for move in (inventory.journal.moves if inventory.journal else ()) if move.target == broker
    ]


# What is said


def _thing(broker: SnapshotObject) -> str:
    return f"KafkaBroker/{objects.name(broker)}"


def _named(brokers: Iterable[int]) -> str:
    ids = sorted(brokers)
    return f"{'Broker' if len(ids) == 1 else 'Brokers'} {some([str(i) for i in ids])}"


def _refused(thing: str, asking: list[int], refusal: Waiting) -> Waiting:
    said = replace(refusal, message=f"{_named(asking)} cannot leave: {refusal.message}")
    return Waiting.of(_ACTION, thing, said)


def _owed(thing: str, brokers: list[int]) -> Waiting:
    return Waiting(
        _ACTION,
        thing,
        "ReplicaRestorePending",
        f"{_named(brokers)} cannot leave yet: partitions gave up a replica there, and have one less until it is back.",
        "The replicas are back, which happens by itself once their broker has a good disk with room.",
    )


def _silent(inventory: DiskInventory, thing: str, brokers: list[int]) -> Waiting:
    down = any(
        i not in inventory.state.pods or not objects.kafka_runs(inventory.state.pods[i]) for i in brokers
    )
    return Waiting(
        _ACTION,
        thing,
        "LogDirsUnknown",
        f"{_named(brokers)} cannot leave yet: it does not say what stands on it, so nothing is moved off.",
        "It runs and answers (spec.stopped of its KafkaBroker is false). Of a broker that is gone for good the replicas are made anew "
        "elsewhere first.",
        quiet=not down,
    )


def _not_known(inventory: DiskInventory, thing: str, brokers: list[int]) -> Waiting:
    return Waiting(
        _ACTION,
        thing,
        "PlanPending",
        f"{_named(brokers)} is to leave. Whether what stands there finds a place elsewhere is not known yet"
        f"{': ' + inventory.view.error if inventory.view.error else ''}.",
        "Kafka and all its brokers say what stands where; that is asked for again and again.",
        quiet=True,
    )
