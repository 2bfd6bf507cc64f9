"""How many KafkaTopics are as their specs say."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.model import objects

READY: Final = "ready"
WAITING: Final = "waiting"
STALLED: Final = "stalled"
STATES: Final = (READY, STALLED, WAITING)


def topic_states(
    topics: Iterable[objects.RawObject], statuses: Mapping[str, Mapping[str, Any]]
) -> Counter[str]:
    """The number of KafkaTopics in each of `STATES`.

    Args:
        topics: the KafkaTopics.
        statuses: by name, those that are newer than what the objects have.
    """
    return Counter(
        _state({"status": statuses.get(objects.name(each)) or each.get("status")}) for each in topics
    )


def _state(topic: objects.RawObject) -> str:
    if objects.is_true(topic, "Ready"):
        return READY
    return STALLED if objects.is_true(topic, "Stalled") else WAITING
