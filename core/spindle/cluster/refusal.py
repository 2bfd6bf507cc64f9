"""What a safety predicate answers when an action must not happen now."""

from collections.abc import Sequence
from dataclasses import dataclass

_NAMED = 5  # objects that a message names before it only counts


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why something may not be done, for ``status.waiting`` and events.

    Attributes:
        rule: number of the safety rule (``docs/safety.md``); None where it is no safety rule but plain impossibility (no room, no zones).
        reason: CamelCase, stable, documented.
        message: one sentence for a person, with a few of the objects by name and the count of all.
        unblocked_by: what a person can do about it, or what Spindle waits for.
        objects: all objects in question (partitions, nodes, brokers), sorted.
    """

    rule: int | None
    reason: str
    message: str
    unblocked_by: str
    objects: tuple[str, ...] = ()


def some(things: Sequence[str], limit: int = _NAMED) -> str:
    """The first few of many, and how many more there are: ``a, b, c and 197 more``."""
    if len(things) <= limit:
        return ", ".join(things)
    return f"{', '.join(things[:limit])} and {len(things) - limit} more"


def counted(count: int, singular: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count} {singular}" if count == 1 else f"{count} {singular}s"
