"""Moves and changes of leadership that the phases of a pass ask for."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from spindle.moves.journal import DroppedReplica, Move, SettingKey
from spindle.moves.kafka_index import PartitionKey
from spindle.moves.leadership import Leads


@dataclass(frozen=True)
class MoveRequests:
    """The requests of other steps to the executor; see `spindle.moves.execute.execute`."""

    moves: tuple[Move, ...] = ()
    shrinks: tuple[DroppedReplica, ...] = ()
    lost: AbstractSet[int] = frozenset()
    settings: Mapping[SettingKey, str] = field(default_factory=dict)
    closed: AbstractSet[tuple[int, str]] = frozenset()
    bad: AbstractSet[tuple[int, str]] = frozenset()
    leads: Leads = field(default_factory=dict)
    withdrawn: AbstractSet[PartitionKey] = frozenset()
    leaders: Mapping[PartitionKey, int] = field(default_factory=dict)
