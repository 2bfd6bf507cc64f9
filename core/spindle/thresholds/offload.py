"""Where replicas of nearly full disks can go: the planner's choice, to other disks of the same broker first, then to other brokers.

The planner only counts replicas. So the capacity of each dir is given to it as the space that Kafka may use there, which is its threshold minus
other files, and moves in progress count as done, so that nothing is moved off a disk twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spindle.evacuation.after_moves import after_moves
from spindle.model.replica_index import ReplicaIndex, view_for_planning
from spindle.model.view import KafkaView, LogDir
from spindle.moves.journal import Move
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals
from spindle.planner.snapshot import SnapshotError
from spindle.planner.sources import from_view
from spindle.planner.state import MoveReason

Place = tuple[int, str]  # broker, path

OFFLOAD: Final = "relieve"
_MARK: Final = 0.5  # share of a dir's given capacity that Kafka may use; any value with headroom works


@dataclass(frozen=True)
class OffloadPlan:
    """Moves that bring disks below their thresholds.

    Attributes:
        stuck: (broker, path) of disks that no move, planned or in progress, relieves.
        problem: why nothing could be planned, as a clause; None if it could.
    """

    moves: tuple[Move, ...] = ()
    stuck: frozenset[Place] = frozenset()
    problem: str | None = None


def plan_offload(
    view: KafkaView,
    full: Collection[Place],
    room: Mapping[Place, int],
    under_way: Sequence[Move] = (),
    *,
    avoid: Collection[Place] = (),
    closed: Collection[Place] = (),
    agents: Collection[int] = (),
    search: bool = True,
) -> OffloadPlan:
    """Plan moves off disks that are too full.

    Args:
        view: the current state of Kafka.
        full: the disks to be relieved.
        room: maximum bytes of replicas for each disk; disks without an entry accept nothing.
        under_way: the journal's moves.
        avoid: dirs that are bad.
        closed: dirs that accept no replicas.
        agents: brokers whose agent can move replicas between their disks.
        search: whether to search for the cheapest plan; it is useless while a plan is being executed.
    """
    if not full:
        return OffloadPlan()
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return OffloadPlan(problem=replica_index.problem)
    shut = frozenset({*closed, *(p for p in _places(view) if p not in room and p not in full)})
    try:
        shown = view_for_planning(after_moves(view, under_way), frozenset(avoid), shut)
        snapshot = from_view(_with_room(shown, room))
    except SnapshotError as error:
        return OffloadPlan(problem=str(error))
    search = search and not any((move.source, move.from_dir) in full for move in under_way)
    goals = Goals(even=False, leader_band=None, mark=_MARK, incoming_limit=_MARK, search=search, brief=True)
    moving = {move.key for move in under_way}
    moves = tuple(
        move
        for move in _moves(plan(snapshot, goals))
        if (move.source, move.from_dir) in full
        and move.key not in moving
        and (not move.within or move.target in agents)
    )
    leaving = {(move.source, move.from_dir) for move in (*moves, *under_way)}
    return OffloadPlan(moves, frozenset(place for place in full if place not in leaving))


def _places(view: KafkaView) -> list[Place]:
    return [(i, d.path) for i, broker in (view.brokers or {}).items() for d in broker.log_dirs or ()]


def _with_room(view: KafkaView, room: Mapping[Place, int]) -> KafkaView:
    """Each dir with a capacity of which its room is the share `_MARK`."""
    brokers = {
        i: broker
        if broker.log_dirs is None
        else replace(
            broker,
            log_dirs=tuple(_sized(d, room[i, d.path]) if (i, d.path) in room else d for d in broker.log_dirs),
        )
        for i, broker in (view.brokers or {}).items()
    }
    return replace(view, brokers=brokers)


def _sized(log_dir: LogDir, room: int) -> LogDir:
    """A dir without room is presented as full of replicas: half of them should leave, and none may come."""
    held = sum(log_dir.replicas.values())
    shown = int(max(room, 1) / _MARK)
    if shown < held or room <= 0:
        return replace(log_dir, total_bytes=max(held, 1), cordoned=True)
    return replace(log_dir, total_bytes=shown)


def _moves(found: PlacementPlan) -> list[Move]:
    s = found.problem.snapshot
    moves = []
    for replica, source, target, reason in zip(
        found.replica.tolist(), found.source.tolist(), found.target.tolist(), found.reason.tolist(), strict=True
    ):  # fmt: skip
        if reason in (MoveReason.RACK, MoveReason.EVACUATE, MoveReason.DRAIN):
            continue  # not part of this plan
        at, to = int(s.broker[s.dir_broker[source]]), int(s.broker[s.dir_broker[target]])
        moves.append(
            Move(s.topic_name(replica), int(s.partition[replica]), at, s.dir_name[source], to, s.dir_name[target],
                 int(s.size[replica]), OFFLOAD)
        )  # fmt: skip
    return sorted(moves, key=lambda move: not move.within)
