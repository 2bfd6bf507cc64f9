"""Brokers through which an under-replicated partition catches up: it needs the bandwidth that moves would use.

A partition whose missing replicas are on failed disks or on brokers that are down does not count, nor one without a leader, from which nothing
can be fetched: holding back moves would not help it, and could prevent space from being freed on a full disk in the meantime.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from spindle.model.view import Partition
from spindle.model.waiting import Waiting
from spindle.moves.journal import GROW, Move
from spindle.moves.kafka_index import KafkaIndex


@dataclass(frozen=True)
class UnderReplicated:
    """Broker → name of such a partition.

    Attributes:
        near: partition at min.insync.replicas: no move starts on the broker, and running ones do not get faster.
        below: partition below min.insync.replicas, so that it rejects writes: no move starts on the broker, and running ones are
            throttled to the lower limit.
    """

    near: Mapping[int, str] = field(default_factory=dict)
    below: Mapping[int, str] = field(default_factory=dict)

    def refuses(self, move: Move, partition: Partition) -> Waiting | None:
        """Why a move must not start now; None if it may, or if it repairs its partition."""
        repairs = move.source not in partition.isr if move.source is not None else move.reason != GROW
        if repairs:
            return None
        brokers = (
            [move.target] if move.within or partition.leader is None else [move.target, partition.leader]
        )
        for broker in brokers:
            name = self.below.get(broker) or self.near.get(broker)
            if name is not None:
                level = "below" if broker in self.below else "at"
                return Waiting.refused(
                    rule=None,
                    reason="CatchUpInProgress",
                    message=f"The move of {move.name} waits, because {name} is {level} min.insync.replicas and catches up through broker {broker}.",
                    unblocked_by=f"Nothing to do: Spindle continues when {name} has caught up.",
                    objects=(move.name, name),
                )
        return None


def find_under_replicated(look: KafkaIndex) -> UnderReplicated:
    """Find all such partitions and their brokers."""
    near: dict[int, str] = {}
    below: dict[int, str] = {}
    minima = look.view.min_isr or {}
    for partition in look.view.partition_index.unsettled:
        key, minimum = (partition.topic, partition.index), minima.get(partition.topic)
        if minimum is None or partition.leader is None:
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
            found.setdefault(broker, partition.name)
    return UnderReplicated(near, below)
