"""The throttle of moves between the dirs of a broker: the agent requests a rate, and the operator sets it in Kafka.

Agents have no right to change Kafka's settings, because with that right a broker can be made to read any file of its pod (docs/security.md). So an
agent with moves to make writes the rate that it wants to ``status.observed.throttle.wantedBytesPerSecond``, and starts when the
broker has a throttle. The journal has the previous value, as for every setting that Spindle changes; it is restored when no rate is requested
any more.

Agents of earlier versions set the throttle themselves, and recorded it in ``status.observed.throttle`` (`before`, `ours`). Such a record is
copied to the journal, so that the previous value is restored; the rate that they request is the last one of `ours`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.model.view import LOG_DIRS_RATE, KafkaView
from spindle.moves.journal import Journal, SavedConfig, SettingKey
from spindle.moves.settings import told

_UNDER_WAY: Final = ("Queued", "Copying")
_DIGITS: Final = 18  # a number with no more digits certainly fits into Kafka's `long`


@dataclass(frozen=True)
class AgentThrottleRecord:
    """The throttle that an agent of an earlier version has set.

    Attributes:
        before: the previous value; None for none.
        ours: values that it has set, or was about to set, the latest last.
    """

    before: str | None
    ours: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """The record in the format of ``status.observed.throttle``."""
        made: dict[str, Any] = {"ours": list(self.ours)}
        return made if self.before is None else made | {"before": self.before}

    def standing(self, current: str | None) -> bool:
        """Whether the broker's current value is one that must still be restored."""
        return current is not None and current in self.ours and current != self.before


def record(observed: Mapping[str, Any]) -> AgentThrottleRecord | None:
    """The throttle that an agent of an earlier version has set, from ``status.observed``; None for none. Invalid values are ignored."""
    entry = observed.get("throttle") or {}
    ours = tuple(value for value in map(str, entry.get("ours") or ()) if _is_rate(value))
    before = str(entry.get("before") or "")
    return AgentThrottleRecord(before if _is_rate(before) else None, ours) if ours else None


def wanted(observed: Mapping[str, Any]) -> int | None:
    """The rate in bytes per second that an agent requests, from ``status.observed``; None for no throttle."""
    rate = (observed.get("throttle") or {}).get("wantedBytesPerSecond")
    if rate is not None:
        return int(rate)
    former = record(observed)
    moving = any(move.get("state") in _UNDER_WAY for move in observed.get("moves") or ())
    return int(former.ours[-1]) if former is not None and moving else None


def rates(brokers: Mapping[int, Mapping[str, Any]]) -> dict[SettingKey, str]:
    """The throttles of brokers for the moves of their agents; none is faster than the broker's spec permits.

    Args:
        brokers: KafkaBrokers by id.
    """
    found: dict[SettingKey, str] = {}
    for broker_id, broker in brokers.items():
        most, rate = broker["spec"].get("throttleBytesPerSecond"), wanted(_observed(broker))
        if most is not None and rate is not None:
            found["broker", str(broker_id), LOG_DIRS_RATE] = str(max(1, min(rate, int(most))))
    return found


def taken_over(
    journal: Journal, view: KafkaView, brokers: Iterable[tuple[int, Mapping[str, Any]]]
) -> Journal:
    """The journal with the throttles that agents of earlier versions have set and not restored."""
    known = {entry.id for entry in journal.settings}
    added = list[SavedConfig]()
    for broker_id, broker in brokers:
        name, former = str(broker_id), record(_observed(broker))
        current = (told(view, "broker", name) or {}).get(LOG_DIRS_RATE)
        if former is not None and former.standing(current) and ("broker", name, LOG_DIRS_RATE) not in known:
            added.append(SavedConfig("broker", name, LOG_DIRS_RATE, former.before, current, current))
    return journal.replacing(settings=(*journal.settings, *added)) if added else journal


def _is_rate(value: str) -> bool:
    """Whether Kafka accepts it as a rate: a rejected request would end the operator's pass."""
    return value.isascii() and value.isdecimal() and len(value) <= _DIGITS and int(value) > 0


def _observed(broker: Mapping[str, Any]) -> Mapping[str, Any]:
    return (broker.get("status") or {}).get("observed") or {}
