"""What healing left on fewer racks than it found it on is spread again, by itself: after everything that heals, and as throttled."""

from typing import Final

from spindle.disks.lifecycle import DiskState
from spindle.healing.spread import spread
from spindle.moves.journal import EVACUATE, REGROW
from spindle.reconcile.steps.emptying import bad, closed, offline_brokers, together
from spindle.reconcile.steps.moves import Wants
from spindle.reconcile.ward import Ward

_HEALS: Final = frozenset({EVACUATE, REGROW})


def settle_spreading(ward: Ward, others: Wants) -> Wants:
    """What the others want, and after it moves to racks that partitions stood on before a disk or a broker of theirs was lost.

    Args:
        ward: the pass; the lives of its disks are settled.
        others: what healing and full disks want: both come first.
    """
    journal = ward.journal
    if journal is None or not journal.crowded or _heals(ward, others):
        return others
    moves = spread(
        ward.for_planning,
        journal.crowded,
        avoid=bad(ward),
        closed=closed(ward) | offline_brokers(ward) | others.closed | _to_restart(ward),
        incoming_limit=ward.limit,
    )
    return together(others, Wants(moves=moves))


def _heals(ward: Ward, others: Wants) -> bool:
    """Whether something is being made anew or grown back, or is about to be, or too much is bad for anything to be done by itself."""
    journal = ward.journal
    moves = (*others.moves, *(journal.moves if journal is not None else ()))
    return bool(
        ward.few_at_once is not None
        or others.shrinks
        or others.lost
        or (journal is not None and journal.shrunk)
        or any(move.reason in _HEALS for move in moves)
    )


def _to_restart(ward: Ward) -> frozenset[tuple[int, str]]:
    """All dirs of brokers that are to restart without a disk of theirs: a copy that has begun would only be cut short."""
    restless = {slot.broker for slot in ward.within(DiskState.FAILED, DiskState.EVACUATING)}
    return frozenset((slot.broker, slot.path) for slot in ward.slots if slot.broker in restless)
