"""Replicas that leave their partitions for good, because a topic is to have fewer.

A removal copies nothing: Kafka completes it at once if all remaining replicas are in sync. It is recorded first, so that another operator knows that it is
Spindle's own, and asks for the very same again; the record ends when Kafka no longer shows the replica. A removal that cannot complete, or that
is not wanted any more, is cancelled.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from spindle.model.racks import PlacementError, count_racks, rack_of
from spindle.model.view import Partition
from spindle.model.waiting import Waiting
from spindle.moves import rules
from spindle.moves.journal import Journal, Move, RemovedReplica
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.moves.signals import MoveSignals
from spindle.moves.verify import may_cancel

_NONE: Final = MoveSignals()
_NO_ORDERS: Final[Mapping[PartitionKey, tuple[int, ...]]] = {}
_REMEMBERED: Final = 60.0  # seconds
_MOST: Final = 500  # in progress at a time
_MOST_RECORDED: Final = 5_000  # they share the journal's room with the moves
_MIN_ISR: Final = 2
_RACKS: Final = 3


@dataclass
class Removals:
    """The removals of one step of the executor.

    Attributes:
        standing: those that stay recorded.
        keys: partitions that Kafka shows with a replica that leaves.
        again: (topic, partition, replicas that remain) of recorded removals to ask Kafka for again; None for replicas cancels one.
        begun: the same of new ones.
        fresh: the new ones.
    """

    standing: list[RemovedReplica] = field(default_factory=list)
    keys: set[PartitionKey] = field(default_factory=set)
    again: list[tuple[str, int, tuple[int, ...] | None]] = field(default_factory=list)
    begun: list[tuple[str, int, tuple[int, ...] | None]] = field(default_factory=list)
    fresh: list[RemovedReplica] = field(default_factory=list)


def step_removals(
    look: KafkaIndex,
    recorded: Sequence[RemovedReplica],
    asked: Iterable[RemovedReplica] = (),
    busy: Collection[PartitionKey] = (),
    signals: MoveSignals = _NONE,
    before: Mapping[PartitionKey, tuple[int, ...]] = _NO_ORDERS,
) -> Removals:
    """Follow the recorded removals, and begin those that may begin.

    Args:
        look: the state of Kafka; brokers and partitions must be known.
        recorded: removals of the journal.
        asked: removals that are wanted now.
        busy: partitions that are being moved, or that lose a replica for another reason; their removals wait.
        signals: the time, and which brokers are down or being taken down.
        before: partition → the order of its replicas, where Spindle has changed that for a while.
    """
    found, wanted = Removals(), {entry.key: entry for entry in asked}
    shown = Counter(entry.key for entry in recorded if _shows(look, entry))
    for entry in recorded:
        partition = look.partitions.get(entry.key)
        if partition is None:
            continue
        older = shown[entry.key] > 1 and not partition.removing
        later = entry.key in busy and not (partition.adding or partition.removing)
        if entry.broker not in partition.replicas or older or later:
            # It has left. Of several, one has left before the other was begun: then this view is older than that, and nothing is asked for.
            # Nor is anything while another replica of the partition moves or leaves: one that was never asked for is begun anew after that.
            found.standing += [entry] if signals.now < entry.until else []
            continue
        other = wanted.get(entry.key)
        again = other is not None and other.broker == entry.broker
        staying = _in_order(partition, entry.broker, before.get(entry.key, ()))
        _follow(look, entry, partition, staying, again, signals, found)
    for entry in wanted.values():
        partition = look.partitions.get(entry.key)
        if entry.key in shown or entry.key in busy or partition is None:
            continue
        if len(found.keys) >= _MOST or len(found.standing) >= _MOST_RECORDED:
            continue
        if entry.broker not in partition.replicas or may_remove(look, partition, entry.broker, signals.down):
            continue
        noted = replace(entry, until=signals.now + _REMEMBERED)
        found.standing.append(noted)
        found.fresh.append(noted)
        found.keys.add(entry.key)
        found.begun.append((*entry.key, _in_order(partition, entry.broker, before.get(entry.key, ()))))
    return found


def _shows(look: KafkaIndex, entry: RemovedReplica) -> bool:
    """Whether Kafka shows the replica still, or again."""
    partition = look.partitions.get(entry.key)
    return partition is not None and entry.broker in partition.replicas


def _follow(
    look: KafkaIndex,
    entry: RemovedReplica,
    partition: Partition,
    staying: tuple[int, ...],
    wanted: bool,
    signals: MoveSignals,
    found: Removals,
) -> None:
    """One recorded removal whose replica Kafka still shows."""
    moving = partition.adding or partition.removing
    if partition.removing == (entry.broker,) and not partition.adding:
        # Kafka checks whether it is complete only when something of the partition changes.
        completes = wanted and set(staying) <= set(partition.isr)
        if completes or may_cancel(partition):
            found.again.append((*entry.key, staying if completes else None))
    elif not moving and wanted and may_remove(look, partition, entry.broker, signals.down) is None:
        # It was not asked for, or this view is older than the removal: then asking again changes nothing.
        found.again.append((*entry.key, staying))
    else:
        return
    found.standing.append(entry)
    found.keys.add(entry.key)


def losing(
    journal: Journal | None, partitions: Mapping[PartitionKey, Partition]
) -> dict[PartitionKey, Partition]:
    """The partitions that are about to lose a replica for good, as they are now.

    Args:
        journal: None if it cannot be read.
        partitions: the current partitions.
    """
    found = {}
    for entry in journal.removed if journal is not None else ():
        partition = partitions.get(entry.key)
        if partition is not None and entry.broker in partition.replicas:
            found[entry.key] = partition
    return found


def may_remove(
    look: KafkaIndex, partition: Partition, broker: int, down: AbstractSet[int] = frozenset()
) -> Waiting | None:
    """Why a replica must not be removed for good now; None if it may.

    All other replicas are in sync, on live dirs of brokers that stay up, and at least min.insync.replicas ("no restart below min.insync.replicas",
    `docs/safety.md`, rule 2); they stay on as many racks as the partition is on, or each on a rack of its own ("no rack lost", rule 3). Nobody else
    reassigns the partition ("no conflicting move", rule 6). A broker with a hung disk may be in the ISR, and lead: one that does not show its dirs does
    not count.

    Args:
        look: the state of Kafka.
        partition: the partition.
        broker: broker of the replica.
        down: brokers that are down or being taken down, whether or not Kafka has noticed yet.
    """
    move = Move(partition.topic, partition.index, broker, None, broker, "", 0)
    if refusal := rules.undisturbed(look, move, partition):
        return refusal
    least = (look.view.min_isr or {}).get(partition.topic)
    if least is None:
        return Waiting.refused(
            rule=_MIN_ISR,
            reason="MinIsrUnknown",
            message=f"min.insync.replicas of {partition.name} is unknown.",
            unblocked_by="Spindle continues when Kafka answers DescribeConfigs for the topic.",
            objects=(partition.name,),
        )
    staying = _without(partition, broker)
    if refusal := _loses_rack(look, partition, staying):
        return refusal
    able = [
        b for b in staying if b in partition.isr and b not in down and look.up(b) and look.live(b, partition)
    ]
    if len(able) == len(staying) >= max(1, least):
        return None
    return Waiting.refused(
        rule=_MIN_ISR,
        reason="ReplicaRemovalPending",
        message=f"The replica of {partition.name} on broker {broker} is not removed yet: of the others ({', '.join(map(str, staying)) or 'none'}), "
        f"{len(able)} are in sync on brokers that answer and stay up, and all of them have to be, at least min.insync.replicas ({least}).",
        unblocked_by="Bring the other replicas back in sync, and uncordon the nodes of their brokers. Spindle continues by itself when brokers that are "
        "restarting are back.",
        objects=(partition.name,),
    )


def _loses_rack(look: KafkaIndex, partition: Partition, staying: Collection[int]) -> Waiting | None:
    """Whether another choice would leave the remaining replicas on more racks."""
    try:
        racks = rack_of({b: broker.rack for b, broker in look.brokers.items()})
    except PlacementError as error:
        return Waiting.refused(
            rule=_RACKS,
            reason="MixedRacks",
            message=f"It is unknown whether {partition.name} keeps its racks: {error}.",
            unblocked_by="Give every broker a rack, or give none of them one.",
            objects=(partition.name,),
        )
    after, best = count_racks(staying, racks), min(len(staying), count_racks(partition.replicas, racks))
    if after >= best:
        return None
    return Waiting.refused(
        rule=_RACKS,
        reason="WouldReduceRackSpread",
        message=f"{partition.name} would keep replicas on {after} racks, and {best} are possible.",
        unblocked_by="Nothing to do: Spindle removes another replica.",
        objects=(partition.name,),
    )


def _in_order(partition: Partition, broker: int, before: tuple[int, ...]) -> tuple[int, ...]:
    """The remaining replicas, preferred leader first."""
    order = before if set(before) == set(partition.replicas) else partition.replicas
    return tuple(b for b in order if b != broker)


def _without(partition: Partition, broker: int) -> tuple[int, ...]:
    return tuple(b for b in partition.replicas if b != broker)
