"""What Kafka has of the topics of KafkaTopics, and the status that tells it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from spindle.config.settings import SettingSpec, known_of_topics
from spindle.model.racks import count_racks, wanted_racks
from spindle.model.view import KafkaView, Partition

_STEP: Final = 0.1  # change of a topic's bytes that is reported, as a share


@dataclass(frozen=True)
class ObservedTopics:
    """One pass's view of Kafka, by topic."""

    view: KafkaView

    @property
    def known(self) -> bool:
        """Whether topics and brokers could be read."""
        view = self.view
        return (
            view.error is None
            and view.partitions is not None
            and view.topic_ids is not None
            and view.brokers is not None
        )

    def partitions(self, name: str) -> Sequence[Partition]:
        """The partitions of a topic, by index; empty if there is no such topic."""
        return self.view.partition_index.by_topic.get(name, ())

    def id(self, name: str) -> str | None:
        """Kafka's id of a topic; None if there is no such topic."""
        return (self.view.topic_ids or {}).get(name)

    @cached_property
    def bytes(self) -> Mapping[str, int]:
        """Bytes of all replicas of each topic that have any."""
        found: Counter[str] = Counter()
        for broker in (self.view.brokers or {}).values():
            for log_dir in broker.log_dirs or ():
                for (topic, _), size in log_dir.replicas.items():
                    found[topic] += size
        return found

    @cached_property
    def racks(self) -> Mapping[int, str]:
        """Broker → rack; empty for brokers without one."""
        return {broker.id: broker.rack or "" for broker in (self.view.brokers or {}).values()}


def status_of(observed: ObservedTopics, name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a status that describes the topic; empty if there is no such topic."""
    partitions = observed.partitions(name)
    if not partitions:
        return {}
    racks = observed.racks
    held: Counter[str] = Counter()
    led: Counter[str] = Counter()
    out_of_place, number = 0, len(set(racks.values()))
    for partition in partitions:
        replicas = partition.replicas
        held.update(racks.get(broker, "") for broker in replicas)
        if replicas:
            led[racks.get(replicas[0], "")] += 1
        out_of_place += max(0, wanted_racks(len(replicas), number) - count_racks(replicas, racks))
    return {
        "partitions": len(partitions),
        "replicas": min(partition.recorded_rf for partition in partitions),
        "racks": [{"name": rack, "replicas": held[rack], "leaders": led[rack]} for rack in sorted(held)],
        "outOfPlace": out_of_place,
        "bytes": _steady(observed.bytes.get(name, 0), before.get("bytes")),
    }


def _steady(now: int, before: Any) -> int:
    """The bytes to report: the former number while the present one is near it."""
    return before if isinstance(before, int) and abs(now - before) <= _STEP * before else now


def differing(settings: Mapping[str, str], own: Mapping[str, str], version: str) -> dict[str, str | None]:
    """Settings of the spec that are not set on the topic like that, with the values that are; Kafka writes some values in another form."""
    table = known_of_topics(version)
    return {
        key: own.get(key)
        for key, value in settings.items()
        if key not in own or not same(table.get(key), value, own[key])
    }


def same(setting: SettingSpec | None, one: str, other: str) -> bool:
    """Whether two valid values of a setting mean the same to Kafka."""
    return one == other or _form(setting, one) == _form(setting, other)


def _form(setting: SettingSpec | None, value: str) -> object:
    kind, text = "" if setting is None else setting.type, value.strip()
    try:
        if kind in ("int", "long", "short"):
            return int(text)
        if kind == "double":
            return float(text.rstrip("dDfF"))
    except ValueError:
        return text
    if kind == "boolean":
        return text.lower()
    if kind == "list":
        return list(
            dict.fromkeys(part.strip() for part in text.split(","))
        )  # Kafka drops what is there twice
    return text
