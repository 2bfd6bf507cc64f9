"""The principal that a KafkaUser has on record."""

from collections.abc import Mapping
from typing import Any, Final

# Kubernetes names cannot contain it, and brokers derive principals only from common names of letters, digits and the characters . _ -
GENERATION_MARK: Final = "_"


def on_record(user: Mapping[str, Any]) -> str | None:
    """The principal in a KafkaUser's status, without ``User:``; None if there is none, or if it cannot belong to this user."""
    name = str(user["metadata"]["name"])
    told = str((user.get("status") or {}).get("principal") or "").removeprefix("User:")
    head, mark, generation = told.rpartition(GENERATION_MARK)
    if told == name or (mark and head == name and generation.isdecimal()):
        return told
    return None
