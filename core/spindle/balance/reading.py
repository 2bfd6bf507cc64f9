"""Converts a picture to the planner's input.

The operator itself handles bad disks, drains and added disks; a proposal only balances. So these partitions stay as
they are: those with a replica on a broker that did not answer ("unknown is not absent", docs/safety.md) or on a disk that is bad or being evacuated, and
those being moved. Disks that are cordoned, slow, too full or new receive nothing, but can give replicas above their band.

Disks count with their real usage: data that belongs to no replica, and data that running moves will still add, counts as a log that stays.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from spindle.api import quantity
from spindle.api.enums import DiskState
from spindle.api.thresholds import UsageLevel
from spindle.balance.picture import DirPlace, Picture, PlaceKey
from spindle.model.bounds import BY_LABEL, disk_bounds
from spindle.model.replica_index import ReplicaIndex, view_for_planning
from spindle.model.view import Broker, KafkaView, LogDir
from spindle.model.waiting import counted, some
from spindle.moves.kafka_index import Incoming, KafkaIndex
from spindle.planner.problem import Goals, PlanBudget
from spindle.planner.snapshot import PlannerSnapshot, SnapshotError
from spindle.planner.sources import from_view

_BAD: Final = frozenset({DiskState.FAILED, DiskState.EVACUATING, DiskState.EVACUATED})
_LEAVING: Final = frozenset({DiskState.DRAINING, DiskState.DRAINED, DiskState.REMOVED})
_NEW: Final = frozenset({DiskState.PROVISIONING, DiskState.REPLACING, DiskState.BACKFILLING})
_NOT_ASKED: Final = "(not asked)"


@dataclass(frozen=True)
class Reading:
    """The planner's input.

    Attributes:
        notes: what is excluded and why, one sentence each.
        silent: brokers that did not answer.
        slow: dirs that receive nothing because they are slow.
        refusal: why no plan is possible; then there is no snapshot.
    """

    snapshot: PlannerSnapshot | None
    goals: Goals
    budget: PlanBudget
    notes: tuple[str, ...] = ()
    silent: tuple[int, ...] = ()
    slow: frozenset[DirPlace] = frozenset()
    refusal: str = ""


def read(picture: Picture, slow: Collection[DirPlace] = ()) -> Reading:
    """Make the planner's snapshot, goals and budget.

    Args:
        picture: the cluster's state.
        slow: dirs that are slow according to the history; those reported by agents are in the picture.
    """
    goals, budget = _goals(picture), _budget(picture)
    standing = ReplicaIndex(picture.kafka)
    if not standing.known:
        refusal = picture.kafka.error or "Kafka's brokers or partitions could not be read"
        return Reading(None, goals, budget, refusal=refusal)
    silent = tuple(sorted(b for b, broker in standing.brokers.items() if _is_silent(broker)))
    if len(silent) == len(standing.brokers):
        return Reading(None, goals, budget, silent=silent, refusal="no broker reported its log dirs")
    places = _Places(picture, frozenset(slow))
    stay = _staying(picture, standing, silent, places)
    shown = view_for_planning(_with_silent(picture.kafka, standing, silent), places.bad, places.shut, dead=())
    try:
        snapshot = from_view(
            shown,
            draining=places.leaving,
            frozen=frozenset().union(*stay.values()),
            reserved=_reserved(picture, goals, silent),
        )
    except SnapshotError as error:
        return Reading(None, goals, budget, silent=silent, refusal=str(error))
    notes = [
        f"{counted(len(keys), 'partition')} stay as they are: {why}" for why, keys in stay.items() if keys
    ]
    if places.slow:
        named = some([f"broker {b} {path}" for b, path in sorted(places.slow)])
        notes.append(f"slow disks receive nothing: {named}")
    return Reading(snapshot, goals, budget, tuple(notes), silent, places.slow)


class _Places:
    """Log dirs by what may be done with them."""

    def __init__(self, picture: Picture, slow: frozenset[DirPlace]) -> None:
        bad, leaving, shut, slow_ones = set[DirPlace](), set[DirPlace](), set[DirPlace](), set(slow)
        for broker in picture.brokers:
            for disk in broker.disks:
                at = broker.id, disk.path
                if disk.state in _BAD:
                    bad.add(at)
                elif disk.state in _LEAVING or disk.drained or disk.mode == "Absent":
                    leaving.add(at)
                elif (
                    disk.state in _NEW
                    or disk.state == DiskState.CORDONED
                    or disk.cordoned
                    or BY_LABEL.get(disk.level, UsageLevel.NORMAL) >= UsageLevel.CORDON
                ):
                    shut.add(at)
                if disk.slow:
                    slow_ones.add(at)
        for b, known in (picture.kafka.brokers or {}).items():
            bad |= {(b, d.path) for d in known.log_dirs or () if d.error}
        self.bad, self.leaving = frozenset(bad), frozenset(leaving - bad)
        self.slow = frozenset(slow_ones - bad)
        self.shut = frozenset(shut | self.slow)


def _staying(
    picture: Picture, standing: ReplicaIndex, silent: Collection[int], places: _Places
) -> dict[str, frozenset[PlaceKey]]:
    """Excluded partitions by reason; each counts for the first reason only."""
    partitions = standing.partitions.values()
    unheard = {(p.topic, p.index) for p in partitions if not set(silent).isdisjoint(p.replicas)}
    sick: set[PlaceKey] = set()
    for b, path in places.bad | places.leaving:
        if b not in silent and b in standing.brokers:
            sick |= standing.on(b, path) or frozenset()
    moving = {key for b in picture.brokers for key in b.moving}
    moving |= {(p.topic, p.index) for p in partitions if p.adding or p.removing}
    moving |= {
        key for broker in standing.brokers.values() for d in broker.log_dirs or () for key in d.futures
    }
    named = f"broker {some([str(b) for b in silent])} did not answer"
    return {
        f"{named}, and unknown is not absent": frozenset(unheard),
        "one of their disks is bad or being evacuated, which has priority": frozenset(sick - unheard),
        "they are being moved": frozenset((moving & standing.partitions.keys()) - unheard - sick),
    }


def _is_silent(broker: Broker) -> bool:
    return broker.log_dirs is None or not broker.log_dirs or bool(broker.fenced)


def _with_silent(view: KafkaView, standing: ReplicaIndex, silent: Collection[int]) -> KafkaView:
    """Represent each broker that did not answer with one dir that holds the replicas assigned in the metadata, with the average usage of the others.

    So they neither receive nor give replicas, and do not change the mean of the others.
    """
    if not silent:
        return view
    used = capacity = 0
    for b, broker in standing.brokers.items():
        for d in broker.log_dirs or () if b not in silent else ():
            if not d.error and d.total_bytes:
                used, capacity = used + sum(d.replicas.values()), capacity + d.total_bytes
    fill = used / capacity if used and capacity else 1.0
    brokers = dict(standing.brokers)
    for b in silent:
        held = {(p.topic, p.index): standing.size((p.topic, p.index)) for p in standing.assigned.get(b, ())}
        total = max(1, int(sum(held.values()) / fill))
        one = LogDir(_NOT_ASKED, 0, total, total, cordoned=True, replicas=held)
        brokers[b] = replace(brokers[b], log_dirs=(one,))
    return replace(view, brokers=brokers)


def _reserved(picture: Picture, goals: Goals, silent: Collection[int]) -> Mapping[DirPlace, int]:
    """Bytes on each dir that belong to no replica: other files, data still to come, and space that a stricter threshold keeps free."""
    look = KafkaIndex(picture.kafka)
    incoming = Incoming(look, ())
    known = {b.id for b in picture.brokers}
    found: dict[DirPlace, int] = {}
    for b, broker in look.brokers.items():
        marks = picture.thresholds(b) if b in known else None
        for d in broker.log_dirs or () if b not in silent else ():
            if d.error or not d.total_bytes:
                continue
            held = sum(d.replicas.values())
            size = d.other_bytes + max(0, incoming.to(b, d.path))
            if marks is not None:
                reject = disk_bounds(d.total_bytes, marks).at(UsageLevel.REJECT_MOVES).enter
                size += max(0, int(goals.incoming_limit * d.total_bytes) - reject)
            if size := min(size, max(0, d.total_bytes - held)):
                found[b, d.path] = size
    return found


def _goals(picture: Picture) -> Goals:
    """The marks come from the usage thresholds, so that a plan leaves no dir above the level at which the operator moves replicas away."""
    marks = [picture.policy.disks.thresholds, *(picture.thresholds(b.id) for b in picture.brokers)]
    limit = max(m.reject_moves for m in marks) / 100
    return Goals(mark=min(limit, max(m.move for m in marks) / 100), incoming_limit=limit)


def _budget(picture: Picture) -> PlanBudget:
    policy = picture.policy
    minutes, most = policy.rebalance.max_duration_minutes, policy.rebalance.max_bytes
    return PlanBudget(
        max_bytes=None if most is None else float(quantity.whole(most)),
        max_seconds=None if minutes is None else 60.0 * minutes,
        bytes_per_second=float(policy.disks.move_bytes_per_second),
    )
