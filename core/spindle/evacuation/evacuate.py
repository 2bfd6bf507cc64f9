"""Plans where the replicas of bad disks go, with the planner; nothing is balanced at the same time.

Replicas on a dead dir or on a lost broker are copied from their other replicas; replicas on a dir that only has to be
emptied may also go to another dir of the same broker. The planner respects "no rack lost", "no overfull target" and "no conflicting move"
(`docs/safety.md`, rules 3, 4 and 6); the executor checks them again for each move that it starts.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from spindle.model.replica_index import Key, ReplicaIndex, view_for_planning
from spindle.model.view import KafkaView
from spindle.moves.journal import EVACUATE, Move
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals
from spindle.planner.snapshot import SnapshotError
from spindle.planner.sources import from_view


@dataclass(frozen=True)
class Evacuation:
    """Moves that empty bad disks, those of partitions with the fewest remaining copies first.

    Attributes:
        problem: why nothing could be planned, as a clause; None if it could.
    """

    moves: tuple[Move, ...] = ()
    problem: str | None = None


def evacuate(
    view: KafkaView,
    bad: Collection[tuple[int, str]],
    draining: Collection[tuple[int, str]] = (),
    lost: Collection[int] = (),
    *,
    avoid: Collection[tuple[int, str]] = (),
    closed: Collection[tuple[int, str]] = (),
    incoming_limit: float = 0.9,
) -> Evacuation:
    """Plan how disks are emptied.

    Args:
        view: the current state of Kafka.
        bad: (broker, path) of dirs that cannot be read, whether or not Kafka has noticed.
        draining: (broker, path) of dirs that work and are to be emptied.
        lost: brokers that are lost, with all their replicas.
        avoid: further dirs that are bad, but are not to be emptied now.
        closed: dirs that accept no replicas.
        incoming_limit: share of a dir above which nothing may be moved in: "no overfull target" (`docs/safety.md`, rule 4).
    """
    if not (bad or draining or lost):
        return Evacuation()
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return Evacuation(problem=replica_index.problem)
    try:
        shown = view_for_planning(view, frozenset({*bad, *avoid}), frozenset(closed), frozenset(lost))
        snapshot = from_view(
            shown, dead=lost, draining=frozenset(draining), reserved=other_files(shown, frozenset(draining))
        )
    except SnapshotError as error:
        return Evacuation(problem=str(error))
    goals = Goals(balance=False, leader_band=None, incoming_limit=incoming_limit, mark=incoming_limit)
    # It is unknown which of a broker's dead dirs holds a replica, so the planner may name one that is not among these.
    standing = {(broker, key) for broker, path in bad for key in replica_index.on(broker, path) or ()}
    made = _moves(plan(snapshot, goals), standing, frozenset(draining), frozenset(lost))
    return Evacuation(_in_order(_unchained(made), replica_index))


def _unchained(moves: list[Move]) -> list[Move]:
    """Each chain of a partition (from broker 2 to 1, and from 1 to 5) as the one move that can start now (from 2 to 5).

    The planner only compares the assignments before and after. The replica in the middle, also on a bad disk, is planned anew after that.
    """
    leaving = {(move.key, move.source): move for move in moves if not move.within}
    entered = {(move.key, move.target) for move in leaving.values()}
    made = []
    for move in moves:
        if not move.within and (move.key, move.source) in entered:
            continue
        last = move
        while not last.within and (following := leaving.get((move.key, last.target))) is not None:
            last = following
        made.append(replace(move, target=last.target, to_dir=last.to_dir))
    return made


def _in_order(moves: list[Move], replica_index: ReplicaIndex) -> tuple[Move, ...]:
    """Partitions with the fewest remaining copies first; of each, replicas that are not in sync first.

    Only one replica of a partition is moved at a time, and while others are missing, one that is in sync must stay.
    """
    left: dict[Key, int] = {}
    for move in moves:
        copies = replica_index.copies(move.key, -1 if move.source is None else move.source)
        left[move.key] = min(copies, left.get(move.key, copies))
    isr = {key: replica_index.partitions[key].isr for key in left}
    return tuple(sorted(moves, key=lambda move: (left[move.key], move.source in isr[move.key])))


def other_files(view: KafkaView, draining: frozenset[tuple[int, str]]) -> dict[tuple[int, str], int]:
    """Bytes on dirs that belong to no replica: the executor counts them when a move starts, so the plan must count them too.

    See "no overfull target" (`docs/safety.md`, rule 4). A dir that is to be emptied accepts no replicas, so its other files do not matter.
    """
    return {
        (broker.id, d.path): d.other_bytes
        for broker in (view.brokers or {}).values()
        for d in broker.log_dirs or ()
        if d.other_bytes and not d.error and (broker.id, d.path) not in draining
    }


def _moves(
    found: PlacementPlan,
    standing: Collection[tuple[int, Key]],
    draining: Collection[tuple[int, str]],
    lost: Collection[int],
) -> list[Move]:
    """The planner's moves off these dirs and brokers; others (to restore rack spread) are not requested here."""
    s = found.problem.snapshot
    moves = []
    for replica, source, target in zip(
        found.replica.tolist(), found.source.tolist(), found.target.tolist(), strict=True
    ):
        at = int(s.broker[s.dir_broker[source]])
        key = (s.topic_name(replica), int(s.partition[replica]))
        drained = (at, s.dir_name[source]) in draining
        if at not in lost and not drained and (at, key) not in standing:
            continue
        to = int(s.broker[s.dir_broker[target]])
        moves.append(
            Move(
                topic=key[0],
                partition=key[1],
                source=at,
                from_dir=None if at in lost else s.dir_name[source],
                target=to,
                to_dir=s.dir_name[target],
                bytes=int(s.size[replica]),
                reason="drain" if drained else EVACUATE,
            )
        )
    return moves
