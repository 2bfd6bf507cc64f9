"""The throttle of moves between the dirs of a broker: an agent says how fast, the operator tells Kafka.

Agents have no right to change settings of Kafka: who has it may have a broker read any file of its pod (docs/security.md). So an
agent that has moves to make writes the rate that it wants into ``status.observed.throttle.wantedBytesPerSecond``, and begins when the
broker has one. What stood there before is in the journal, as with every setting of ours, and is put back when no rate is wanted any more.

Agents of earlier versions set it themselves, and kept the record of it in ``status.observed.throttle`` (`before`, `ours`). Such a record is
taken over into the journal, so that what they have set is put back; what they want now is the last of `ours`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.cluster.view import LOG_DIRS_RATE, KafkaView
from spindle.moves.journal import Journal, SavedConfig, SettingKey
from spindle.moves.settings import dynamic_settings

_UNDER_WAY: Final = ("Queued", "Copying")
_DIGITS: Final = 18  # what has no more is surely no more than Kafka's `long`


@dataclass(frozen=True)
class AgentThrottleRecord:
    """What an agent of an earlier version has set.

    Attributes:
        before: the value that was there; None for none.
        ours: values that it has set, or was about to, the latest last.
    """

    before: str | None
    ours: tuple[str, ...]

    def entry(self) -> dict[str, Any]:
        """As it stands in ``status.observed.throttle``."""
        made: dict[str, Any] = {"ours": list(self.ours)}
        return made if self.before is None else made | {"before": self.before}

    def standing(self, current: str | None) -> bool:
        """Whether a value of the broker's is one that is still to be put back."""
        return current is not None and current in self.ours and current != self.before


def record(observed: Mapping[str, Any]) -> AgentThrottleRecord | None:
    """What an earlier agent has set, by ``status.observed``; None for nothing. Whatever is no number counts as none."""
    entry = observed.get("throttle") or {}
    ours = tuple(value for value in map(str, entry.get("ours") or ()) if _is_rate(value))
    before = str(entry.get("before") or "")
    return AgentThrottleRecord(before if _is_rate(before) else None, ours) if ours else None


def wanted(observed: Mapping[str, Any]) -> int | None:
    """Bytes per second that an agent wants of its broker's throttle, by ``status.observed``; None for no throttle."""
    rate = (observed.get("throttle") or {}).get("wantedBytesPerSecond")
    if rate is not None:
        return int(rate)
    former = record(observed)
    moving = any(move.get("state") in _UNDER_WAY for move in observed.get("moves") or ())
    return int(former.ours[-1]) if former is not None and moving else None


def rates(brokers: Mapping[int, Mapping[str, Any]]) -> dict[SettingKey, str]:
    """The throttles that brokers are to have for their agents' moves; none that is faster than its spec lets it be.

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
    """The journal with what agents of earlier versions have set and not put back."""
    known = {entry.id for entry in journal.settings}
    added = list[SavedConfig]()
    for broker_id, broker in brokers:
        name, former = str(broker_id), record(_observed(broker))
        current = (dynamic_settings(view, "broker", name) or {}).get(LOG_DIRS_RATE)
        if former is not None and former.standing(current) and ("broker", name, LOG_DIRS_RATE) not in known:
            added.append(SavedConfig("broker", name, LOG_DIRS_RATE, former.before, current, current))
    return journal.replacing(settings=(*journal.settings, *added)) if added else journal


def _is_rate(value: str) -> bool:
    """Whether Kafka takes it for a rate: an order that it turns down would end the operator's pass."""
    return value.isascii() and value.isdecimal() and len(value) <= _DIGITS and int(value) > 0


def _observed(broker: Mapping[str, Any]) -> Mapping[str, Any]:
    return (broker.get("status") or {}).get("observed") or {}
