"""What healing left on fewer racks than it found it on is spread again, by itself: after everything that heals, and as throttled."""

from typing import Final

from spindle.disks.lifecycle import DiskState
from spindle.healing.rack_spread import restore_rack_spread
from spindle.moves.journal import EVACUATE, RESTORE
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.steps.evacuation import bad_dirs, closed_dirs, merge_requests, offline_brokers
from spindle.reconcile.steps.moves import MoveRequests

_HEALS: Final = frozenset({EVACUATE, RESTORE})


def reconcile_rack_spread(inventory: DiskInventory, others: MoveRequests) -> MoveRequests:
    """What the others want, and after it moves to racks that partitions stood on before a disk or a broker of theirs was lost.

    Args:
        inventory: the pass; the lives of its disks are settled.
        others: what healing and full disks want: both come first.
    """
    journal = inventory.journal
    if journal is None or not journal.spread_violations or _heals(inventory, others):
        return others
    moves = restore_rack_spread(
        inventory.for_planning,
        journal.spread_violations,
        avoid=bad_dirs(inventory),
        closed=closed_dirs(inventory) | offline_brokers(inventory) | others.closed | _to_restart(inventory),
        incoming_limit=inventory.limit,
    )
    return merge_requests(others, MoveRequests(moves=moves))


def _heals(inventory: DiskInventory, others: MoveRequests) -> bool:
    """Whether something is being made anew or grown back, or is about to be, or too much is bad for anything to be done by itself."""
    journal = inventory.journal
    moves = (*others.moves, *(journal.moves if journal is not None else ()))
    return bool(
        inventory.correlated_failures is not None
        or others.shrinks
        or others.lost
        or (journal is not None and journal.dropped)
        or any(move.reason in _HEALS for move in moves)
    )


def _to_restart(inventory: DiskInventory) -> frozenset[tuple[int, str]]:
    """All dirs of brokers that are to restart without a disk of theirs: a copy that has begun would only be cut short."""
    restless = {slot.broker for slot in inventory.in_states(DiskState.FAILED, DiskState.EVACUATING)}
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.broker in restless)
