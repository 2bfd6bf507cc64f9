"""What a KafkaTopic asks for: its name, its defaults, and whether Kafka accepts its settings."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.topic import THROTTLED, KafkaTopicSpec
from spindle.config.setting_values import wrong_value
from spindle.config.settings import SettingProblem, known_of_topics
from spindle.model import objects, versions
from spindle.model.memo import by_content

MIN_ISR: Final = "min.insync.replicas"
_INTERNAL: Final = "__"
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_PARSED: Final = 20_000  # cached specs
_LONGEST_KEY: Final = 128
_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_FULL_REPLICATION: Final = 3


@dataclass(frozen=True)
class WantedTopic:
    """The spec of a KafkaTopic, parsed.

    Attributes:
        problems: why it cannot be carried out, as sentences with what to write instead; empty if it can.
    """

    name: str
    spec: KafkaTopicSpec
    problems: tuple[str, ...] = ()


def topic_name(topic: objects.RawObject) -> str:
    """The topic's name in Kafka."""
    return str((topic.get("spec") or {}).get("topicName") or objects.name(topic))


def keys_to_read(topics: Sequence[objects.RawObject]) -> dict[str, tuple[str, ...]]:
    """Topic → settings of it to read: those that its KafkaTopics name, and those that Spindle set for them."""
    found: dict[str, set[str]] = {}
    for topic in topics:
        keys = found.setdefault(topic_name(topic), set())
        keys.update((topic.get("spec") or {}).get("config") or ())
        keys.update((topic.get("status") or {}).get("config") or ())
    return {name: tuple(sorted(keys)) for name, keys in found.items()}


def wanted(topic: objects.RawObject, version: str) -> WantedTopic:
    """What a KafkaTopic asks for.

    Args:
        topic: the object.
        version: the release that the cluster runs.
    """
    return _wanted(objects.name(topic), topic.get("spec") or {}, version)


@by_content(_PARSED)
def _wanted(name: str, raw: Mapping[str, Any], version: str) -> WantedTopic:
    try:
        spec = KafkaTopicSpec.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = f"spec.{where}: {first['msg']}. To resolve: correct the field, or install the CRDs of the chart's version."
        return WantedTopic(name, KafkaTopicSpec(cluster=""), (said,))
    name = spec.topic_name or name
    found = [
        *_of_name(name),
        *(
            f"{p.message}. To resolve: {p.way_out}."
            for p in settings_problems(spec.config, version, spec.replicas)
        ),
    ]
    return WantedTopic(name, spec, tuple(found))


def _of_name(name: str) -> Iterator[str]:
    if not _NAME.fullmatch(name) or name in (".", ".."):
        yield f"{name[:80]} is not a valid name of a topic. To resolve: create a KafkaTopic whose spec.topicName has letters, digits, dots, underscores and dashes."
    elif name.startswith(_INTERNAL):
        yield f"{name} belongs to Kafka or to Spindle: names that start with __ do. To resolve: create a KafkaTopic of another name."


def settings_problems(
    settings: Mapping[str, str], version: str, replicas: int | None = None
) -> tuple[SettingProblem, ...]:
    """The settings that this release would reject for a topic, or that are Spindle's; empty if it accepts them all.

    Args:
        settings: of the spec.
        version: the release; an unsupported one gives no problems here.
        replicas: the topic's replication factor, if it is known.
    """
    table = known_of_topics(version)
    if not table:
        return ()
    found: list[SettingProblem] = []
    for key, value in sorted(settings.items()):
        setting = table.get(key)
        if key in THROTTLED:
            found.append(
                SettingProblem(key, f"{key} is set by Spindle while it moves replicas", f"remove {key}")
            )
        elif setting is None or setting.internal:
            found.append(_unknown(key, version))
        else:
            found += wrong_value(key, value, setting)
    return tuple(found) or tuple(_together(settings, replicas))


def _together(settings: Mapping[str, str], replicas: int | None) -> Iterator[SettingProblem]:
    """Settings that do not fit each other; each of them is valid."""
    least = settings.get(MIN_ISR)
    if least is not None and replicas is not None and int(least) > replicas:
        message = f"{MIN_ISR} is {least}, and the topic has {replicas} replicas: no producer with acks=all could write"
        yield SettingProblem(MIN_ISR, message, f"set {MIN_ISR} to {max(1, replicas - 1)}")
    low, high = (settings.get(key) for key in _LAGS)
    if low is not None and high is not None and int(low) > int(high):
        yield SettingProblem(_LAGS[0], f"{_LAGS[0]} is above {_LAGS[1]}", f"set {_LAGS[1]} to {low} or more")


def _unknown(key: str, version: str) -> SettingProblem:
    documented = [name for name, of in known_of_topics(version).items() if not of.internal]
    near = difflib.get_close_matches(key[:_LONGEST_KEY], documented, 1)
    elsewhere = [minor for minor in versions.SUPPORTED if key in known_of_topics(f"{minor}.0")]
    message = f"{key} is not a setting of a topic in Kafka {version}"
    if elsewhere:
        return SettingProblem(key, f"{message}; it is one in {' and '.join(elsewhere)}", f"remove {key}")
    if near:
        return SettingProblem(
            key, f"{message}; the most similar one is {near[0]}", f"use {near[0]} or remove {key}"
        )
    return SettingProblem(key, message, f"remove {key}")


def defaults(config: Mapping[str, str], brokers: int) -> tuple[int, int]:
    """Partitions and replicas of a topic whose spec names none: the cluster's own, which its brokers have as their defaults.

    Args:
        config: ``spec.config`` of the KafkaCluster.
        brokers: how many brokers it has.
    """
    copies = max(1, min(_FULL_REPLICATION, brokers))
    return _number(config, "num.partitions", 1), _number(config, "default.replication.factor", copies)


def default_min_isr(config: Mapping[str, str], brokers: int) -> int:
    """``min.insync.replicas`` of a topic that does not set it. The arguments are those of `defaults`."""
    return _number(config, MIN_ISR, max(1, min(_FULL_REPLICATION, brokers) - 1))


def _number(config: Mapping[str, str], key: str, otherwise: int) -> int:
    text = config.get(key, "")
    return max(1, int(text)) if text.isdecimal() else otherwise
