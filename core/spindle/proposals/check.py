"""Whether a move of a proposal is still valid according to Kafka's state: start it, let it wait, or drop it.

Uses the same rules and messages as the executor. The consequence differs: the executor retries in
each pass, but a proposal was made from a past state, so a move is dropped permanently if that state no longer holds.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from spindle.model.view import Partition
from spindle.model.waiting import Waiting
from spindle.moves import rules
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex
from spindle.moves.limits import Limits

_GROWN: Final = 1.25  # factor of the planned size
_GROWN_LEAST: Final = 256 * 2**20  # bytes of growth that are always accepted


class CheckResult(Enum):
    """What to do with a move."""

    ARRIVED = auto()  # its replica is on the target dir
    GO = auto()
    WAIT = auto()
    DROP = auto()


@dataclass(frozen=True)
class CheckedMove:
    """Result of the check of one move.

    Attributes:
        refusal: why it waits or is dropped.
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
    """Check a move that is not running against every rule.

    Args:
        look: Kafka's state; brokers and partitions are known.
        move: the planned move.
        limits: limits of the executor.
        incoming: bytes that are being copied to each dir.
        given_up: (topic, partition, broker) of replicas that were removed from their assignment temporarily.
        room_may_come: a move is running or a replica is about to be deleted, so a full dir may have space soon.
    """
    partition = look.partitions.get(move.key)
    if partition is None:
        return _drop("TopicDeleted", move, f"{move.name} no longer exists.")
    if arrived(look, move, partition):
        return _ARRIVED
    moved = rules.undisturbed(look, move, partition)
    if moved is not None:
        return CheckedMove(CheckResult.WAIT, moved)
    return _stands(look, move, partition) or _may(
        look, move, partition, limits, incoming, given_up, room_may_come=room_may_come
    )


def arrived(look: KafkaIndex, move: Move, partition: Partition) -> bool:
    """Whether a move's replica is on its target dir and the replica that it replaces is gone."""
    if move.target not in partition.replicas or move.target in partition.adding:
        return False
    if not move.within and move.source in partition.replicas:
        return False
    stands = look.standing(move.target, move.key)
    return stands is not None and stands.path == move.to_dir and look.future(move.target, move.key) is None


def _stands(look: KafkaIndex, move: Move, partition: Partition) -> CheckedMove | None:
    """Whether the replica is still as planned: in the same place and of about the same size."""
    source = move.target if move.source is None else move.source
    if source not in partition.replicas or (not move.within and move.target in partition.replicas):
        return _drop(
            "ReplicaRelocated",
            move,
            f"{move.name} has its replicas on the brokers {list(partition.replicas)} now; the plan was made for others.",
        )
    stands = look.standing(source, move.key)
    if stands is None:
        if not look.up(source):
            return CheckedMove(CheckResult.WAIT, _source_down(move, source))
        return _drop(
            "ReplicaRelocated", move, f"Broker {source} has {move.name} on none of its live log dirs."
        )
    if stands.path != move.from_dir:
        return _drop(
            "ReplicaRelocated",
            move,
            f"{move.name} is now on {stands.path} of broker {source}, not on {move.from_dir}.",
        )
    # The size of this replica; another replica of the partition may be larger.
    size = stands.replicas[move.key]
    if size > max(_GROWN * move.bytes, move.bytes + _GROWN_LEAST):
        return _drop(
            "ReplicaSizeChanged",
            move,
            f"{move.name} now has {size} bytes; it was planned with {move.bytes}.",
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
    """The executor's rules: refusals that may be temporary let it wait, the others drop it."""
    if move.target not in look.brokers:
        return _drop("TargetGone", move, f"Broker {move.target}, the target of {move.name}, does not exist.")
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
            unblocked_by="Nothing to do: a later run plans again what is still needed.",
            objects=(move.name,),
        ),
    )


def _source_down(move: Move, source: int) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="SourceDown",
        message=f"Broker {source}, the source of {move.name}, does not answer.",
        unblocked_by="Bring the broker back.",
        objects=(move.name,),
    )
