"""Leader epochs that are lost when a copy between the dirs of a broker replaces the log of a leader (KAFKA-15608, KAFKA-20961).

The copy has the epochs of the records that were copied into it, and not the one that the broker was elected with. Until records are written or
another leader is elected, the leader answers a follower that was elected after the last record with OFFSET_OUT_OF_RANGE, the follower asks
again at once, and both use most of a core and fill their logs. So after such a move the leader is asked whether its log has its epoch, and
if not, another replica leads for a moment: when the broker is elected again, its log gets the new epoch.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from spindle.model.view import Partition
from spindle.moves.journal import Move, ReplacedLog
from spindle.moves.kafka_index import KafkaIndex, PartitionKey

_ASKED_FOR: Final = 3600.0  # seconds for which a leader that does not answer is asked
# Seconds for which it is asked in any case: an agent may complete a move that it was not told the end of.
_AT_LEAST: Final = 60.0


@dataclass(frozen=True)
class EpochCheck:
    """Logs whose leaders are to be asked, and leaders that are to change.

    Attributes:
        standing: entries for the journal.
        leads: partition → the replica that leads for a moment.
    """

    standing: tuple[ReplacedLog, ...]
    leads: Mapping[PartitionKey, int]


def check_epochs(
    look: KafkaIndex,
    entries: Iterable[ReplacedLog],
    ended: Iterable[Move],
    down: AbstractSet[int],
    now: float,
) -> EpochCheck:
    """What is left to do for logs that copies have replaced.

    Args:
        look: the state of Kafka; brokers and partitions must be known.
        entries: of the journal.
        ended: moves between the dirs of a broker that have just left the journal; one that was given up may have replaced a log all the same.
        down: brokers that take over nothing, because they are down or about to go down.
        now: seconds since the epoch.
    """
    # By broker, too: copies of the leader and then of a follower may end before the leader could be asked.
    known = {(entry.key, entry.broker): entry for entry in entries}
    for move in ended:
        known[move.key, move.target] = ReplacedLog(*move.key, move.target, now + _ASKED_FOR)
    standing, leads = [], {}
    for (key, _), entry in sorted(known.items()):
        partition = look.partitions.get(key)
        if partition is None or len(partition.replicas) == 1:
            continue
        # Another leader recorded its epoch when it was elected.
        leading = partition.leader == entry.broker
        has_it = (look.view.own_epochs or {}).get(key) if leading else True
        done = has_it is True or (has_it is None and now >= entry.until)
        if done and now >= entry.until - _ASKED_FOR + _AT_LEAST:
            continue
        standing.append(entry)
        to = _other(look, partition, down) if has_it is False else None
        if to is not None:
            leads[key] = to
    return EpochCheck(tuple(standing), leads)


def _other(look: KafkaIndex, partition: Partition, down: AbstractSet[int]) -> int | None:
    """The first other replica, in order, that can lead; None if there is none: then a record, or a restart of the broker, ends it."""
    return next(
        (
            b
            for b in partition.replicas
            if b != partition.leader
            and b in partition.isr
            and b not in down
            and b not in partition.adding
            and look.live(b, partition)
        ),
        None,
    )
