"""Dynamic configs that Spindle sets temporarily and restores if the value is still its own ("every changed setting can be restored", docs/safety.md).

A setting is recorded, with its previous value, before it is changed. During a change the previous value counts as Spindle's, too. An
entry leaves the journal only after Kafka shows the restored value.

A cordon of a dir that its broker does not have is removed, whoever set it: while it exists, the broker applies none of its dynamic
settings and rejects changes to them (`KafkaConfig.validateCordonedLogDirs`).
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from spindle.model.view import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LAST_RESORT_SETTINGS,
    LEADER_RATE,
    LEADER_REPLICAS,
    KafkaView,
)
from spindle.moves.intents import ConfigureIntent
from spindle.moves.journal import ConfigKind, Move, SavedConfig, SettingKey
from spindle.moves.kafka_index import KafkaIndex

_LISTS: Final = frozenset({LEADER_REPLICAS, FOLLOWER_REPLICAS, CORDONED})
# These temporarily replace the user's value. Any other value that a user has set is not changed.
_OVERRIDES: Final = frozenset(LAST_RESORT_SETTINGS)
_ALL: Final = "*"
_NONE: Final = "none"  # Kafka's notation for "no replica" in a list of throttled replicas


def throttles(
    look: KafkaIndex, moves: Iterable[Move], rate_of: Callable[[int, str], int | None]
) -> dict[SettingKey, str]:
    """The throttles that these moves between brokers need: (kind, name, key) → value.

    Leadership may change during a copy, so every existing replica is listed as a possible source. Kafka never throttles members of the
    ISR. A broker that does not answer can neither be configured nor read from.

    Args:
        look: one observation of Kafka.
        moves: running moves.
        rate_of: bytes per second by broker and key; None for no throttle.
    """
    lists: dict[SettingKey, set[str]] = {}
    rates: dict[SettingKey, str] = {}
    for move in moves:
        partition = look.partitions.get(move.key)
        if partition is None or move.within:
            continue
        givers = [b for b in partition.replicas if b != move.target and look.up(b)]
        for key, rate_key, brokers in (
            (LEADER_REPLICAS, LEADER_RATE, givers),
            (FOLLOWER_REPLICAS, FOLLOWER_RATE, [move.target]),
        ):
            by_broker = {b: rate_of(b, rate_key) for b in brokers}
            listed = [b for b, rate in by_broker.items() if rate is not None]
            lists.setdefault(("topic", move.topic, key), set()).update(
                f"{move.partition}:{b}" for b in listed
            )
            rates.update({("broker", str(b), rate_key): str(by_broker[b]) for b in listed if look.up(b)})
    return {key: _joined(sorted(entries, key=_numbers)) for key, entries in lists.items() if entries} | rates


def settle(
    look: KafkaIndex, standing: Iterable[SavedConfig], desired: Mapping[SettingKey, str]
) -> tuple[tuple[SavedConfig, ...], tuple[ConfigureIntent, ...]]:
    """Set Kafka's settings to the desired values, and restore the others.

    Args:
        look: the current state of Kafka, with its settings.
        standing: recorded changes in the journal.
        desired: (kind, name, key) → value. Rates that another client has set are kept; lists are merged.

    Returns:
        the settings for the journal, and the requests to Kafka.
    """
    entries = {entry.id: entry for entry in standing}
    changes: dict[tuple[ConfigKind, str], dict[str, str | None]] = {}
    kept: list[SavedConfig] = []
    for key in sorted(entries.keys() | desired.keys()):
        entry, change = _settle_one(look, key, entries.get(key), desired.get(key))
        if entry is not None:
            kept.append(entry)
        if entry is not None and change:
            changes.setdefault(key[:2], {})[key[2]] = entry.before if entry.closing else entry.ours
    configures = (
        ConfigureIntent(kind=kind, name=name, values=values) for (kind, name), values in changes.items()
    )
    return tuple(kept), tuple(configures)


def _settle_one(
    look: KafkaIndex, key: SettingKey, entry: SavedConfig | None, wanted: str | None
) -> tuple[SavedConfig | None, bool]:
    """One setting: its entry in the journal, None for none, and whether it must be set in Kafka."""
    values = told(look.view, *key[:2]) if key[2] != CORDONED else (look.view.settings or {}).get(key[:2])
    if values is None:
        gone = (
            key[0] == "topic"
            and look.view.partitions is not None
            and key[1] not in look.view.partition_index.topics
        )
        return (None if gone else entry), False
    live = values.get(key[2])
    if entry is not None and not _is_ours(entry, live):
        # Another client has changed it. While Spindle would override it, it is recorded as not to be touched.
        left_alone = key[2] in _OVERRIDES and wanted is not None
        entry = SavedConfig(*key, before=live, ours=live, was=live) if left_alone else _ours_in(entry, live)
    entry = _possible(look.view, key, entry, live)
    if entry is not None and wanted is not None and key[2] in _OVERRIDES and entry.ours == entry.before:
        return entry, False
    if not wanted:
        if entry is None or (entry.closing and _same(key, live, entry.before)):
            return None, False
        return replace(entry, closing=True), True
    if entry is None:
        if key[2] not in _LISTS | _OVERRIDES and live is not None:
            return None, False
        ours = _merged(key, live, wanted)
        if _same(key, live, ours):
            return None, False
        return SavedConfig(*key, before=live, ours=ours, was=live), True
    ours = _merged(key, entry.before, wanted)
    if entry.closing or not _same(key, entry.ours, ours):
        entry = replace(entry, ours=ours, was=live, closing=False)
    return entry, not _same(key, live, ours)


def told(view: KafkaView, kind: str, name: str) -> Mapping[str, str] | None:
    """Dynamic settings of a topic or broker; None if they are not known.

    A broker with a cordon of a dir that it does not have reports the cordon, but no throttle.
    """
    if kind == "broker" and gone_dirs(view, name):
        return None
    return (view.settings or {}).get((kind, name))


def gone_dirs(view: KafkaView, broker: str) -> AbstractSet[str]:
    """Cordoned dirs that a broker (its id in digits) does not have; empty if it did not answer."""
    found = (view.brokers or {}).get(int(broker))
    cordon = (view.settings or {}).get(("broker", broker), {}).get(CORDONED)
    if found is None or found.log_dirs is None or cordon is None:
        return frozenset()
    return set(_split(cordon)) - {d.path for d in found.log_dirs} - {_ALL}


def _possible(
    view: KafkaView, key: SettingKey, entry: SavedConfig | None, live: str | None
) -> SavedConfig | None:
    """A cordon's entry, limited to dirs that its broker has; another client's cordon of missing dirs gets an entry. Other settings are unchanged."""
    missing = gone_dirs(view, key[1]) if key[2] == CORDONED else frozenset()
    if not missing:
        return entry
    if entry is None:
        return SavedConfig(*key, before=_less(live, missing), ours=live, was=live)
    return replace(entry, before=_less(entry.before, missing))


def _less(value: str | None, gone: AbstractSet[str]) -> str | None:
    """A list without some entries; None if it is empty then."""
    if value is None or not gone:
        return value
    return _joined(path for path in _split(value) if path not in gone) or None


def _is_ours(entry: SavedConfig, live: str | None) -> bool:
    """Whether a value is the one that Spindle set, the one that it set before that, or the previous value."""
    return any(_same(entry.id, live, value) for value in (entry.ours, entry.was, entry.before))


def _ours_in(entry: SavedConfig, live: str | None) -> SavedConfig | None:
    """The entry for a list that another client has changed while it still contains Spindle's entries; all others are restored later.

    Other tools add their entries to throttled replicas and remove them again.
    """
    if entry.key not in _LISTS or live is None:
        return None
    added = {*_split(entry.ours or ""), *_split(entry.was or "")} - {*_split(entry.before or "")}
    there = _split(live)
    if not added & set(there):
        return None
    theirs = _joined(each for each in there if each not in added) or None
    return replace(entry, before=theirs, ours=live, was=live)


def _same(key: SettingKey, one: str | None, other: str | None) -> bool:
    if key[2] in _LISTS and one is not None and other is not None:
        return set(_split(one)) == set(_split(other))
    return one == other


def _merged(key: SettingKey, before: str | None, wanted: str) -> str:
    """The user's list with Spindle's entries added; any other value as requested."""
    if key[2] not in _LISTS or before is None:
        return wanted
    if before.strip() == _ALL:
        return before
    theirs = [entry for entry in _split(before) if entry != _NONE]
    return _joined([*theirs, *(entry for entry in _split(wanted) if entry not in theirs)])


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _joined(entries: Iterable[str]) -> str:
    return ",".join(entries)


def _numbers(entry: str) -> tuple[int, ...]:
    """Order of ``p:broker``."""
    return tuple(int(part) for part in entry.split(":"))
