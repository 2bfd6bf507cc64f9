"""Scale-in: which brokers leave when a pool's ``replicas`` is lowered, whether they may, and how they are stopped, unregistered and removed.

All disks of a leaving broker are drained first. The rest is done here, one step per pass, each derived from what Kubernetes and Kafka
show: ``spec.leaving`` is recorded, the pod stopped, the broker unregistered (KIP-500), its claims kept or deleted, its Secret and ConfigMap
deleted, and last its KafkaBroker. Until a claim or the KafkaBroker is deleted, scale-in can be cancelled.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.brokers.claim_annotations import claim_annotations
from spindle.brokers.records import return_deadline_passed
from spindle.brokers.reservations import release_broker
from spindle.config.broker_settings import put_back_on, wait_for_revert
from spindle.disks.disk_inventory import BEGUN, DiskInventory
from spindle.evacuation.stuck import find_stuck, room_of
from spindle.model import objects
from spindle.model.actions import Patch, UnregisterBroker
from spindle.model.broker_disks import disks_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_release import release
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.finalizers import drop_finalizer
from spindle.model.maintenance import removed_first
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import names_of
from spindle.model.requests import SCALED_IN, RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.view import CORDONED
from spindle.model.waiting import Waiting, counted, some
from spindle.scaling.choose import ScaleInCandidate, choose_brokers
from spindle.scaling.rules import may_begin, may_go

_ACTION: Final = "ScaleIn"
_GB: Final = 1e9


def find_scaling_in(inventory: DiskInventory, builder: PlanBuilder, *, acting: bool) -> frozenset[int]:
    """The brokers that are leaving; adds a wait for those that may not start to leave yet."""
    state = inventory.state
    out = {i for i, broker in state.brokers.items() if return_deadline_passed(state, broker)}
    asked = {name: _surplus(state, name, out) for name in [*state.pools, *state.former]}
    begun = {i for brokers in asked.values() for i in brokers if _has_started(inventory, i)}
    departing = out | begun
    for pool, brokers in asked.items():
        asking = [i for i in brokers if i not in begun]
        if acting and asking and _may(inventory, builder, pool, asking, departing):
            departing |= set(asking)
    return frozenset(departing)


def _surplus(state: ClusterState, pool: str, out: set[int]) -> tuple[int, ...]:
    """The brokers of a pool that exceed its ``replicas``.

    A broker whose KafkaBroker was deleted by hand counts like any other: a finalizer holds the object until the pool's size matches.
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


def _has_started(inventory: DiskInventory, broker: int) -> bool:
    """Whether a broker's record shows that it is being drained already: then it is not checked again whether it may leave."""
    if inventory.state.brokers[broker]["spec"].get("leaving"):
        return True
    mine = inventory.by_broker.get(broker, [])
    recorded = any(
        (s.before.get("state"), s.before.get("reason")) == (DiskState.DRAINING, "ScaleInStarted")
        for s in mine
    )
    return recorded and all(slot.recorded in BEGUN for slot in mine)


def _may(
    inventory: DiskInventory, builder: PlanBuilder, pool: str, asking: list[int], departing: set[int]
) -> bool:
    """Whether brokers of one pool may start to leave in addition to ``departing``: all of them or none."""
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
        builder.wait(_restore_pending(thing, short))
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
    """Whether all replicas on these brokers find a place on those that stay."""
    going = [slot for slot in inventory.slots if slot.broker in leaving]
    asking = [slot for slot in going if slot.broker in full and inventory.partitions_on(slot)]
    stuck = None if inventory.journal is None else find_stuck(inventory, inventory.journal, asking, going)
    staying = [i for i in inventory.state.brokers if i not in leaving]
    # A broker that is restarting is not a target now, and will be one in a moment.
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
            f"{_named(full)} cannot be removed: {counted(len(left), 'replica')} ({size:.1f} GB) {'fits' if len(left) == 1 else 'fit'} nowhere "
            f"else: {some(names_of(left))}. Filled to {inventory.limit:.0%}, the disks of the other brokers could take {room:.1f} GB.",
            "Free space, add disks or brokers in racks that can take the replicas, or raise replicas of the pool again.",
        )
    )
    return False


