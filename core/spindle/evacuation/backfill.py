"""How a new disk is backfilled: with the moves of a balanced plan that go to it."""

from collections.abc import Collection, Sequence

from spindle.evacuation.after_moves import after_moves
from spindle.model.replica_index import ReplicaIndex, view_for_planning
from spindle.model.view import KafkaView
from spindle.moves.journal import BACKFILL, Move
from spindle.planner.planner import plan
from spindle.planner.problem import Goals
from spindle.planner.snapshot import SnapshotError
from spindle.planner.sources import from_view


def plan_backfill(
    view: KafkaView,
    new: Collection[tuple[int, str]],
    under_way: Sequence[Move] = (),
    *,
    avoid: Collection[tuple[int, str]] = (),
    closed: Collection[tuple[int, str]] = (),
    incoming_limit: float = 0.9,
) -> tuple[Move, ...] | None:
    """Moves to new disks, those from other disks of the same broker first; None while nothing can be planned.

    Partitions with a move in progress may be included: their move starts when their other replica has arrived; until then the backfill is not complete.

    Args:
        view: the current state of Kafka.
        new: (broker, path) of the dirs to backfill.
        under_way: the journal's moves; the plan treats them as completed.
        avoid: dirs that are bad.
        closed: dirs that accept no replicas.
        incoming_limit: maximum usage after a move, as a share: "no overfull target" (`docs/safety.md`, rule 4).
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
    # While a plan is being executed, the search finds nothing new: repeating it in each pass would only cost time.
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
                    s.dir_name[target], int(s.size[replica]), BACKFILL)  # fmt: skip
        if (to, move.to_dir) in new and (at, move.from_dir) not in avoid:
            moves.append(move)
    return tuple(sorted(moves, key=lambda move: not move.within))
