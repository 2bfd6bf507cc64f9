"""Temporary leaders: changes the order of a partition's replicas and restores it when the cause is gone.

Kafka elects the first in-sync replica as the leader and returns to the preferred leader by itself every few minutes
(auto.leader.rebalance). So an election alone would not last, and Spindle changes the order: it is recorded first, and restored only if
no other client has changed it since. A partition that is being moved is not touched meanwhile ("no conflicting move", docs/safety.md).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from spindle.model.view import Partition
from spindle.model.waiting import counted, some
from spindle.moves.intents import ElectIntent, Intent, ReassignIntent
from spindle.moves.journal import LeadershipOverride
from spindle.moves.kafka_index import KafkaIndex, PartitionKey

Leads = Mapping[PartitionKey, int | None]


@dataclass(frozen=True)
class LeadershipResult:
    """The recorded orders of replicas, and the requests to Kafka.

    Attributes:
        orders: entries for the journal.
        intents: reassignments that only change the order, then elections.
    """

    orders: tuple[LeadershipOverride, ...] = ()
    intents: tuple[Intent, ...] = ()


def reconcile_leadership(
    look: KafkaIndex,
    standing: Iterable[LeadershipOverride],
    leads: Leads,
    busy: Collection[PartitionKey],
    most: int,
) -> LeadershipResult:
    """Change preferred leaders as requested, and restore those that are no longer requested.

    Args:
        look: the state of Kafka; brokers and partitions must be known.
        standing: recorded changes in the journal.
        leads: partition → its requested preferred leader; None to keep the current order.
        busy: partitions that are being moved or start to.
        most: maximum number of entries in the journal.
    """
    entries = {entry.key: entry for entry in standing}
    found = _Leadership(most)
    for key in sorted(entries.keys() | leads.keys()):
        partition, entry = look.partitions.get(key), entries.get(key)
        if partition is None:
            continue
        if key in busy or _moving(look, partition):
            found.keep(entry)
            continue
        if entry is not None and partition.replicas not in (entry.before, entry.ours, entry.was):
            entry = None  # another client has changed the order since
        if key in leads:
            found.lead(partition, entry, leads[key])
        elif entry is not None and partition.replicas != entry.before:
            found.put_back(partition, entry)
    return found.settled()


def set_preferred_leaders(
    look: KafkaIndex, leaders: Mapping[PartitionKey, int], busy: Collection[PartitionKey]
) -> tuple[Intent, ...]:
    """Change preferred leaders permanently: nothing is recorded or restored.

    The order is changed before the election, so that the controller that elects already knows it; a rejected request ends the
    reconciliation. A broker that is not in sync, or has no replica, is not made the preferred leader.

    Args:
        look: the state of Kafka; brokers and partitions must be known.
        leaders: partition → its preferred leader.
        busy: partitions that are being moved, or that have a temporary leader.
    """
    orders: dict[PartitionKey, tuple[int, ...]] = {}
    elected: list[PartitionKey] = []
    for key, broker in sorted(leaders.items()):
        partition = look.partitions.get(key)
        if partition is None or key in busy or _moving(look, partition) or broker not in partition.isr:
            continue
        if partition.replicas[:1] != (broker,):
            orders[key] = (broker, *(b for b in partition.replicas if b != broker))
        if partition.leader not in (None, broker):
            elected.append(key)
    named = some([f"{topic}-{index}" for topic, index in elected])
    message = f"{counted(len(elected), 'partition')} (the planned broker becomes the leader): {named}."
    elect = ElectIntent(partitions=tuple(elected), reason="LeadershipMoved", message=message)
    return (*_reorders(orders), *((elect,) if elected else ()))


class _Leadership:
    """Collects the results, partition by partition."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[LeadershipOverride] = []
        self.orders: dict[PartitionKey, tuple[int, ...]] = {}
        self.away: list[PartitionKey] = []
        self.back: list[PartitionKey] = []

    def keep(self, entry: LeadershipOverride | None) -> None:
        if entry is not None:
            self.kept.append(entry)

    def lead(self, partition: Partition, entry: LeadershipOverride | None, to: int | None) -> None:
        key, standing = (partition.topic, partition.index), partition.replicas
        wanted = standing if to is None else (to, *(b for b in standing if b != to))
        if wanted != standing and (entry is not None or len(self.kept) < self.most):
            known = entry or LeadershipOverride(*key, before=standing, ours=wanted)
            self.keep(replace(known, ours=wanted, was=standing))
            self.orders[key] = standing = wanted
        elif entry is not None and standing != entry.before:
            self.keep(entry)
        if to is not None and to == standing[0] and partition.leader not in (None, to):
            self.away.append(key)

    def put_back(self, partition: Partition, entry: LeadershipOverride) -> None:
        """Restore the order if the previous leader is in sync; the entry stays until Kafka shows the previous order."""
        self.keep(entry)
        if entry.before[0] in partition.isr:
            self.orders[entry.key] = entry.before
            self.back.append(entry.key)

    def settled(self) -> LeadershipResult:
        return LeadershipResult(
            tuple(self.kept), (*_reorders(self.orders), *_elections(self.away, self.back))
        )


def _moving(look: KafkaIndex, partition: Partition) -> bool:
    return bool(partition.adding or partition.removing) or look.future_anywhere(partition) is not None


def _reorders(orders: Mapping[PartitionKey, tuple[int, ...]]) -> tuple[ReassignIntent, ...]:
    return (
        (ReassignIntent(assignments=tuple((*key, order) for key, order in orders.items())),) if orders else ()
    )


def _elections(away: list[PartitionKey], back: list[PartitionKey]) -> tuple[ElectIntent, ...]:
    found = []
    for keys, reason, words in (
        (
            away,
            "LeadershipMoved",
            "another replica takes over, because the leader is on an unhealthy disk, its broker is being stopped, or a move lost the leader's epoch",
        ),
        (back, "LeadershipRestored", "the previous leader takes over again"),
    ):
        if keys:
            named = some([f"{topic}-{index}" for topic, index in keys])
            message = f"{counted(len(keys), 'partition')} ({words}): {named}."
            found.append(ElectIntent(partitions=tuple(keys), reason=reason, message=message))
    return tuple(found)
