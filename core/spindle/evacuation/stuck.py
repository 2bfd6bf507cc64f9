"""Replicas that have no place elsewhere."""

from collections.abc import Iterable

from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import SHUT, DiskInventory
from spindle.evacuation.evacuate import evacuate
from spindle.evacuation.requests import bad_dirs, offline_brokers
from spindle.model.replica_index import Key
from spindle.moves.journal import Journal


def find_stuck(
    inventory: DiskInventory, journal: Journal, asking: list[BrokerDisk], going: list[BrokerDisk]
) -> dict[tuple[int, str], set[Key]] | None:
    """The partitions on each of these disks that find no place elsewhere if all of ``going`` are drained; None if that is unknown."""
    out = frozenset((slot.broker, slot.path) for slot in going)
    shut = frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.recorded in SHUT)
    dirs = [
        (slot.broker, slot.path) for slot in going if inventory.partitions_on(slot) and not slot.health.bad
    ]
    plan = evacuate(
        inventory.for_planning,
        (),
        dirs,
        avoid=bad_dirs(inventory),
        closed=(shut | out | offline_brokers(inventory)) - frozenset(dirs),
        incoming_limit=inventory.limit,
    )
    if plan.problem is not None:
        return None
    moving = {(move.source, move.key) for move in (*plan.moves, *journal.moves)}
    return {
        slot.key: {key for key in inventory.partitions_on(slot) or () if (slot.broker, key) not in moving}
        for slot in asking
    }


def room_of(inventory: DiskInventory, brokers: Iterable[int], out: frozenset[tuple[int, str]]) -> float:
    """Bytes that the brokers' log dirs could take up to the incoming limit, without the dirs in ``out``."""
    return sum(
        max(0.0, inventory.limit * d.total_bytes - (d.total_bytes - d.usable_bytes))
        for broker in brokers
        for d in inventory.planning_index.dirs(broker) or ()
        if (broker, d.path) not in out
        and not d.error
        and d.total_bytes is not None
        and d.usable_bytes is not None
    )
