"""Last-resort actions, each of them opt-in: shorter retention, deletion of records, a quota, blocked producers.

All but the deletion are settings in Kafka: the journal records the previous value and restores it when the disk has free space again
("every changed setting can be restored", docs/safety.md). Deleted records cannot be restored.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api.thresholds import LAST_RESORTS, UsageLevel
from spindle.model.view import (
    CLEANUP_POLICY,
    DEFAULT_USERS,
    MAX_MESSAGE_BYTES,
    PRODUCER_RATE,
    RETENTION_BYTES,
    RETENTION_MS,
    KafkaView,
    LogDir,
)
from spindle.model.waiting import counted, some
from spindle.moves.journal import SavedConfig, SettingKey

Settings = Mapping[SettingKey, str]

# Too small for any record batch, large enough for the markers that end a transaction (78 bytes).
PRODUCERS_BLOCKED: Final = "100"
RATE: Final = 1_000_000  # bytes per second, of each user on each broker
_SHARE: Final = 0.05  # share of a disk's logs; topics with less do not count as filling it
_MOST: Final = 0.5  # maximum share of a partition's records to delete at once
_NONE: Final = "-1"
_INTERNAL: Final = "__"


@dataclass(frozen=True)
class FullLogDir:
    """A full dir, and the enabled actions whose level it has reached."""

    log_dir: LogDir
    steps: frozenset[UsageLevel]


def settings(
    view: KafkaView, dirs: Iterable[FullLogDir], standing: Iterable[SavedConfig] = (), *, unsure: bool = False
) -> dict[SettingKey, str]:
    """The settings that should apply now, in the format of `spindle.moves.execute.execute`.

    Args:
        view: the current state of Kafka.
        dirs: dirs that have reached such a level.
        standing: the journal's settings. A value that was computed once is kept, because the current value is Spindle's own.
        unsure: whether the usage of a disk that had reached such a level is unknown: then nothing is restored.
    """
    ours = {
        entry.id: entry.ours
        for entry in standing
        if not entry.closing and entry.ours is not None and entry.key in _KEYS
    }
    wanted: dict[SettingKey, str] = dict(ours) if unsure else {}
    for full in dirs:
        for action in _SETTINGS:
            if action.level in full.steps:
                wanted |= action.of(view, full.log_dir, ours)
    return wanted


def applied(wanted: Iterable[SettingKey]) -> Iterator[tuple[str, str]]:
    """The reason and the message of each action whose settings are among these."""
    for action in _SETTINGS:
        named = sorted(name for _, name, key in wanted if key == action.keys[0])
        if named:
            topics = f"{counted(len(named), 'topic')}: {some(named)}"
            yield LAST_RESORTS[action.level].reason, action.says.format(topics=topics)


def topics_on(log_dir: LogDir) -> list[str]:
    """Users' topics with a replica on a dir; Kafka's internal topics are never blocked."""
    return sorted({topic for topic, _ in log_dir.replicas if not topic.startswith(_INTERNAL)})


def topics_by_size(view: KafkaView, log_dir: LogDir) -> list[str]:
    """Those of `topics_on` that have a considerable share of the dir, and from which Kafka deletes old records."""
    total, sizes = sum(log_dir.replicas.values()), dict.fromkeys(topics_on(log_dir), 0)
    for (topic, _), size in log_dir.replicas.items():
        if topic in sizes:
            sizes[topic] += size
    return [topic for topic, size in sizes.items() if size >= _SHARE * total and deletes(view, topic)]


def deletes(view: KafkaView, topic: str) -> bool:
    """Whether cleanup.policy of a topic contains delete; False if it is only compact, or not known."""
    return "delete" in (view.topics or {}).get(topic, {}).get(CLEANUP_POLICY, "")


def _reduce_retention(view: KafkaView, log_dir: LogDir, ours: Settings) -> dict[SettingKey, str]:
    wanted: dict[SettingKey, str] = {}
    for topic in topics_on(log_dir):
        wanted |= _retention(view, topic, log_dir, ours)
    return wanted


def _retention(view: KafkaView, topic: str, log_dir: LogDir, ours: Settings) -> dict[SettingKey, str]:
    """Half of a topic's retention. A topic with unlimited retention is not changed."""
    by_time: SettingKey = ("topic", topic, RETENTION_MS)
    by_size: SettingKey = ("topic", topic, RETENTION_BYTES)
    known = {key: ours[key] for key in (by_time, by_size) if key in ours}
    if known or topic not in topics_by_size(view, log_dir):
        return known
    holds = (view.topics or {}).get(topic, {})
    times, sizes = holds.get(RETENTION_MS, _NONE), holds.get(RETENTION_BYTES, _NONE)
    if times == _NONE and sizes == _NONE:
        return {}
    largest = max(size for (name, _), size in log_dir.replicas.items() if name == topic)
    limit = min(int(sizes), largest) if sizes != _NONE else largest
    wanted: dict[SettingKey, str] = {by_size: str(max(1, limit // 2))}
    if times != _NONE:
        wanted[by_time] = str(max(1, int(times) // 2))
    return wanted


def _throttle_producers(_view: KafkaView, _log_dir: LogDir, _ours: Settings) -> dict[SettingKey, str]:
    return {(*DEFAULT_USERS, PRODUCER_RATE): str(RATE)}


def _block_producers(_view: KafkaView, log_dir: LogDir, _ours: Settings) -> dict[SettingKey, str]:
    return {("topic", topic, MAX_MESSAGE_BYTES): PRODUCERS_BLOCKED for topic in topics_on(log_dir)}


@dataclass(frozen=True)
class _SettingsAction:
    """An action that consists of settings in Kafka, which are restored when its level ends.

    Attributes:
        keys: the settings; a topic that has the first one is named in the message.
        of: the settings for one full dir. Its last argument is the present values that are Spindle's own.
        says: the message of the waiting entry; ``{topics}`` stands for the topics.
    """

    level: UsageLevel
    keys: tuple[str, ...]
    of: Callable[[KafkaView, LogDir, Settings], dict[SettingKey, str]]
    says: str


_SETTINGS: Final = (
    _SettingsAction(
        UsageLevel.REDUCE_RETENTION,
        (RETENTION_MS, RETENTION_BYTES),
        _reduce_retention,
        "Spindle halved the retention time (retention.ms) of {topics}.",
    ),
    _SettingsAction(
        UsageLevel.BLOCK_PRODUCERS,
        (MAX_MESSAGE_BYTES,),
        _block_producers,
        "Spindle blocks producers, with MESSAGE_TOO_LARGE (RecordTooLargeException), for {topics}.",
    ),
    _SettingsAction(
        UsageLevel.THROTTLE_PRODUCERS,
        (PRODUCER_RATE,),
        _throttle_producers,
        f"Spindle limits users without a quota of their own to {RATE} bytes per second of produce traffic to each broker.",
    ),
)
_KEYS: Final = frozenset(key for action in _SETTINGS for key in action.keys)


@dataclass(frozen=True)
class Trim:
    """The oldest records to delete: this share of each (topic, partition, leader)."""

    partitions: tuple[tuple[str, int, int], ...] = ()
    share: float = 0.0


def trim(view: KafkaView, log_dir: LogDir, need: int, moving: Collection[tuple[str, int]] = ()) -> Trim:
    """What to delete to free about ``need`` bytes: the same share of all partitions on the dir, at most half of each."""
    found = [
        (p.topic, p.index, p.leader)
        for p in view.partitions or ()
        if (p.topic, p.index) in log_dir.replicas
        and (p.topic, p.index) not in moving
        and p.leader is not None
        and not p.topic.startswith(_INTERNAL)
        and deletes(view, p.topic)
    ]
    total = sum(log_dir.replicas[topic, index] for topic, index, _ in found)
    if need <= 0 or not total:
        return Trim()
    return Trim(tuple(found), round(min(_MOST, need / total), 4))
