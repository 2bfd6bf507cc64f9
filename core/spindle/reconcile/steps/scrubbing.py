"""What agents found in segments that nobody reads: a person is told, and where that is asked for a replica is made anew."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spindle.api.scrub import MOST_ASKED
from spindle.cluster import names
from spindle.cluster.refusal import counted, some
from spindle.disks.lifecycle import DiskState
from spindle.healing.repair import repair
from spindle.healing.standing import Key
from spindle.moves.journal import REPAIR, Shrunk
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.slots import Slot
from spindle.reconcile.steps.away import down
from spindle.reconcile.steps.brokers import Records
from spindle.reconcile.steps.emptying import bad, closed
from spindle.reconcile.steps.moves import Wants
from spindle.reconcile.ward import Ward

_ACTION: Final = "RepairReplica"
ANN_REPAIRED: Final = (
    f"{names.GROUP}/repaired"  # of a KafkaBroker: replica → when it was dropped to be made anew
)
_ONCE: Final = 3600.0  # seconds: so long a find that is older than the last repair says nothing new
_A_MOMENT: Final = (
    120.0  # seconds: as long as another operator may take to go on with what this one has noted
)
_USABLE: Final = (DiskState.ACTIVE, DiskState.CORDONED)


@dataclass(frozen=True)
class _Corrupt:
    """A replica with corrupt segments, and the first of them as its agent told it."""

    slot: Slot
    key: Key
    entry: Mapping[str, Any]


def settle_scrubbing(ward: Ward, draft: Draft, records: Records) -> Wants:
    """Hand each agent its pace, tell of what is corrupt, and have one replica at a time made anew where that is asked for."""
    found = _found(ward)
    _hand_over(ward, records, found)
    for slot in dict.fromkeys(each.slot.key for each in found):
        _tell(ward, draft, [each for each in found if each.slot.key == slot])
    if ward.journal is None:
        return Wants()
    policy = ward.state.spec.disks.scrub
    if not (policy.enabled and policy.repair) or ward.few_at_once is not None:
        return Wants()
    pending = {entry.id: entry for entry in ward.journal.shrunk if entry.reason == REPAIR}
    if pending:
        return Wants(shrinks=_go_on(ward, draft, found, pending))
    return Wants(shrinks=_repair(ward, draft, found))


def _hand_over(ward: Ward, records: Records, found: Sequence[_Corrupt]) -> None:
    policy = ward.state.spec.disks.scrub
    pace = {"bytesPerSecond": policy.bytes_per_second, "everyDays": policy.every_days}
    for broker_id, broker in ward.state.brokers.items():
        first = _asked_of(ward, broker_id, found) if policy.repair else []
        wanted = (pace | ({"first": first} if first else {})) if policy.enabled else None
        if (broker["spec"].get("scrub") or None) != wanted:
            records.note(broker_id, scrub=wanted)


def _asked_of(ward: Ward, broker: int, found: Sequence[_Corrupt]) -> list[dict[str, Any]]:
    """Replicas of a broker that are to be known to be sound, before a corrupt one elsewhere may be made anew from them."""
    mine = {each.key for each in found if each.slot.broker == broker}
    partitions = ward.looked.partitions
    asked = dict.fromkeys(
        each.key
        for each in found
        if each.key not in mine and each.key in partitions and broker in partitions[each.key].replicas
    )
    return [{"topic": topic, "partition": index} for topic, index in list(asked)[:MOST_ASKED]]


def _sound(ward: Ward) -> dict[Key, set[int]]:
    """By partition, the brokers whose replica a living agent has read and found nothing in."""
    sound: dict[Key, set[int]] = {}
    for slot in ward.slots:
        if not slot.watched or not slot.online or slot.health.bad or slot.log_dir is None:
            continue
        for entry in (slot.observed.get("scrub") or {}).get("sound") or ():
            key = str(entry["topic"]), int(entry["partition"])
            if key in slot.log_dir.replicas:
                sound.setdefault(key, set()).add(slot.broker)
    return sound


def _found(ward: Ward) -> list[_Corrupt]:
    """Replicas that are corrupt and still where they were found; the earliest find of each."""
    if not ward.state.spec.disks.scrub.enabled:
        return []
    replicas: dict[tuple[int, str, Key], _Corrupt] = {}
    for slot in ward.slots:
        for entry in slot.observed.get("corrupt") or ():
            key = str(entry["topic"]), int(entry["partition"])
            if slot.log_dir is None or key in slot.log_dir.replicas:
                replicas.setdefault((*slot.key, key), _Corrupt(slot, key, entry))
    return sorted(replicas.values(), key=lambda c: (c.slot.key, str(c.entry.get("since")), c.key))


def _tell(ward: Ward, draft: Draft, found: Sequence[_Corrupt]) -> None:
    slot = found[0].slot
    policy = ward.state.spec.disks.scrub
    count = int((slot.observed.get("scrub") or {}).get("corrupt") or len(found))
    first = found[0].entry
    where = names_of_file(first)
    others = f" Corrupt as well: {some([_name(each.key) for each in found[1:]])}." if len(found) > 1 else ""
    draft.wait(
        Wait(
            _ACTION,
            ward.thing(slot),
            "CorruptSegment",
            f"{counted(count, 'segment')} on {slot.name} of broker {slot.broker} cannot be what was written. {_name(found[0].key)}: "
            f"{first['kind']} at byte {first['position']} of {where}.{others}",
            "The replica is dropped and made anew from the others as soon as the rules allow it. If there are ever more on this disk, "
            "replace it."
            if policy.repair
            else "Have the replica made anew from the others: set spec.disks.scrub.repair, or do it by hand as docs/scrubbing.md says. "
            "If there are ever more on this disk, replace it.",
        )
    )


def names_of_file(entry: Mapping[str, Any]) -> str:
    """Name of the file that something was found in."""
    return f"{int(entry['segment']):020d}.{entry['file']}"


# Repair


def _repair(ward: Ward, draft: Draft, found: Sequence[_Corrupt]) -> tuple[Shrunk, ...]:
    """The first replica that may be dropped; that it is, is noted before it is done."""
    for each in found:
        if _done_already(ward, each) or _in_motion(ward, each.key):
            continue
        if shrunk := _may_be_dropped(ward, draft, each, found):
            draft.do(_noted(ward, each, found))
            return shrunk
    return ()


def _go_on(
    ward: Ward, draft: Draft, found: Sequence[_Corrupt], pending: Mapping[tuple[str, int, int], Shrunk]
) -> tuple[Shrunk, ...]:
    """What was noted a moment ago, and is not seen to have left yet.

    Nothing is older: a replica of these that stands, or stands again, was brought back by somebody, and is forgotten once it is in sync.
    """
    return tuple(
        entry
        for each in found
        if (entry := pending.get((*each.key, each.slot.broker))) is not None
        and _just_noted(ward, each)
        and not _changing(ward, each.key)
        and _may_be_dropped(ward, draft, each, found)
    )


def _may_be_dropped(
    ward: Ward, draft: Draft, each: _Corrupt, found: Sequence[_Corrupt]
) -> tuple[Shrunk, ...]:
    """The replica, if it may be made anew by what is known now."""
    slot = each.slot
    if not slot.watched or not slot.online or slot.health.bad or ward.now(slot) not in _USABLE:
        return ()
    corrupt: dict[Key, set[int]] = {}
    for other in found:
        corrupt.setdefault(other.key, set()).add(other.slot.broker)
    avoid = [path for broker, path in bad(ward) | closed(ward) if broker == slot.broker]
    made = repair(
        ward.room, slot.broker, each.key, corrupt, _sound(ward), avoid, ward.limit, down(ward.state)
    )
    if made.refusal is not None:
        draft.wait(Wait.refused(_ACTION, ward.thing(slot), made.refusal))
    return made.shrunk


def _in_motion(ward: Ward, key: Key) -> bool:
    journal = ward.journal
    return journal is None or key in {*(m.key for m in journal.moves), *(s.key for s in journal.shrunk)}


def _changing(ward: Ward, key: Key) -> bool:
    """Whether a partition's replicas are being changed: then what was asked for is under way, or what brings it back is."""
    partition = ward.looked.partitions.get(key)
    moving = ward.journal is not None and any(move.key == key for move in ward.journal.moves)
    return moving or partition is None or bool(partition.adding or partition.removing)


