"""The executor's journal: running moves, replicas that were dropped for a while or leave for good, settings to restore, recent failures.

It is stored in the ConfigMap ``<cluster>-moves`` and is written, with its resourceVersion as a precondition, before its requests are
executed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spindle.moves.copy_progress import CopyProgress, read_copy_progress, write_copy_progress
from spindle.moves.spread_violations import SpreadViolation, read_spread_violations, write_spread_violations

_VERSION: Final = 1
REPAIR: Final = "repair"
EVACUATE: Final = "evacuate"
RESTORE: Final = "restore"
SPREAD: Final = "spread"
BACKFILL: Final = "backfill"
DROP_FOR_SPACE: Final = "shed"
GROW: Final = "replicas"
MOST_BYTES: Final = 900_000  # a ConfigMap holds 1 MiB, all in all

ConfigKind = Literal["topic", "broker", "quota"]
SettingKey = tuple[ConfigKind, str, str]  # kind, name, key


class JournalError(ValueError):
    """The journal cannot be read. Nothing may be started, and no entry counts as removed."""


_LONGEST_FOLDER: Final = 255  # characters
_FUTURE_SUFFIX: Final = len(".") + 32 + len("-future")


@dataclass(frozen=True)
class Move:
    """One replica that moves to a chosen dir.

    Attributes:
        source: broker that the replica leaves; None if a replica is added (restored, or a topic gets more replicas); equal to ``target`` for
            a move between dirs of one broker, which the agent executes.
        from_dir: path that it leaves; None if ``source`` is None, or if it is not known (a failed dir).
        to_dir: path of the log dir on ``target`` that it moves to.
        bytes: its size when it was planned; the size that Kafka reports counts if it is larger.
        reason: ``evacuate``, ``drain``, ``restore``, ``spread``, ``backfill``, ``balance``, ``replicas``.
        before: the assignment when the move was started, preferred leader first; set by the executor. Kafka forgets this order when a
            reassignment is cancelled.
        doubts: approximate number of successive observations in which Kafka's answers contradicted each other, because they are not
            from the same moment.
    """

    topic: str
    partition: int
    source: int | None
    from_dir: str | None
    target: int
    to_dir: str
    bytes: int
    reason: str = ""
    before: tuple[int, ...] = ()
    doubts: int = 0

    @property
    def name(self) -> str:
        """``topic-partition``."""
        return f"{self.topic}-{self.partition}"

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition): at most one move of each is in the journal."""
        return self.topic, self.partition

    @property
    def within(self) -> bool:
        """Whether it is a move between dirs of one broker."""
        return self.source == self.target

    @property
    def placeable(self) -> bool:
        """Whether AlterReplicaLogDirs accepts its partition.

        It answers INVALID_TOPIC where the folder of a future replica would have a name of more than 255 characters
        (``UnifiedLog.logFutureDirName``: ``<topic>-<partition>.<32 hex digits>-future``; KAFKA-4893).
        """
        return len(self.name) + _FUTURE_SUFFIX <= _LONGEST_FOLDER


@dataclass(frozen=True)
class DroppedReplica:
    """A replica that was temporarily dropped from its partition's assignment: on a failed or overfull dir, or corrupt.

    Attributes:
        broker: broker of the replica.
        bytes: its size, taken from the other replicas.
        before: the assignment before the drop, preferred leader first.
        reason: ``shed`` if its dir was too full, ``repair`` if it has a corrupt segment; empty if its dir had failed.
    """

    topic: str
    partition: int
    broker: int
    bytes: int
    before: tuple[int, ...]
    reason: str = ""

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.partition

    @property
    def id(self) -> tuple[str, int, int]:
        """(topic, partition, broker): a partition may have lost several replicas, one after the other."""
        return self.topic, self.partition, self.broker


