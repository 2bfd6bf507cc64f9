"""Why an action is held back: what a safety predicate answers, and what ``status.waiting`` shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

_NAMED = 5  # objects that a message names before it only counts


@dataclass(frozen=True)
class Waiting:
    """An action that must not happen now, with the reason and what unblocks it.

    A predicate returns one without ``action`` and ``object`` (`refused`); the step that asked fills them in (`of`).

    Attributes:
        action: what would be done, CamelCase (``CreatePod``, ``Format``, …).
        object: what it regards, ``Kind/name``.
        reason: why not, CamelCase, stable, documented in ``docs/reference/reasons.md``.
        message: one or two sentences, with a few of the objects by name and the count of all.
        unblocked_by: what a user can do about it, or what Spindle waits for.
        quiet: part of every normal start; shown in the status, but no event.
        rule: number of the safety rule (``docs/safety.md``); None where no rule forbids it but it is impossible (no room, no zones).
        objects: all objects in question (partitions, nodes, brokers), sorted.
    """

    action: str
    object: str
    reason: str
    message: str
    unblocked_by: str
    quiet: bool = False
    rule: int | None = None
    objects: tuple[str, ...] = ()

    @classmethod
    def refused(
        cls, *, rule: int | None, reason: str, message: str, unblocked_by: str, objects: tuple[str, ...] = ()
    ) -> "Waiting":
        """What a predicate answers; it does not know for which action it was asked."""
        return cls("", "", reason, message, unblocked_by, rule=rule, objects=objects)

    @classmethod
    def of(cls, action: str, thing: str, refused: "Waiting") -> "Waiting":
        """The answer of a predicate, for one action on one object."""
        return replace(refused, action=action, object=thing)

    @property
    def sentence(self) -> str:
        """Object, message and what unblocks it, for events and conditions."""
        return f"{self.object}: {self.message} To resolve: {self.unblocked_by}"

    @property
    def order(self) -> tuple[bool, str, str, str]:
        """By what entries are sorted where they are shown: those that need attention first."""
        return (self.quiet, self.object, self.action, self.reason)

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two of them the same one over time."""
        return (self.action, self.object, self.reason)


def some(things: Sequence[str], limit: int = _NAMED) -> str:
    """The first few of many, and how many more there are: ``a, b, c and 197 more``."""
    if len(things) <= limit:
        return ", ".join(things)
    return f"{', '.join(things[:limit])} and {len(things) - limit} more"


def counted(count: int, singular: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count} {singular}" if count == 1 else f"{count} {singular}s"
