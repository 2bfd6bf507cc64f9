"""What became of the moves in the journal.

Nothing but what Kafka shows decides. A move counts as landed when its replica stands on the chosen dir and nothing is left in
motion; one whose reassignment vanished is begun again; one that cannot be had any more is given up, with the reason.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from spindle.cluster.view import LogDir, Partition
from spindle.cluster.waiting import Waiting
from spindle.moves import rules
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey, present
from spindle.moves.limits import Limits

_DOUBTS: Final = 5


class MoveState(Enum):
    """Where a move is."""

    LANDED = auto()  # done
    GONE = auto()  # its partition is deleted
    FAILED = auto()  # its agent gave it up
    GIVEN_UP = auto()  # it cannot or must not go on, and nothing of it is in motion
    NOT_BEGUN = auto()  # nothing of it is in motion, and it could be
    QUEUED = auto()  # its agent has not begun
    COPYING = auto()
    UNPLACED = auto()  # being reassigned, and its target shows no log yet: tell it again where to make it
    WAITING = auto()  # what it needs does not answer
    CANCEL = auto()  # being reassigned, and that is to end
    FORGOTTEN = auto()  # nothing of it is missing, and Kafka does not end it: ask for the same again


@dataclass(frozen=True)
class FoundMove:
    """A move as it was found.

    Attributes:
        move: with what was learnt put right (a replica that landed elsewhere goes on between dirs).
        refusal: why it is given up or cancelled.
    """

    move: Move
    state: MoveState
    refusal: Waiting | None = None

    @property
    def in_motion(self) -> bool:
        """Whether it stays in the journal as it is."""
        return self.state in _IN_MOTION


_IN_MOTION = frozenset(
    {
        MoveState.QUEUED,
        MoveState.COPYING,
        MoveState.UNPLACED,
        MoveState.WAITING,
        MoveState.CANCEL,
        MoveState.FORGOTTEN,
    }
)


def find(
    look: KafkaIndex,
    move: Move,
    limits: Limits,
    incoming: Incoming,
    lost: AbstractSet[int],
    failed: Mapping[tuple[int, PartitionKey, str], str],
) -> FoundMove:
    """Look for one move of the journal. The partitions and brokers are known."""
    partition = look.partitions.get(move.key)
    if partition is None:
        return FoundMove(move, MoveState.GONE, _overtaken(move, "its topic was deleted"))
    if not (move.placeable or move.within) and (stands := look.standing(move.target, move.key)) is not None:
        move = replace(move, to_dir=stands.path)  # Kafka chose the dir
    if move.within:
        found = _within(look, move, partition, limits, incoming, lost)
        why = failed.get((move.target, move.key, move.to_dir))
        gave_up = why is not None and found.state in (MoveState.QUEUED, MoveState.COPYING)
        return FoundMove(move, MoveState.FAILED, _gave_up(move, why or "")) if gave_up else found
    if partition.adding or partition.removing:
        if not under_way(move, partition):
            return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, "somebody else reassigns it"))
        found = _reassigning(look, move, partition, lost, limits, incoming)
        refused = found.state is MoveState.CANCEL and not may_cancel(partition)
        return FoundMove(move, MoveState.WAITING) if refused else found
    arrived, left = move.target in partition.replicas, move.source not in partition.replicas
    if arrived and left:
        return _arrived(look, move, partition, limits, incoming, lost)
    if not arrived and (move.source is None or not left):
        return FoundMove(move, MoveState.NOT_BEGUN)
    if doubted := in_doubt(move, partition):
        return FoundMove(doubted, MoveState.WAITING)
    return FoundMove(
        move, MoveState.GIVEN_UP, _overtaken(move, f"its replicas are {list(partition.replicas)} by now")
    )


def withdraw(look: KafkaIndex, found: FoundMove) -> FoundMove:
    """A move in motion that nobody wants any more. What is nearly done (only the old replica has to go) is left to end."""
    move, partition = found.move, look.partitions.get(found.move.key)
    if partition is None or found.state is MoveState.CANCEL or not found.in_motion:
        return found
    if move.within:
        return FoundMove(move, MoveState.GIVEN_UP, _withdrawn(move))
    if partition.adding and under_way(move, partition) and may_cancel(partition):
        return FoundMove(move, MoveState.CANCEL, _withdrawn(move))
    return found


def under_way(move: Move, partition: Partition) -> bool:
    """Whether a partition is being reassigned as a move of ours would have it."""
    if not (partition.adding or partition.removing) or move.target not in partition.replicas:
        return False
    return set(partition.adding) <= {move.target} and set(partition.removing) <= {move.source}


def may_cancel(partition: Partition) -> bool:
    """Whether Kafka would take a reassignment back: only while a replica from before it is in sync.

    Else that would be an unclean election (``PartitionReassignmentRevert``: INVALID_REPLICA_ASSIGNMENT). With ELR (KIP-966) the ISR of a
    partition that has lost its last replica is empty.
    """
    return bool(set(partition.isr) - set(partition.adding))


def forgotten(partition: Partition) -> bool:
    """Whether a reassignment has all that it takes to be over, and is not.

    Kafka looks whether one is over before it elects a leader, in each change of the partition, and at no other time
    (``PartitionChangeBuilder.build``). So one whose new replica was elected uncleanly stays until something else changes; nothing does where
    the old replica is dead. The same reassignment asked for again is such a change.
    """
    staying = set(partition.replicas) - set(partition.removing)
    gone = set(partition.removing) & set(partition.replicas)
    return partition.leader in staying and bool(gone) and staying <= set(partition.isr)


def in_doubt(move: Move, partition: Partition) -> Move | None:
    """A move whose partition looks as if it were being moved, and is not: to be looked at again, a few times.

    Reassignments are told by the controllers, assignments by a broker that may be a moment behind.
    """
    if partition.adding or partition.removing or not {move.source, move.target} <= set(partition.replicas):
        return None
    return replace(move, doubts=move.doubts + 1) if move.doubts < _DOUBTS else None


def out_of_order(move: Move, partition: Partition) -> bool:
    """Whether a partition has the replicas of before a move, in another order."""
    return (
        bool(move.before)
        and not (partition.adding or partition.removing)
        and set(partition.replicas) == set(move.before)
        and partition.replicas != move.before
    )


def _reassigning(
    look: KafkaIndex,
    move: Move,
    partition: Partition,
    lost: AbstractSet[int],
    limits: Limits,
    incoming: Incoming,
) -> FoundMove:
    """A move between brokers that is under way."""
    if forgotten(partition):
        return FoundMove(move, MoveState.FORGOTTEN)
    if not partition.adding:
        return FoundMove(move, MoveState.COPYING)  # all that is left is to remove the old one
    if move.target in lost or move.target not in look.brokers:
        return FoundMove(move, MoveState.CANCEL, _lost(move))
    if partition.leader is None and _leaders_lost(look, partition, lost):
        return FoundMove(move, MoveState.CANCEL, rules.has_leader(move, partition))
    if not look.up(move.target):
        return FoundMove(move, MoveState.WAITING)
    stands = look.standing(move.target, move.key)
    if stands is None:
        # With a dir offline the log may have been made on that one, which shows nothing: begun again it costs nothing.
        refusal = rules.takes(look, move) or (_hidden(move) if look.offline(move.target) else None)
        return FoundMove(move, MoveState.CANCEL, refusal) if refusal else FoundMove(move, MoveState.UNPLACED)
    if short := rules.enough_copies(look, move, partition, begun=True):
        return FoundMove(move, MoveState.CANCEL, short)
    if full := rules.fills(move, stands, limits, incoming):
        return FoundMove(move, MoveState.CANCEL, full)
    if stands.path != move.to_dir and _better_anew(look, move, stands, limits, incoming):
        return FoundMove(move, MoveState.CANCEL, _elsewhere(move, stands.path))
    return FoundMove(move, MoveState.COPYING)


def _leaders_lost(look: KafkaIndex, partition: Partition, lost: AbstractSet[int]) -> bool:
    """Whether everyone who may lead is surely without the replica: nobody is left to copy from."""
    return all(
        b in lost or (look.up(b) and look.standing(b, (partition.topic, partition.index)) is None)
        for b in {*partition.isr, *(partition.elr or ())}
    )


def _better_anew(look: KafkaIndex, move: Move, stands: LogDir, limits: Limits, incoming: Incoming) -> bool:
    """Whether a replica that grows on the wrong dir is better begun again than moved on once it is complete.

    It is while less than half is there, and wherever it would fill the wrong dir. No use if the chosen dir takes nothing any more.
    """
    overfull = not rules.fits(
        stands, incoming.to(move.target, stands.path), limits.ceiling(move.target, stands.path)
    )
    copied = stands.replicas[move.key]
    return overfull or (rules.takes(look, move) is None and 2 * copied < look.size(move.key, move.bytes))


def _arrived(
    look: KafkaIndex,
    move: Move,
    partition: Partition,
    limits: Limits,
    incoming: Incoming,
    lost: AbstractSet[int],
) -> FoundMove:
    """Kafka is done with a move between brokers; does the replica stand where it should?"""
    stands = look.standing(move.target, move.key)
    if stands is not None and stands.path == move.to_dir and look.future(move.target, move.key) is None:
        return FoundMove(move, MoveState.LANDED)
    if not look.up(move.target):
        return (
            FoundMove(move, MoveState.GIVEN_UP, _lost(move))
            if move.target in lost
            else FoundMove(move, MoveState.WAITING)
        )
    if stands is None:
        if look.offline(move.target):
            return FoundMove(
                move, MoveState.GIVEN_UP, _overtaken(move, "it stands on no live dir of its target")
            )
        return FoundMove(move, MoveState.WAITING)
    if move.target in partition.isr or look.future(move.target, move.key) is not None:
        onwards = replace(move, source=move.target, from_dir=stands.path)
        return _within(look, onwards, partition, limits, incoming, lost)
    return FoundMove(move, MoveState.WAITING)


def _within(
    look: KafkaIndex,
    move: Move,
    partition: Partition,
    limits: Limits,
    incoming: Incoming,
    lost: AbstractSet[int],
) -> FoundMove:
    """A move between dirs of one broker."""
    if move.target not in partition.replicas or move.target in lost:
        return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, f"broker {move.target} holds it no more"))
    if not look.up(move.target):
        return FoundMove(move, MoveState.WAITING)
    stands, future = look.standing(move.target, move.key), look.future(move.target, move.key)
    if stands is not None and stands.path == move.to_dir and future is None:
        return FoundMove(move, MoveState.LANDED)
    if stands is None:
        return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, "the dir that it was to leave is gone"))
    if future is not None and future.path == move.to_dir:
        # At most one replica is in motion: ours gives way to a person's.
        if partition.adding or partition.removing:
            return FoundMove(
                move, MoveState.GIVEN_UP, _overtaken(move, "somebody else reassigns its partition")
            )
        return FoundMove(move, MoveState.COPYING)
    if future is not None:
        return FoundMove(
            move, MoveState.GIVEN_UP, _overtaken(move, f"somebody else moves it to {future.path}")
        )
    refusal = (
        rules.may_choose_dir(move)
        or rules.undisturbed(look, move, partition)
        or rules.moves_within(look, move)
        or rules.takes(look, move)
        or rules.has_room(look, move, limits, incoming, counted=True)
    )
    return FoundMove(move, MoveState.GIVEN_UP, refusal) if refusal else FoundMove(move, MoveState.QUEUED)


def copied(look: KafkaIndex, found: FoundMove) -> int:
    """Bytes of a move that stand on its chosen dir."""
    return present(look, found.move) if found.state is not MoveState.QUEUED else 0


def _overtaken(move: Move, why: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MoveObsolete",
        message=f"The move of {move.name} to {move.to_dir} of broker {move.target} is given up: {why}.",
        unblocked_by="Nothing: what is still needed is planned anew.",
        objects=(move.name,),
    )


def _withdrawn(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MoveCancelled",
        message=f"The move of {move.name} to {move.to_dir} of broker {move.target} is given up: the proposal that it belongs to is not "
        "carried out any more.",
        unblocked_by="Nothing: what is still needed is planned anew by a later run.",
        objects=(move.name,),
    )


def _gave_up(move: Move, why: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MoveFailed",
        message=f"The agent gave up the move of {move.name} to {move.to_dir} of broker {move.target}. {why}",
        unblocked_by="Nothing: it is not tried again at once, and what is still needed is planned anew.",
        objects=(move.name,),
    )


def _lost(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="TargetLost",
        message=f"The move of {move.name} to broker {move.target} is given up: that broker is lost.",
        unblocked_by="Another target is chosen.",
        objects=(move.name,),
    )


def _hidden(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MovedToOtherDisk",
        message=f"Broker {move.target} shows no log of {move.name}, and one of its dirs is offline. The copy is begun again.",
        unblocked_by="Nothing: it is cancelled and begun again.",
        objects=(move.name,),
    )


def _elsewhere(move: Move, path: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MovedToOtherDisk",
        message=f"{move.name} is growing on {path} of broker {move.target}, not on {move.to_dir}: the broker was restarted before "
        "it made the replica, and forgot which dir was chosen. The copy is begun again.",
        unblocked_by="Nothing: it is cancelled and begun again.",
        objects=(move.name,),
    )
