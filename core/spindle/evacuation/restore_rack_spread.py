"""Restores the rack spread of partitions that healing left on fewer racks; runs after all healing, with the same throttles."""

from typing import Final

from spindle.api.enums import DiskState
from spindle.disks.disk_inventory import DiskInventory
from spindle.evacuation.rack_spread import restore_rack_spread
from spindle.evacuation.requests import bad_dirs, closed_dirs, offline_brokers
from spindle.moves.journal import EVACUATE, RESTORE
from spindle.moves.requests import MoveRequests, merge_requests

_HEALS: Final = frozenset({EVACUATE, RESTORE})


def reconcile_rack_spread(inventory: DiskInventory, others: MoveRequests) -> MoveRequests:
    """The other requests, plus moves back to racks that partitions were on before they lost a disk or a broker.

    Args:
        inventory: the cluster's disks, with their states decided.
        others: moves for healing and full disks; they take precedence.
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
    """Whether replicas are being re-replicated or restored, or are about to be, or disk failures are correlated."""
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
    """All dirs of brokers that will restart without one of their disks: a restart would interrupt the copy."""
    restless = {slot.broker for slot in inventory.in_states(DiskState.FAILED, DiskState.EVACUATING)}
    return frozenset((slot.broker, slot.path) for slot in inventory.slots if slot.broker in restless)
