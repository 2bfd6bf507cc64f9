"""The state of the moves in the journal.

Only what Kafka shows counts. A move has landed when its replica is on the chosen dir and nothing of the move is in
progress; one whose reassignment vanished is started again; one that is not possible any more is abandoned, with the reason.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from spindle.model.view import LogDir, Partition
from spindle.model.waiting import Waiting
from spindle.moves import rules
from spindle.moves.journal import GROW, Move
from spindle.moves.kafka_index import Incoming, KafkaIndex, PartitionKey, present
from spindle.moves.limits import Limits

_DOUBTS: Final = 5


class MoveState(Enum):
    """State of a move."""

    LANDED = auto()  # it is done
    GONE = auto()  # its partition is deleted
    FAILED = auto()  # its agent abandoned it
    GIVEN_UP = auto()  # it cannot or must not continue, and nothing of it is in progress
    NOT_BEGUN = auto()  # nothing of it is in progress, and it could start
    QUEUED = auto()  # its agent has not started
    COPYING = auto()
    UNPLACED = auto()  # being reassigned, but its target shows no log yet: the choice of the dir is repeated
    WAITING = auto()  # a broker that it needs does not answer
    CANCEL = auto()  # being reassigned, and to be cancelled
    FORGOTTEN = auto()  # its new replica is in sync, but Kafka does not complete it: it is requested again


@dataclass(frozen=True)
class FoundMove:
    """A move and its state.

    Attributes:
        move: the move with updated fields (a replica that landed on another dir continues between dirs).
        refusal: why it is abandoned or cancelled.
    """

    move: Move
    state: MoveState
    refusal: Waiting | None = None

    @property
    def in_motion(self) -> bool:
        """Whether it stays in the journal."""
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
    """Determine the state of one move of the journal. The partitions and brokers must be known."""
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
            return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, "another client is reassigning it"))
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
        move, MoveState.GIVEN_UP, _overtaken(move, f"its replicas are now {list(partition.replicas)}")
    )


def withdraw(look: KafkaIndex, found: FoundMove) -> FoundMove:
    """Cancel a move that is not wanted any more. One that is almost done (only the old replica must still be removed) may complete."""
    move, partition = found.move, look.partitions.get(found.move.key)
    if partition is None or found.state is MoveState.CANCEL or not found.in_motion:
        return found
    if move.within:
        return FoundMove(move, MoveState.GIVEN_UP, _withdrawn(move))
    if partition.adding and under_way(move, partition) and may_cancel(partition):
        return FoundMove(move, MoveState.CANCEL, _withdrawn(move))
    return found


def under_way(move: Move, partition: Partition) -> bool:
    """Whether the partition's reassignment is that of this move."""
    if not (partition.adding or partition.removing) or move.target not in partition.replicas:
        return False
    return set(partition.adding) <= {move.target} and set(partition.removing) <= {move.source}


def may_cancel(partition: Partition) -> bool:
    """Whether Kafka would cancel a reassignment: only while one of its previous replicas is in sync.

    Otherwise that would be an unclean election (``PartitionReassignmentRevert``: INVALID_REPLICA_ASSIGNMENT). With ELR (KIP-966) the ISR of a
    partition that has lost its last replica is empty.
    """
    return bool(set(partition.isr) - set(partition.adding))


def forgotten(partition: Partition) -> bool:
    """Whether a reassignment meets all conditions for its completion but does not complete.

    Kafka checks that before it elects a leader, at each change of the partition, and at no other time
    (``PartitionChangeBuilder.build``). So a reassignment whose new replica was elected uncleanly stays until something else changes, which does not
    happen if the old replicas are dead. Requesting the same reassignment again is such a change. Replicas that stay need to be in sync only if
    fewer are added than removed (``PartitionReassignmentReplicas.maybeCompleteReassignment``).
    """
    staying = set(partition.replicas) - set(partition.removing)
    gone = set(partition.removing) & set(partition.replicas)
    needed = set(partition.adding) if len(partition.adding) >= len(partition.removing) else staying
    return partition.leader in staying and bool(gone) and needed <= set(partition.isr)


def in_doubt(move: Move, partition: Partition) -> Move | None:
    """The move, if its partition looks as if it were being reassigned but is not: it is checked again, a few times.

    Controllers report reassignments; assignments come from a broker whose metadata may be slightly older.
    """
    if partition.adding or partition.removing or not {move.source, move.target} <= set(partition.replicas):
        return None
    return replace(move, doubts=move.doubts + 1) if move.doubts < _DOUBTS else None


