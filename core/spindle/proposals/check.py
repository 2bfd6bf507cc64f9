"""Whether a move of a proposal still holds, by one look at Kafka: begin it, wait with it, or leave it out.

The same rules that the executor asks before it begins anything, in the same words. What differs is what follows: the executor tries again
in each pass; a proposal is made from what was so then, so a move is left out for good once what it was planned on is no more.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from spindle.cluster.view import Partition
from spindle.cluster.waiting import Waiting
from spindle.moves import rules
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex
from spindle.moves.limits import Limits

_GROWN: Final = 1.25  # of the planned size
_GROWN_LEAST: Final = 256 * 2**20  # bytes by which it may grow in any case


class CheckResult(Enum):
    """What is to be done with a move."""

    ARRIVED = auto()  # its replica stands where it should
    GO = auto()
    WAIT = auto()
    DROP = auto()


@dataclass(frozen=True)
class CheckedMove:
    """What became of the question.

    Attributes:
        refusal: why it waits or is left out.
    """

    answer: CheckResult
    refusal: Waiting | None = None


_ARRIVED: Final = CheckedMove(CheckResult.ARRIVED)
_GO: Final = CheckedMove(CheckResult.GO)


def check(
    look: KafkaIndex,
    move: Move,
    limits: Limits,
    incoming: Incoming,
    given_up: Collection[tuple[str, int, int]],
    *,
    room_may_come: bool,
) -> CheckedMove:
    """Ask every rule about a move that is not in motion.

    Args:
        look: what Kafka says; brokers and partitions are known.
        move: as it was planned.
        limits: of the executor.
        incoming: what is on its way to each dir.
        given_up: (topic, partition, broker) of replicas that left their assignment for a while.
        room_may_come: something of ours is in motion or about to be deleted, so a dir that is too full may have room soon.
    """
    partition = look.partitions.get(move.key)
    if partition is None:
        return _drop("TopicDeleted", move, f"{move.name} is not there any more.")
    if arrived(look, move, partition):
        return _ARRIVED
    moved = rules.undisturbed(look, move, partition)
    if moved is not None:
        return CheckedMove(CheckResult.WAIT, moved)
    return _stands(look, move, partition) or _may(
        look, move, partition, limits, incoming, given_up, room_may_come=room_may_come
    )


def arrived(look: KafkaIndex, move: Move, partition: Partition) -> bool:
    """Whether a move's replica stands on its chosen dir, and the one that it replaces is gone."""
    if move.target not in partition.replicas or move.target in partition.adding:
        return False
    if not move.within and move.source in partition.replicas:
        return False
    stands = look.standing(move.target, move.key)
    return stands is not None and stands.path == move.to_dir and look.future(move.target, move.key) is None


def _stands(look: KafkaIndex, move: Move, partition: Partition) -> CheckedMove | None:
    """Whether the replica is still what was planned with: where it was, and about as large."""
    source = move.target if move.source is None else move.source
    if source not in partition.replicas or (not move.within and move.target in partition.replicas):
        return _drop(
            "ReplicaRelocated",
            move,
            f"{move.name} has its replicas on the brokers {list(partition.replicas)} by now, which is not what was planned with.",
        )
    stands = look.standing(source, move.key)
    if stands is None:
        if not look.up(source):
            return CheckedMove(CheckResult.WAIT, _source_down(move, source))
        return _drop("ReplicaRelocated", move, f"Broker {source} shows {move.name} on none of its live dirs.")
    if stands.path != move.from_dir:
        return _drop(
            "ReplicaRelocated",
            move,
            f"{move.name} stands on {stands.path} of broker {source} by now, not on {move.from_dir}.",
        )
    # Its own: another replica of the partition may be larger.
    size = stands.replicas[move.key]
    if size > max(_GROWN * move.bytes, move.bytes + _GROWN_LEAST):
        return _drop(
            "ReplicaSizeChanged",
            move,
            f"{move.name} has {size} bytes by now; it was planned with {move.bytes}.",
        )
    return None


def _may(
    look: KafkaIndex,
    move: Move,
    partition: Partition,
    limits: Limits,
    incoming: Incoming,
    given_up: Collection[tuple[str, int, int]],
    *,
    room_may_come: bool,
) -> CheckedMove:
    """The executor's rules: those that another look may answer otherwise let it wait, the others leave it out."""
    if move.target not in look.brokers:
        return _drop("TargetGone", move, f"There is no broker {move.target}, where {move.name} was to go.")
    if not look.up(move.target):
        return CheckedMove(CheckResult.WAIT, rules.takes(look, move))
    if refusal := rules.takes(look, move):
        return CheckedMove(CheckResult.DROP, refusal)
    if move.within:
        later = rules.moves_within(look, move)
    else:
        later = (
            rules.has_leader(move, partition)
            or rules.may_add(move, partition)
            or rules.comes_back(move, given_up)
            or rules.enough_copies(look, move, partition)
            or (rules.throttle_known(look, move) if limits.bytes_per_second is not None else None)
        )
    if later is not None:
        return CheckedMove(CheckResult.WAIT, later)
    if refusal := rules.has_room(look, move, limits, incoming):
        return CheckedMove(CheckResult.WAIT if room_may_come else CheckResult.DROP, refusal)
    if not move.within and (refusal := rules.keeps_racks(look, move, partition, limits, incoming)):
        return CheckedMove(CheckResult.DROP, refusal)
    return _GO


def _drop(reason: str, move: Move, message: str) -> CheckedMove:
    return CheckedMove(
        CheckResult.DROP,
        Waiting.refused(
            rule=None,
            reason=reason,
            message=message,
            unblocked_by="Nothing: what is still needed is planned anew by a later run.",
            objects=(move.name,),
        ),
    )


def _source_down(move: Move, source: int) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="SourceDown",
        message=f"Broker {source}, which {move.name} is to leave, does not answer.",
        unblocked_by="The broker is back.",
        objects=(move.name,),
    )
