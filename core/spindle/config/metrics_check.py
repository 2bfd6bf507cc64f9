"""Checks ``spec.metrics``. The CRD rejects the same, but not in an older spec, nor if the CRD was not updated."""

import re
from collections.abc import Iterator
from typing import Final

from spindle.api.cluster import KafkaClusterSpec
from spindle.api.metrics import GROUP_PATTERN, MAX_GROUPS, MAX_TOPICS, TOPIC_PATTERN
from spindle.model.spec_findings import RejectedSettings

_SHOWN: Final = 100  # characters of a name in a message
_LONGEST: Final = 249


def refused_metrics(spec: KafkaClusterSpec) -> tuple[RejectedSettings, ...]:
    """What is wrong in ``spec.metrics``, by field: the first wrong name of a list, and its length."""
    metrics = spec.metrics
    return (*_topics(metrics.topics), *_groups(metrics.consumer_lag.groups))


def _topics(topics: list[str]) -> Iterator[RejectedSettings]:
    field = "spec.metrics.topics"
    wrong = next((t for t in topics if t in {".", ".."} or not re.fullmatch(TOPIC_PATTERN, t)), None)
    if wrong is not None:
        yield RejectedSettings(
            field,
            "topics",
            f"topics: {wrong[:_SHOWN]!r} is not the name of a topic",
            f"write exact names of at most {_LONGEST} letters, digits, dots, underscores and dashes, not patterns",
        )
    yield from _too_many(field, "topics", len(topics), MAX_TOPICS)


def _groups(groups: list[str]) -> Iterator[RejectedSettings]:
    field = "spec.metrics.consumerLag.groups"
    wrong = next(
        (g for g in groups if not 0 < len(g) <= _LONGEST or not re.fullmatch(GROUP_PATTERN, g, re.DOTALL)),
        None,
    )
    if wrong is not None:
        yield RejectedSettings(
            field,
            "groups",
            f"groups: {wrong[:_SHOWN]!r} is neither the name of a group nor the beginning of names with an asterisk at the end",
            f"write names, or beginnings such as billing-*, of at most {_LONGEST} characters",
        )
    yield from _too_many(field, "groups", len(groups), MAX_GROUPS)


def _too_many(field: str, key: str, count: int, most: int) -> Iterator[RejectedSettings]:
    if count > most:
        yield RejectedSettings(
            field, key, f"{key}: the list has {count} names, and may have {most}", "shorten the list"
        )