def out_of_order(move: Move, partition: Partition) -> bool:
    """Whether a partition has the same replicas as before a move, in another order."""
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
    """A move between brokers in progress."""
    if forgotten(partition):
        return FoundMove(move, MoveState.FORGOTTEN)
    if not partition.adding:
        return FoundMove(move, MoveState.COPYING)  # only the old replica must still be removed
    if move.target in lost or move.target not in look.brokers:
        return FoundMove(move, MoveState.CANCEL, _lost(move))
    if partition.leader is None and _leaders_lost(look, partition, lost):
        return FoundMove(move, MoveState.CANCEL, rules.has_leader(move, partition))
    if not look.up(move.target):
        return FoundMove(move, MoveState.WAITING)
    stands = look.standing(move.target, move.key)
    if stands is None:
        # With an offline dir, the log may be on that one, which does not show it; a new start loses nothing.
        refusal = rules.takes(look, move) or (_hidden(move) if look.offline(move.target) else None)
        return FoundMove(move, MoveState.CANCEL, refusal) if refusal else FoundMove(move, MoveState.UNPLACED)
    if short := rules.enough_copies(look, move, partition, begun=True):
        return FoundMove(move, MoveState.CANCEL, short)
    if full := rules.target_filling(move, stands, limits, incoming):
        return FoundMove(move, MoveState.CANCEL, full)
    if stands.path != move.to_dir and _better_anew(look, move, stands, limits, incoming):
        return FoundMove(move, MoveState.CANCEL, _elsewhere(move, stands.path))
    return FoundMove(move, MoveState.COPYING)


def _leaders_lost(look: KafkaIndex, partition: Partition, lost: AbstractSet[int]) -> bool:
    """Whether every possible leader is known to have lost the replica, so that there is nothing to copy from."""
    return all(
        b in lost or (look.up(b) and look.standing(b, (partition.topic, partition.index)) is None)
        for b in {*partition.isr, *(partition.elr or ())}
    )


def _better_anew(look: KafkaIndex, move: Move, stands: LogDir, limits: Limits, incoming: Incoming) -> bool:
    """Whether a copy on the wrong dir should start again instead of being moved when it is complete.

    It should while less than half is copied, and if it would overfill the wrong dir; not if the chosen dir accepts no replicas any more.
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
    """A move between brokers that Kafka has completed: is the replica on the chosen dir?"""
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
                move, MoveState.GIVEN_UP, _overtaken(move, "it is on no live log dir of its target")
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
        return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, f"broker {move.target} no longer has it"))
    if not look.up(move.target):
        return FoundMove(move, MoveState.WAITING)
    stands, future = look.standing(move.target, move.key), look.future(move.target, move.key)
    if stands is not None and stands.path == move.to_dir and future is None:
        return FoundMove(move, MoveState.LANDED)
    if stands is None:
        return FoundMove(move, MoveState.GIVEN_UP, _overtaken(move, "its source log dir is gone"))
    if future is not None and future.path == move.to_dir:
        # At most one replica of a partition moves at a time: Spindle's move yields to the other client's.
        if partition.adding or partition.removing:
            return FoundMove(
                move, MoveState.GIVEN_UP, _overtaken(move, "another client is reassigning its partition")
            )
        return FoundMove(move, MoveState.COPYING)
    if future is not None:
        return FoundMove(
            move, MoveState.GIVEN_UP, _overtaken(move, f"another client is moving it to {future.path}")
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
    """Bytes of a move that are on its chosen dir."""
    return present(look, found.move) if found.state is not MoveState.QUEUED else 0


def _overtaken(move: Move, why: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MoveObsolete",
        message=f"Spindle abandons the move of {move.name} to {move.to_dir} of broker {move.target}: {why}.",
        unblocked_by="Nothing to do: Spindle plans what is still needed.",
        objects=(move.name,),
    )


def _withdrawn(move: Move) -> Waiting:
    why = (
        "its topic is not to have more replicas any more"
        if move.reason == GROW
        else "its proposal is no longer executed"
    )
    return Waiting.refused(
        rule=None,
        reason="MoveCancelled",
        message=f"Spindle abandons the move of {move.name} to {move.to_dir} of broker {move.target}: {why}.",
        unblocked_by="Nothing to do: Spindle plans what is still needed.",
        objects=(move.name,),
    )


def _gave_up(move: Move, why: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MoveFailed",
        message=f"The agent abandoned the move of {move.name} to {move.to_dir} of broker {move.target}. {why}",
        unblocked_by="Nothing to do: Spindle does not retry it at once, and plans what is still needed.",
        objects=(move.name,),
    )


def _lost(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="TargetLost",
        message=f"Spindle abandons the move of {move.name} to broker {move.target}: that broker is lost.",
        unblocked_by="Nothing to do: Spindle chooses another target.",
        objects=(move.name,),
    )


def _hidden(move: Move) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MovedToOtherDisk",
        message=f"Broker {move.target} shows no log of {move.name}, and one of its log dirs is offline. Spindle restarts the copy.",
        unblocked_by="Nothing to do: Spindle cancels the copy and starts it again.",
        objects=(move.name,),
    )


def _elsewhere(move: Move, path: str) -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="MovedToOtherDisk",
        message=f"{move.name} is being copied to {path} of broker {move.target}, not to {move.to_dir}: the broker restarted before "
        "it created the replica, and lost the choice of the log dir. Spindle restarts the copy.",
        unblocked_by="Nothing to do: Spindle cancels the copy and starts it again.",
        objects=(move.name,),
    )
