"""What a new disk is filled with: the part of a balanced plan that goes onto it."""

from collections.abc import Collection, Sequence

from spindle.cluster.view import KafkaView
from spindle.healing.after_moves import after_moves
from spindle.healing.replica_index import ReplicaIndex, view_for_planning
from spindle.moves.journal import Move
from spindle.placement.planner import plan
from spindle.placement.problem import Goals
from spindle.placement.snapshot import SnapshotError
from spindle.placement.sources import from_view


def plan_backfill(
    view: KafkaView,
    new: Collection[tuple[int, str]],
    under_way: Sequence[Move] = (),
    *,
    avoid: Collection[tuple[int, str]] = (),
    closed: Collection[tuple[int, str]] = (),
    incoming_limit: float = 0.9,
) -> tuple[Move, ...] | None:
    """Moves onto new disks, those from other disks of the same broker first; None while nothing can be planned.

    A partition that is in motion may be among them: it comes when its other replica has landed, and until then the disk is not full.

    Args:
        view: what Kafka says now.
        new: (broker, path) of the dirs that are to be filled.
        under_way: the journal's moves; what they bring is there already, as far as the plan goes.
        avoid: dirs that are bad.
        closed: dirs that are to take nothing.
        incoming_limit: rule 4.
    """
    if not new:
        return ()
    if not ReplicaIndex(view).known:
        return None
    try:
        shown = view_for_planning(after_moves(view, under_way), frozenset(avoid), frozenset(closed))
        snapshot = from_view(shown)
    except SnapshotError:
        return None
    # A plan that is under way is at the end of what the search finds: to look at it again in each pass would only cost.
    search = not any((move.target, move.to_dir) in new for move in under_way)
    goals = Goals(
        leader_band=None, incoming_limit=incoming_limit, mark=incoming_limit, search=search, brief=True
    )
    found = plan(snapshot, goals)
    s, moves = snapshot, []
    for replica, source, target in zip(
        found.replica.tolist(), found.source.tolist(), found.target.tolist(), strict=True
    ):
        at, to = int(s.broker[s.dir_broker[source]]), int(s.broker[s.dir_broker[target]])
        move = Move(s.topic_name(replica), int(s.partition[replica]), at, s.dir_name[source], to,
                    s.dir_name[target], int(s.size[replica]), "fill")  # fmt: skip
        if (to, move.to_dir) in new and (at, move.from_dir) not in avoid:
            moves.append(move)
    return tuple(sorted(moves, key=lambda move: not move.within))
