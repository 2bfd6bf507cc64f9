"""Where replicas of disks that fill can go: the planner's choice, between the disks of a broker first, then across brokers.

The planner counts replicas only. So each dir is shown to it with the room that Kafka may fill there, which is its level less what is
not Kafka's, and moves that are under way count as done: what a disk is about to lose is not taken from it twice.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spindle.cluster.view import KafkaView, LogDir
from spindle.healing.after_moves import after_moves
from spindle.healing.replica_index import ReplicaIndex, view_for_planning
from spindle.moves.journal import Move
from spindle.placement.planner import PlacementPlan, plan
from spindle.placement.problem import Goals
from spindle.placement.snapshot import SnapshotError
from spindle.placement.sources import from_view
from spindle.placement.state import MoveReason

Place = tuple[int, str]  # broker, path

OFFLOAD: Final = "relieve"
_MARK: Final = 0.5  # the share of what is shown as a dir's capacity that Kafka may fill; any will do that leaves headroom


@dataclass(frozen=True)
class OffloadPlan:
    """Moves that bring disks below their levels.

    Attributes:
        stuck: (broker, path) of disks that no move, planned or under way, relieves.
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
    """Plan what leaves disks that are too full.

    Args:
        view: what Kafka says now.
        full: the disks to be relieved.
        room: bytes of replicas that each disk is to hold at most; disks without an entry take nothing.
        under_way: the journal's moves.
        avoid: dirs that are bad.
        closed: dirs that are to take nothing.
        agents: brokers whose agent can move replicas between their disks.
        search: whether to look for the cheapest of all ways; not of use while one is under way.
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
    """Each dir as large as makes its room the planner's mark."""
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
    """A dir that others have filled is shown as full of replicas: half of them are to leave, and none comes."""
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
            continue  # not asked for here
        at, to = int(s.broker[s.dir_broker[source]]), int(s.broker[s.dir_broker[target]])
        moves.append(
            Move(s.topic_name(replica), int(s.partition[replica]), at, s.dir_name[source], to, s.dir_name[target],
                 int(s.size[replica]), OFFLOAD)
        )  # fmt: skip
    return sorted(moves, key=lambda move: not move.within)
