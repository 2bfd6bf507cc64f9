"""Moves and changes of leadership that the phases of a pass ask for."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from spindle.moves.journal import DroppedReplica, Move, RemovedReplica, SettingKey
from spindle.moves.kafka_index import PartitionKey
from spindle.moves.leadership import Leads


@dataclass(frozen=True)
class MoveRequests:
    """What the phases of a pass ask the executor for.

    Attributes:
        moves: in the order in which they should start. Those in the journal may be left out.
        shrinks: replicas on dead dirs to drop from their assignments now; the caller has checked "no log dir removed with replicas on it"
            (`docs/safety.md`, rule 5) for the same view. They are recorded in the journal before that, and stay there until a move without a
            source (the restore) has landed, or the replica is in sync on that broker again.
        lost: brokers that are lost; moves to them are abandoned.
        settings: other dynamic configs that should be set for as long as they are requested ((kind, name, key) → value; a list such as
            ``cordoned.log.dirs`` is merged with the user's). They are recorded and restored like throttles. An empty value requests nothing,
            except that the current value is checked (for a cordon of a dir that its broker does not have).
        closed: (broker, path) of dirs that accept no replicas although Kafka would allow it: bad ones, and ones to be emptied.
        bad: those of `closed` whose disk is bad, so that the replicas on them do not count as live ("no rack lost", `docs/safety.md`, rule 3).
        leads: temporary preferred leaders; see `spindle.moves.leadership`.
        withdrawn: partitions whose recorded moves are not wanted any more: their copies are cancelled.
        leaders: permanent preferred leaders; they are not restored.
        removals: replicas to remove for good, at most one of each partition; those in the journal are included for as long as they are wanted.
    """

    moves: tuple[Move, ...] = ()
    shrinks: tuple[DroppedReplica, ...] = ()
    lost: AbstractSet[int] = frozenset()
    settings: Mapping[SettingKey, str] = field(default_factory=dict)
    closed: AbstractSet[tuple[int, str]] = frozenset()
    bad: AbstractSet[tuple[int, str]] = frozenset()
    leads: Leads = field(default_factory=dict)
    withdrawn: AbstractSet[PartitionKey] = frozenset()
    leaders: Mapping[PartitionKey, int] = field(default_factory=dict)
    removals: tuple[RemovedReplica, ...] = ()


def merge_requests(first: MoveRequests, second: MoveRequests) -> MoveRequests:
    """Merge two requests; the moves of the first come first."""
    return replace(
        first,
        moves=(*first.moves, *second.moves),
        shrinks=(*first.shrinks, *second.shrinks),
        lost=frozenset({*first.lost, *second.lost}),
        settings={**first.settings, **second.settings},
        closed=frozenset({*first.closed, *second.closed}),
        bad=first.bad | second.bad,
        withdrawn=frozenset({*first.withdrawn, *second.withdrawn}),
        leaders={**first.leaders, **second.leaders},
        removals=(*first.removals, *second.removals),
    )