# Leaving


def reconcile_scale_in(
    inventory: DiskInventory,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    wanted: dict[int, RestartRequest],
) -> frozenset[int]:
    """Take the next step of each leaving broker; cancel the scale-in of those that are needed again.

    Returns:
        Brokers that must not be stopped in this pass.
    """
    held: set[int] = set()
    for broker_id, broker in inventory.state.brokers.items():
        if broker_id not in inventory.scaling_in:
            if broker["spec"].get("leaving"):
                _stay(records, wanted, broker_id)
        elif _is_needed(inventory, builder, records, wanted, broker):
            if broker["spec"].get("leaving"):  # a broker that is only being drained restarts like any other
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
    """Whether a broker holds or may hold replicas (safety rule "no log dir removed with replicas on it", ``docs/safety.md``)."""
    broker_id = int(broker["spec"]["id"])
    needed = may_go(inventory.view, broker_id, _incoming_to(inventory, broker_id))
    if needed is None:
        return False
    builder.wait(replace(Waiting.of(_ACTION, _thing(broker), needed), quiet=True))
    # While Kafka is unknown nothing changes; a topic that was created here in the last moment cancels the stop.
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
    """Take one step. False if the broker must not be stopped yet."""
    state, broker_id = inventory.state, int(broker["spec"]["id"])
    if not broker["spec"].get("leaving"):
        throttles = _throttles_on(inventory, broker_id)
        if throttles is None:
            return False  # `JournalUnreadable` names the way out
        if throttles and wait_for_revert(state, builder, broker, throttles):
            return False
        records.note(broker_id, leaving=True)
        return True
    if broker_id in state.pods:
        return put_back_on(state, builder, broker_id, broker)
    known = (state.kafka.brokers or {}).get(broker_id)
    if known is not None:
        _unregister(builder, broker, fenced=known.fenced is True)
    else:
        _remove(state, builder, identity, broker)
    return True


def _throttles_on(inventory: DiskInventory, broker: int) -> list[str] | None:
    """Throttles that Spindle set on a broker and has not reverted yet: Kafka changes no config of a broker that is not registered any more.

    Its cordon stays until it has stopped, so that it gets no new replica. None if the journal cannot be read.
    """
    if inventory.journal is None:
        return None
    mine = [
        entry for entry in inventory.journal.settings if (entry.kind, entry.name) == ("broker", str(broker))
    ]
    return sorted(entry.key for entry in mine if entry.key != CORDONED)


def _unregister(builder: PlanBuilder, broker: SnapshotObject, *, fenced: bool) -> None:
    name = objects.name(broker)
    if fenced:
        message = f"Unregistered {name} from Kafka: it is stopped and holds no replicas."
        builder.do(
            UnregisterBroker(broker=int(broker["spec"]["id"]), reason="BrokerUnregistered", message=message)
        )
    builder.wait(
        Waiting(
            _ACTION,
            _thing(broker),
            "BrokerStillRegistered",
            f"{name} is stopped, and Kafka still lists it as a registered broker.",
            "Nothing to do: Spindle continues when Kafka has fenced the broker and unregistered it.",
            quiet=True,
        )
    )


def _remove(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, broker: SnapshotObject
) -> None:
    """Delete what was created for a broker: its claims if the spec asks for that, reservations of volumes, its Secret and ConfigMap, and last its KafkaBroker."""
    left = _claims(state, builder, identity, broker) | _hand_over(state, builder, broker)
    if release_broker(state, builder, broker) or left:
        return
    if not objects.deleting(broker):
        kept = some([disk["claim"] for disk in disks_of(broker) if disk["claim"] in state.claims])
        message = f"Removed {objects.name(broker)} from the cluster. " + (
            f"Its claims are kept: {kept}." if kept else "Its claims are deleted; their volumes are kept."
        )
        builder.delete("KafkaBroker", broker, "BrokerRemoved", message)
    elif not claim_annotations(state, broker):
        drop_finalizer(builder, broker)


