"""Brokers by way of which a partition catches up that is short of copies: what moves would take from them, it needs.

A partition whose missing replicas are dead, or on brokers that are down, does not count: holding moves back would bring nothing back,
and might keep a full disk from being relieved for as long as that lasts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.cluster.view import Partition
from spindle.cluster.waiting import Waiting
from spindle.moves.journal import Move
from spindle.moves.kafka_index import KafkaIndex


@dataclass(frozen=True)
class UnderReplicated:
    """Broker → name of such a partition.

    Attributes:
        near: that has just its minimum of copies in sync: nothing begins there, what runs goes on no faster.
        below: that has fewer, so that nobody can write to it: nothing begins there, what runs is slowed down to the lower bound.
    """

    near: Mapping[int, str] = field(default_factory=dict)
    below: Mapping[int, str] = field(default_factory=dict)

    def refuses(self, move: Move, partition: Partition) -> Waiting | None:
        """Why a move must not begin now; None if it may, or if it is itself the cure of its partition."""
        if move.source is None or (move.source not in partition.isr):
            return None
        brokers = (
            [move.target] if move.within or partition.leader is None else [move.target, partition.leader]
        )
        for broker in brokers:
            name = self.below.get(broker) or self.near.get(broker)
            if name is not None:
                fewer = (
                    "fewer copies in sync than the least"
                    if broker in self.below
                    else "the least copies in sync"
                )
                return Waiting.refused(
                    rule=None,
                    reason="CatchUpInProgress",
                    message=f"The move of {move.name} waits: {name} has {fewer} that it needs, and catches up by way of broker {broker}.",
                    unblocked_by="It has caught up.",
                    objects=(move.name, name),
                )
        return None


def find_under_replicated(look: KafkaIndex) -> UnderReplicated:
    """Look through all partitions."""
    near: dict[int, str] = {}
    below: dict[int, str] = {}
    minima = look.view.min_isr or {}
    for key, partition in look.partitions.items():
        minimum = minima.get(partition.topic)
        if minimum is None:
            continue
        in_sync = len(set(partition.isr) - set(partition.adding))
        if in_sync >= partition.recorded_rf or in_sync > minimum:
            continue
        late = [
            b for b in partition.replicas if b not in {*partition.isr, *partition.adding, *partition.removing}
        ]
        catching_up = [b for b in late if look.up(b) and look.standing(b, key) is not None]
        if not catching_up:
            continue
        found = below if in_sync < minimum else near
        for broker in (*catching_up, partition.leader):
            if broker is not None:
                found.setdefault(broker, partition.name)
    return UnderReplicated(near, below)
