"""Restores the rack spread of partitions that healing crowded onto too few racks: one replica of each moves to a rack that it lacks.

The planner changes nothing else in this plan. The executor checks "no rack lost", "no overfull target" and "no conflicting move"
(`docs/safety.md`, rules 3, 4 and 6) again for each move that it starts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from spindle.evacuation.evacuate import other_files
from spindle.model.racks import PlacementError, count_racks, rack_of, wanted_racks
from spindle.model.replica_index import Key, ReplicaIndex, view_for_planning
from spindle.model.view import KafkaView, Partition
from spindle.moves.journal import SPREAD, Move
from spindle.moves.spread_violations import SpreadViolation
from spindle.planner.planner import PlacementPlan, plan
from spindle.planner.problem import Goals
from spindle.planner.snapshot import SnapshotError
from spindle.planner.sources import from_view


def restore_rack_spread(
    view: KafkaView,
    crowded: Sequence[SpreadViolation],
    *,
    avoid: Collection[tuple[int, str]] = (),
    closed: Collection[tuple[int, str]] = (),
    incoming_limit: float = 0.9,
) -> tuple[Move, ...]:
    """Moves that each bring a crowded partition onto one more rack; none if that is unknown or not possible now.

    Args:
        view: the current state of Kafka.
        crowded: the partitions that healing crowded, as recorded by the executor.
        avoid: (broker, path) of dirs that are bad.
        closed: dirs that accept no replicas.
        incoming_limit: share of a dir above which nothing may be moved in: "no overfull target" (`docs/safety.md`, rule 4).
    """
    replica_index = ReplicaIndex(view)
    if not replica_index.known:
        return ()
    try:
        racks = rack_of({i: broker.rack for i, broker in replica_index.brokers.items()})
        wanted = _could_be_better(replica_index, crowded, racks)
        if not wanted:
            return ()
        shown = view_for_planning(view, frozenset(avoid), frozenset(closed))
        stay = replica_index.partitions.keys() - wanted
        snapshot = from_view(shown, frozen=stay, reserved=other_files(shown, frozenset()))
    except (SnapshotError, PlacementError):
        return ()
    goals = Goals(balance=False, leader_band=None, incoming_limit=incoming_limit, mark=incoming_limit)
    return tuple(_first_of_each(_gains(plan(snapshot, goals), replica_index, racks)))


def _could_be_better(
    replica_index: ReplicaIndex, crowded: Iterable[SpreadViolation], racks: Mapping[int, str]
) -> set[Key]:
    """Partitions on fewer racks than before although more racks are up; those being reassigned follow later."""
    up = {racks[i] for i, broker in replica_index.brokers.items() if broker.fenced is False}
    found = set()
    for entry in crowded:
        partition = replica_index.partitions.get(entry.key)
        if partition is None or partition.adding or partition.removing:
            continue
        best = min(entry.racks, wanted_racks(len(partition.replicas), len(up)))
        if count_racks(partition.replicas, racks) < best:
            found.add(entry.key)
    return found


def _gains(found: PlacementPlan, replica_index: ReplicaIndex, racks: Mapping[int, str]) -> Iterable[Move]:
    """The planner's moves that bring a partition onto one more rack."""
    s = found.problem.snapshot
    for replica, source, target in zip(
        found.replica.tolist(), found.source.tolist(), found.target.tolist(), strict=True
    ):
        at, to = int(s.broker[s.dir_broker[source]]), int(s.broker[s.dir_broker[target]])
        key = (s.topic_name(replica), int(s.partition[replica]))
        if _racks_after(replica_index.partitions[key], at, to, racks) > count_racks(
            replica_index.partitions[key].replicas, racks
        ):
            size = int(s.size[replica])
            yield Move(*key, at, s.dir_name[source], to, s.dir_name[target], size, SPREAD)


def _racks_after(partition: Partition, source: int, target: int, racks: Mapping[int, str]) -> int:
    return count_racks(set(partition.replicas) - {source} | {target}, racks)


def _first_of_each(moves: Iterable[Move]) -> Iterable[Move]:
    """The first move of each partition; the next one is planned when it has completed.

    See "no conflicting move" (`docs/safety.md`, rule 6).
    """
    seen: set[Key] = set()
    for move in moves:
        if move.key not in seen:
            seen.add(move.key)
            yield move
