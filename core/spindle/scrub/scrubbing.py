"""Scrubbing: reports corrupt segments that the agents found, and re-replicates one corrupt replica at a time if repair is enabled."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.api.scrub import MOST_ASKED
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.evacuation.repair import repair
from spindle.evacuation.requests import bad_dirs, closed_dirs
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key
from spindle.model.unavailable import unavailable
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import REPAIR, DroppedReplica
from spindle.moves.requests import MoveRequests

_ACTION: Final = "RepairReplica"
ANN_REPAIRED: Final = (
    f"{names.GROUP}/repaired"  # of a KafkaBroker: replica → when it was dropped to be re-replicated
)
_ONCE: Final = 3600.0  # seconds after a repair in which findings older than the repair are ignored
_A_MOMENT: Final = (
    120.0  # seconds that another operator may take to continue after this one recorded a repair
)
_USABLE: Final = (DiskState.ACTIVE, DiskState.CORDONED)


@dataclass(frozen=True)
class _Corrupt:
    """A replica with corrupt segments, and its first finding as the agent reported it."""

    slot: BrokerDisk
    key: Key
    entry: Mapping[str, Any]


def reconcile_scrub(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords) -> MoveRequests:
    """Give each agent its scrub rate, report corrupt segments, and request the repair of one replica at a time if enabled."""
    found = _found(inventory)
    _hand_over(inventory, records, found)
    for slot in dict.fromkeys(each.slot.key for each in found):
        _report(inventory, builder, [each for each in found if each.slot.key == slot])
    if inventory.journal is None:
        return MoveRequests()
    policy = inventory.state.spec.disks.scrub
    if not (policy.enabled and policy.repair) or inventory.correlated_failures is not None:
        return MoveRequests()
    pending = {entry.id: entry for entry in inventory.journal.dropped if entry.reason == REPAIR}
    if pending:
        return MoveRequests(shrinks=_go_on(inventory, builder, found, pending))
    return MoveRequests(shrinks=_repair(inventory, builder, found))


def _hand_over(inventory: DiskInventory, records: BrokerRecords, found: Sequence[_Corrupt]) -> None:
    policy = inventory.state.spec.disks.scrub
    pace = {"bytesPerSecond": policy.bytes_per_second, "everyDays": policy.every_days}
    for broker_id, broker in inventory.state.brokers.items():
        first = _asked_of(inventory, broker_id, found) if policy.repair else []
        wanted = (pace | ({"first": first} if first else {})) if policy.enabled else None
        if (broker["spec"].get("scrub") or None) != wanted:
            records.note(broker_id, scrub=wanted)


def _asked_of(inventory: DiskInventory, broker: int, found: Sequence[_Corrupt]) -> list[dict[str, Any]]:
    """Replicas that the broker's agent must check first: a corrupt replica elsewhere is repaired only from a replica known to be sound."""
    mine = {each.key for each in found if each.slot.broker == broker}
    partitions = inventory.replica_index.partitions
    asked = dict.fromkeys(
        each.key
        for each in found
        if each.key not in mine and each.key in partitions and broker in partitions[each.key].replicas
    )
    return [{"topic": topic, "partition": index} for topic, index in list(asked)[:MOST_ASKED]]


def _sound(inventory: DiskInventory) -> dict[Key, set[int]]:
    """By partition, the brokers whose replica a live agent has scrubbed without findings."""
    sound: dict[Key, set[int]] = {}
    for slot in inventory.slots:
        if not slot.watched or not slot.online or slot.health.bad or slot.log_dir is None:
            continue
        for entry in (slot.observed.get("scrub") or {}).get("sound") or ():
            key = str(entry["topic"]), int(entry["partition"])
            if key in slot.log_dir.replicas:
                sound.setdefault(key, set()).add(slot.broker)
    return sound


def _found(inventory: DiskInventory) -> list[_Corrupt]:
    """Corrupt replicas that are still where they were found, each with its earliest finding."""
    if not inventory.state.spec.disks.scrub.enabled:
        return []
    replicas: dict[tuple[int, str, Key], _Corrupt] = {}
    for slot in inventory.slots:
        for entry in slot.observed.get("corrupt") or ():
            key = str(entry["topic"]), int(entry["partition"])
            if slot.log_dir is None or key in slot.log_dir.replicas:
                replicas.setdefault((*slot.key, key), _Corrupt(slot, key, entry))
    return sorted(replicas.values(), key=lambda c: (c.slot.key, str(c.entry.get("since")), c.key))


def _report(inventory: DiskInventory, builder: PlanBuilder, found: Sequence[_Corrupt]) -> None:
    slot = found[0].slot
    policy = inventory.state.spec.disks.scrub
    count = int((slot.observed.get("scrub") or {}).get("corrupt") or len(found))
    first = found[0].entry
    where = names_of_file(first)
    others = f" Also corrupt: {some([_name(each.key) for each in found[1:]])}." if len(found) > 1 else ""
    builder.wait(
        Waiting(
            _ACTION,
            inventory.object_name(slot),
            "CorruptSegment",
            f"{counted(count, 'segment')} on {slot.name} of broker {slot.broker} {'is' if count == 1 else 'are'} corrupt. {_name(found[0].key)}: "
            f"{first['kind']} at byte {first['position']} of {where}.{others}",
            "Nothing to do: Spindle drops the replica and re-replicates it from the others as soon as the safety rules allow it. If more and "
            "more segments on this disk are corrupt, replace the disk."
            if policy.repair
            else "Set spec.disks.scrub.repair to have Spindle re-replicate the replica from the others, or do it by hand as docs/scrubbing.md describes. "
            "If more and more segments on this disk are corrupt, replace the disk.",
        )
    )