def _repaired(ward: Ward, broker: int) -> dict[str, float]:
    text = objects.annotation(ward.state.brokers[broker], ANN_REPAIRED) or "{}"
    try:
        return {str(name): float(at) for name, at in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError):
        return {}


def _done_already(ward: Ward, each: _Corrupt) -> bool:
    """Whether the replica was dropped since this was found: then the agent has not looked again yet."""
    at = _repaired(ward, each.slot.broker).get(_name(each.key))
    since = each.slot.here(each.entry.get("since"))
    return at is not None and ward.state.now - at < _ONCE and (since is None or since <= at)


def _just_noted(ward: Ward, each: _Corrupt) -> bool:
    """Whether the replica was to be dropped so lately that it may not have come to it yet."""
    at = _repaired(ward, each.slot.broker).get(_name(each.key))
    return at is not None and 0 <= ward.state.now - at < _A_MOMENT


def _noted(ward: Ward, each: _Corrupt, found: Sequence[_Corrupt]) -> Patch:
    """Only what is still told of as corrupt has to be remembered."""
    broker = ward.state.brokers[each.slot.broker]
    told = {_name(other.key) for other in found if other.slot.broker == each.slot.broker}
    kept = {name: at for name, at in _repaired(ward, each.slot.broker).items() if name in told}
    text = json.dumps(kept | {_name(each.key): int(ward.state.now)}, sort_keys=True)
    return Patch(
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
        body={"metadata": {"annotations": {ANN_REPAIRED: text}}},
    )


def _name(key: Key) -> str:
    return f"{key[0]}-{key[1]}"