def _claims(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, broker: SnapshotObject
) -> bool:
    """Delete the claims that need not be kept. True while one of them exists.

    Claims with data stay unless ``spec.deleteClaims`` is set (safety rule "no data deleted unless requested", ``docs/safety.md``). A disk
    that was never formatted holds no data.
    """
    there = False
    for disk in disks_of(broker):
        claim = state.claims.get(disk["claim"])
        ours = claim is not None and objects.annotation(claim, names.ANN_CLUSTER_ID) == identity.cluster_id
        if claim is not None and ours and (state.spec.delete_claims or not disk.get("fsUuid")):
            release(
                state, builder, identity, claim, f"{_thing(broker)}/{disk['name']}", "its broker was removed"
            )
            there = True
    return there


def _hand_over(state: ClusterState, builder: PlanBuilder, broker: SnapshotObject) -> bool:
    """Make the KafkaBroker the owner of its Secret and ConfigMap. True while one of them still belongs to the cluster.

    Kubernetes then garbage-collects them with the KafkaBroker, so the operator needs no right to delete Secrets. Unused Services are
    deleted in `spindle.listeners.external_addresses`.
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


def _incoming_to(inventory: DiskInventory, broker: int) -> list[tuple[str, int]]:
    return [
        move.key for move in (inventory.journal.moves if inventory.journal else ()) if move.target == broker
    ]


# Messages


def _thing(broker: SnapshotObject) -> str:
    return f"KafkaBroker/{objects.name(broker)}"


def _named(brokers: Iterable[int]) -> str:
    ids = sorted(brokers)
    return f"{'Broker' if len(ids) == 1 else 'Brokers'} {some([str(i) for i in ids])}"


def _refused(thing: str, asking: list[int], refusal: Waiting) -> Waiting:
    explained = replace(refusal, message=f"{_named(asking)} cannot be removed: {refusal.message}")
    return Waiting.of(_ACTION, thing, explained)


def _restore_pending(thing: str, brokers: list[int]) -> Waiting:
    return Waiting(
        _ACTION,
        thing,
        "ReplicaRestorePending",
        f"{_named(brokers)} cannot be removed yet: Spindle dropped replicas of some partitions there, and these have one replica less until it is restored.",
        "Nothing to do: Spindle continues when the replicas are restored, which it does once their broker has a healthy disk with room.",
    )


def _silent(inventory: DiskInventory, thing: str, brokers: list[int]) -> Waiting:
    down = any(
        i not in inventory.state.pods or not objects.kafka_runs(inventory.state.pods[i]) for i in brokers
    )
    return Waiting(
        _ACTION,
        thing,
        "LogDirsUnknown",
        f"{_named(brokers)} cannot be removed yet: {'it does' if len(brokers) == 1 else 'they do'} not report {'its' if len(brokers) == 1 else 'their'} log "
        "dirs, so no replica is moved off.",
        f"Start the {'broker' if len(brokers) == 1 else 'brokers'} (spec.maintenance.stopped of the KafkaBroker is false). If a broker is permanently lost, "
        "Spindle re-replicates its replicas elsewhere first.",
        quiet=not down,
    )


def _not_known(inventory: DiskInventory, thing: str, brokers: list[int]) -> Waiting:
    return Waiting(
        _ACTION,
        thing,
        "PlanPending",
        f"{_named(brokers)} {'is' if len(brokers) == 1 else 'are'} to be removed. It is not known yet whether {'its' if len(brokers) == 1 else 'their'} "
        f"replicas fit elsewhere{': ' + inventory.view.error if inventory.view.error else ''}.",
        "Nothing to do: Spindle continues when Kafka and all its brokers have reported their log dirs.",
        quiet=True,
    )