def names_of_file(entry: Mapping[str, Any]) -> str:
    """Name of the segment's file with the finding, e.g. ``00000000000000000042.log``."""
    return f"{int(entry['segment']):020d}.{entry['file']}"


# Repair


def _repair(
    inventory: DiskInventory, builder: PlanBuilder, found: Sequence[_Corrupt]
) -> tuple[DroppedReplica, ...]:
    """The first replica that may be dropped; recorded on the KafkaBroker before it is dropped."""
    for each in found:
        if _done_already(inventory, each) or _in_motion(inventory, each.key):
            continue
        if dropped := _may_be_dropped(inventory, builder, each, found):
            builder.do(_noted(inventory, each, found))
            return dropped
    return ()


def _go_on(
    inventory: DiskInventory,
    builder: PlanBuilder,
    found: Sequence[_Corrupt],
    pending: Mapping[tuple[str, int, int], DroppedReplica],
) -> tuple[DroppedReplica, ...]:
    """Drops that were recorded a moment ago and have not happened yet.

    Older records are ignored: such a replica still exists because another client added it again, and its record is dropped once it is in sync.
    """
    return tuple(
        entry
        for each in found
        if (entry := pending.get((*each.key, each.slot.broker))) is not None
        and _just_noted(inventory, each)
        and not _changing(inventory, each.key)
        and _may_be_dropped(inventory, builder, each, found)
    )


def _may_be_dropped(
    inventory: DiskInventory, builder: PlanBuilder, each: _Corrupt, found: Sequence[_Corrupt]
) -> tuple[DroppedReplica, ...]:
    """The replica, if it may be dropped and re-replicated now."""
    slot = each.slot
    if not slot.watched or not slot.online or slot.health.bad or inventory.state_of(slot) not in _USABLE:
        return ()
    corrupt: dict[Key, set[int]] = {}
    for other in found:
        corrupt.setdefault(other.key, set()).add(other.slot.broker)
    avoid = [path for broker, path in bad_dirs(inventory) | closed_dirs(inventory) if broker == slot.broker]
    result = repair(
        inventory.planning_index,
        slot.broker,
        each.key,
        corrupt,
        _sound(inventory),
        avoid,
        inventory.limit,
        unavailable(inventory.state),
    )
    if result.refusal is not None:
        builder.wait(Waiting.of(_ACTION, inventory.object_name(slot), result.refusal))
    return result.shrunk


def _in_motion(inventory: DiskInventory, key: Key) -> bool:
    journal = inventory.journal
    return journal is None or key in {*(m.key for m in journal.moves), *(s.key for s in journal.dropped)}


def _changing(inventory: DiskInventory, key: Key) -> bool:
    """Whether a partition is being reassigned: the drop, or the restore after it, is already under way."""
    partition = inventory.replica_index.partitions.get(key)
    moving = inventory.journal is not None and any(move.key == key for move in inventory.journal.moves)
    return moving or partition is None or bool(partition.adding or partition.removing)


def _repaired(inventory: DiskInventory, broker: int) -> dict[str, float]:
    text = objects.annotation(inventory.state.brokers[broker], ANN_REPAIRED) or "{}"
    try:
        return {str(name): float(at) for name, at in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _done_already(inventory: DiskInventory, each: _Corrupt) -> bool:
    """Whether the replica was dropped after this finding: then the agent has not scrubbed it again yet."""
    at = _repaired(inventory, each.slot.broker).get(_name(each.key))
    since = each.slot.operator_time(each.entry.get("since"))
    return at is not None and inventory.state.now - at < _ONCE and (since is None or since <= at)


def _just_noted(inventory: DiskInventory, each: _Corrupt) -> bool:
    """Whether the drop was recorded so recently that it may not have been carried out yet."""
    at = _repaired(inventory, each.slot.broker).get(_name(each.key))
    return at is not None and 0 <= inventory.state.now - at < _A_MOMENT


def _noted(inventory: DiskInventory, each: _Corrupt, found: Sequence[_Corrupt]) -> Patch:
    """The record of the drop; entries of replicas that are no longer reported as corrupt are removed."""
    broker = inventory.state.brokers[each.slot.broker]
    reported = {_name(other.key) for other in found if other.slot.broker == each.slot.broker}
    kept = {name: at for name, at in _repaired(inventory, each.slot.broker).items() if name in reported}
    text = json.dumps(kept | {_name(each.key): int(inventory.state.now)}, sort_keys=True)
    return Patch(
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
        body={"metadata": {"annotations": {ANN_REPAIRED: text}}},
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