@dataclass(frozen=True)
class RemovedReplica:
    """A replica that leaves its partition's assignment for good, because its topic is to have fewer.

    Attributes:
        until: end of its record, in seconds since the epoch: another broker's metadata may show the replica for some time after it has left.
    """

    topic: str
    partition: int
    broker: int
    until: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition): one replica of each leaves at a time."""
        return self.topic, self.partition


@dataclass(frozen=True)
class SavedConfig:
    """A dynamic config or a quota in Kafka that Spindle changed.

    Attributes:
        before: the previous value, None for none; restored if the current value is still Spindle's.
        ours: the value that Spindle set or is about to set; None for none.
        was: Spindle's value before the last change: until Kafka shows ``ours``, this value counts as Spindle's, too.
        closing: whether the previous value is being restored.
    """

    kind: ConfigKind
    name: str
    key: str
    before: str | None
    ours: str | None
    was: str | None = None
    closing: bool = False

    @property
    def id(self) -> SettingKey:
        """(kind, name, key)."""
        return self.kind, self.name, self.key


@dataclass(frozen=True)
class LeadershipOverride:
    """A changed order of a partition's replicas that makes another one the preferred leader temporarily.

    Attributes:
        before: the previous order, restored when the cause is gone and no other client has changed it.
        ours: the order that Spindle set or is about to set.
        was: Spindle's order before the last change: until Kafka shows ``ours``, this order counts as Spindle's, too.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    ours: tuple[int, ...]
    was: tuple[int, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.partition


@dataclass(frozen=True)
class MoveBackoff:
    """Back-off of a move between dirs that failed on the agent.

    Attributes:
        broker, to_dir: target of the move.
        times: number of failures since the last success.
        until: end of the back-off in seconds since the epoch.
    """

    topic: str
    partition: int
    broker: int
    to_dir: str
    times: int
    until: float

    @property
    def id(self) -> tuple[str, int, int, str]:
        """(topic, partition, broker, dir)."""
        return self.topic, self.partition, self.broker, self.to_dir


@dataclass(frozen=True)
class PendingCleanup:
    """A log whose replica has left its dir. Kafka deletes it after a minute; until then it uses space.

    Attributes:
        until: seconds since the epoch at which it is certainly deleted.
    """

    topic: str
    partition: int
    broker: int
    dir: str
    bytes: int
    until: float

    @property
    def id(self) -> tuple[str, int, int, str]:
        """(topic, partition, broker, dir)."""
        return self.topic, self.partition, self.broker, self.dir


@dataclass(frozen=True)
class ReplacedLog:
    """A leader's log that a copy from another dir has replaced; see `spindle.moves.leader_epochs`.

    Attributes:
        broker: the leader.
        until: seconds since the epoch at which it is forgotten, if the leader cannot be asked.
    """

    topic: str
    partition: int
    broker: int
    until: float

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.partition


@dataclass(frozen=True)
class Journal:
    """Everything that another operator needs to continue. Equal journals render to equal text.

    Attributes:
        steered: when a throttle's rate was last changed, in seconds since the epoch.
        spread_violations: partitions that healing left on fewer racks than before. Nothing waits for them: their rack spread is restored
            when that is possible.
        pace: recorded progress of copies between brokers.
        removed: replicas that leave for good, or have left a moment ago.
        replaced: leaders' logs whose leader epoch has not been checked since a copy replaced them.
    """

    moves: tuple[Move, ...] = ()
    dropped: tuple[DroppedReplica, ...] = ()
    settings: tuple[SavedConfig, ...] = ()
    leadership: tuple[LeadershipOverride, ...] = ()
    backoffs: tuple[MoveBackoff, ...] = ()
    steered: float = 0.0
    cleanups: tuple[PendingCleanup, ...] = ()
    spread_violations: tuple[SpreadViolation, ...] = ()
    pace: tuple[CopyProgress, ...] = ()
    removed: tuple[RemovedReplica, ...] = ()
    replaced: tuple[ReplacedLog, ...] = ()

    def __bool__(self) -> bool:
        """Whether it contains anything that is still to be done or restored."""
        return bool(self.moves or self.dropped or self.settings or self.leadership or self.removed)

    def dropped_on(self, broker: int) -> tuple[DroppedReplica, ...]:
        """Dropped replicas that will be restored on a broker."""
        return tuple(entry for entry in self.dropped if entry.broker == broker)

    def within(self) -> Mapping[int, tuple[Move, ...]]:
        """Moves between dirs by broker, in order."""
        found: dict[int, list[Move]] = {}
        for move in self.moves:
            if move.within:
                found.setdefault(move.target, []).append(move)
        return {broker: tuple(moves) for broker, moves in found.items()}

    def replacing(self, **fields: Any) -> "Journal":
        """A copy with other fields."""
        return replace(self, **fields)


def render(journal: Journal) -> str:
    """The journal as text; each path and reason is stored once.

    Raises:
        JournalError: the text is too large for a ConfigMap.
    """
    words = _Words()
    document: dict[str, Any] = {
        "version": _VERSION,
        "moves": [
            [m.topic, m.partition, m.source, words.number(m.from_dir), m.target, words.number(m.to_dir), m.bytes,
             words.number(m.reason), list(m.before), m.doubts]
            for m in journal.moves
        ],
        "shrunk": [
            [s.topic, s.partition, s.broker, s.bytes, list(s.before), *([s.reason] if s.reason else [])]
            for s in journal.dropped
        ],
        "settings": [[s.kind, s.name, s.key, s.before, s.ours, s.was, s.closing] for s in journal.settings],
        "orders": [[o.topic, o.partition, list(o.before), list(o.ours), list(o.was)] for o in journal.leadership],
    }  # fmt: skip
    if journal.backoffs:
        document["rests"] = [
            [r.topic, r.partition, r.broker, words.number(r.to_dir), r.times, r.until]
            for r in journal.backoffs
        ]
    if journal.cleanups:
        document["leftovers"] = [
            [e.topic, e.partition, e.broker, words.number(e.dir), e.bytes, e.until] for e in journal.cleanups
        ]
    if journal.spread_violations:
        document["crowded"] = write_spread_violations(journal.spread_violations)
    if journal.pace:
        document["pace"] = write_copy_progress(journal.pace)
    if journal.removed:
        document["removed"] = [[e.topic, e.partition, e.broker, e.until] for e in journal.removed]
    if journal.replaced:
        document["replaced"] = [[e.topic, e.partition, e.broker, e.until] for e in journal.replaced]
    if journal.steered:
        document["steered"] = journal.steered
    document["words"] = list(words)
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    if len(text) > MOST_BYTES:
        raise JournalError(f"the journal of moves would have {len(text)} bytes; the maximum is {MOST_BYTES}")
    return text


def parse(text: str | None) -> Journal:
    """Parse the output of `render`; no text is an empty journal.

    Raises:
        JournalError: the text is not a valid journal.
    """
    if not text:
        return Journal()
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise JournalError(f"the journal of moves has version {document['version']}, not {_VERSION}")
        words = document["words"]

        def word(number: int | None) -> str | None:
            return None if number is None else str(words[number])

        return Journal(
            moves=tuple(
                _move(entry, word(entry[3]), str(word(entry[5])), word(entry[7]) or "")
                for entry in document["moves"]
            ),
            dropped=tuple(
                DroppedReplica(
                    str(topic),
                    int(index),
                    int(broker),
                    int(size),
                    tuple(int(b) for b in before),
                    *map(str, reason),
                )
                for topic, index, broker, size, before, *reason in document["shrunk"]
            ),
            settings=tuple(_setting(entry) for entry in document["settings"]),
            leadership=tuple(_order(entry) for entry in document.get("orders") or ()),
            backoffs=tuple(
                MoveBackoff(str(topic), int(index), int(broker), str(word(to_dir)), int(times), float(until))
                for topic, index, broker, to_dir, times, until in document.get("rests", ())
            ),
            steered=float(document.get("steered", 0)),
            cleanups=tuple(
                PendingCleanup(str(topic), int(index), int(broker), str(word(path)), int(size), float(until))
                for topic, index, broker, path, size, until in document.get("leftovers", ())
            ),
            spread_violations=read_spread_violations(document.get("crowded") or {}),
            pace=read_copy_progress(document.get("pace") or ()),
            removed=tuple(
                RemovedReplica(str(topic), int(index), int(broker), float(until))
                for topic, index, broker, until in document.get("removed", ())
            ),
            replaced=tuple(
                ReplacedLog(str(topic), int(index), int(broker), float(until))
                for topic, index, broker, until in document.get("replaced", ())
            ),
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"the journal of moves cannot be read: {type(error).__name__}: {error}") from error


def _move(entry: list[Any], from_dir: str | None, to_dir: str, reason: str) -> Move:
    topic, index, source, _, target, _, size, _, before, doubts = entry
    return Move(
        topic=str(topic),
        partition=int(index),
        source=None if source is None else int(source),
        from_dir=from_dir,
        target=int(target),
        to_dir=to_dir,
        bytes=int(size),
        reason=reason,
        before=tuple(int(b) for b in before),
        doubts=int(doubts),
    )


def _order(entry: list[Any]) -> LeadershipOverride:
    topic, index, *orders = entry
    before, ours, was = (tuple(int(b) for b in order) for order in orders)
    return LeadershipOverride(str(topic), int(index), before, ours, was)


def _setting(entry: list[Any]) -> SavedConfig:
    kind, name, key, before, ours, was, closing = entry
    if kind not in ("topic", "broker", "quota"):
        raise JournalError(f"the journal of moves has a setting of unknown kind {kind}")
    return SavedConfig(kind, str(name), str(key), before, ours, was, bool(closing))


class _Words:
    """A table of strings with a number for each."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, word: str | None) -> int | None:
        return None if word is None else self._numbers.setdefault(word, len(self._numbers))

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)
