"""Who leads, for a while: the order of a partition's replicas is changed, and put back when the cause is gone.

Kafka makes the first replica that is in sync the leader, and comes back to the first of all by itself every few minutes. So
an election alone would not last, and the order is what is changed: noted before it is, and put back only where it still is ours.
A partition that is being moved, by whomever, is left alone meanwhile (rule 6).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from spindle.cluster.view import Partition
from spindle.cluster.waiting import counted, some
from spindle.moves.intents import ElectIntent, Intent, ReassignIntent
from spindle.moves.journal import LeadershipOverride
from spindle.moves.kafka_index import KafkaIndex, PartitionKey

Leads = Mapping[PartitionKey, int | None]


@dataclass(frozen=True)
class LeadershipResult:
    """What is on record about orders, and what is to be done.

    Attributes:
        orders: for the journal.
        intents: reassignments that change nothing but the order, then elections.
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
    """Let others lead where that is wanted, and put back what is wanted no more.

    Args:
        look: what Kafka says. Brokers and partitions are known.
        standing: what the journal says that we changed.
        leads: partition → the broker that is to be its preferred leader; None to leave it as it stands.
        busy: partitions that are being moved, or begin to.
        most: entries of the journal.
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
            entry = None  # somebody else's by now
        if key in leads:
            found.lead(partition, entry, leads[key])
        elif entry is not None and partition.replicas != entry.before:
            found.put_back(partition, entry)
    return found.settled()


def set_preferred_leaders(
    look: KafkaIndex, leaders: Mapping[PartitionKey, int], busy: Collection[PartitionKey]
) -> tuple[Intent, ...]:
    """Make others the preferred leaders, for good: nothing of it is on record, and nothing is put back.

    First the order, then the election: the controller that is asked to elect has taken the order before, and one that it turns down ends
    the pass. Who is not in sync, or holds no replica, is made nothing.

    Args:
        look: what Kafka says. Brokers and partitions are known.
        leaders: partition → who is to be its preferred leader.
        busy: partitions that are being moved, or that others lead for a while.
    """
    orders: dict[PartitionKey, tuple[int, ...]] = {}
    elected: list[PartitionKey] = []
    for key, broker in sorted(leaders.items()):
        partition = look.partitions.get(key)
        if partition is None or key in busy or _moving(look, partition) or broker not in partition.isr:
            continue
        if partition.replicas[0] != broker:
            orders[key] = (broker, *(b for b in partition.replicas if b != broker))
        if partition.leader not in (None, broker):
            elected.append(key)
    named = some([f"{topic}-{index}" for topic, index in elected])
    message = f"{counted(len(elected), 'partition')} (led by the broker that the plan chose): {named}."
    elect = ElectIntent(partitions=tuple(elected), reason="LeadershipMoved", message=message)
    return (*_reorders(orders), *((elect,) if elected else ()))


class _Leadership:
    """What comes of the partitions, one after the other."""

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
        """The entry stays until it is seen to be back; who led before has to be able to."""
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
            "led from a disk that is not well, or by a broker that goes down; another replica takes over",
        ),
        (back, "LeadershipRestored", "led again by whom it was"),
    ):
        if keys:
            named = some([f"{topic}-{index}" for topic, index in keys])
            message = f"{counted(len(keys), 'partition')} ({words}): {named}."
            found.append(ElectIntent(partitions=tuple(keys), reason=reason, message=message))
    return tuple(found)
