"""What a new disk is filled with: the part of a balanced plan that goes onto it."""

from collections.abc import Collection

from spindle.cluster.view import KafkaView
from spindle.healing.standing import Standing, for_planning
from spindle.moves.journal import Move
from spindle.placement.planner import plan
from spindle.placement.problem import Goals
from spindle.placement.snapshot import SnapshotError
from spindle.placement.sources import from_view


def fill(
    view: KafkaView,
    new: Collection[tuple[int, str]],
    *,
    avoid: Collection[tuple[int, str]] = (),
    closed: Collection[tuple[int, str]] = (),
    incoming_limit: float = 0.9,
) -> tuple[Move, ...] | None:
    """Moves onto new disks, those from other disks of the same broker first; None while nothing can be planned.

    Args:
        view: what Kafka says now.
        new: (broker, path) of the dirs that are to be filled.
        avoid: dirs that are bad.
        closed: dirs that are to take nothing.
        incoming_limit: rule 4.
    """
    if not new:
        return ()
    if not Standing(view).known:
        return None
    try:
        snapshot = from_view(for_planning(view, frozenset(avoid), frozenset(closed)))
    except SnapshotError:
        return None
    found = plan(snapshot, Goals(leader_band=None, incoming_limit=incoming_limit, mark=incoming_limit))
    s, moves = snapshot, []
    for replica, source, target in zip(
        found.replica.tolist(), found.source.tolist(), found.target.tolist(), strict=True
    ):
        at, to = int(s.broker[s.dir_broker[source]]), int(s.broker[s.dir_broker[target]])
        if (to, s.dir_name[target]) in new and (at, s.dir_name[source]) not in avoid:
            moves.append(
                Move(s.topic_name(replica), int(s.partition[replica]), at, s.dir_name[source], to,
                     s.dir_name[target], int(s.size[replica]), "fill")
            )  # fmt: skip
    return tuple(sorted(moves, key=lambda move: not move.within))
