"""Why an action is held back: the result of safety predicates, and the entries of ``status.waiting``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

TEXT_LEFT_OUT = (
    "Held back. The text is left out, because more actions wait than the status has room to describe."
)
_NAMED = 5  # objects that a message names before it only gives their number


@dataclass(frozen=True)
class Waiting:
    """An action that must not happen now, with the reason and what unblocks it.

    A predicate returns one without ``action`` and ``object`` (`refused`); the caller fills them in (`of`).

    Attributes:
        action: the action that waits, CamelCase (``CreatePod``, ``Format``, …).
        object: the object of the action, ``Kind/name``.
        reason: why, CamelCase, stable, documented in ``docs/reference/reasons.md``.
        message: one or two sentences, with the names of a few objects and the number of all.
        unblocked_by: what a user can do about it, or what Spindle waits for.
        quiet: whether it is part of every normal start; then it is shown in the status but causes no event.
        asks: whether a command of the command line takes what a user has to confirm from this entry: it is listed before the others, with its text.
        rule: number of the safety rule (``docs/safety.md``); None if no rule forbids the action but it is impossible (no space, no zones).
        objects: all affected objects (partitions, nodes, brokers), sorted.
    """

    action: str
    object: str
    reason: str
    message: str
    unblocked_by: str
    quiet: bool = False
    asks: bool = False
    rule: int | None = None
    objects: tuple[str, ...] = ()

    @classmethod
    def refused(
        cls, *, rule: int | None, reason: str, message: str, unblocked_by: str, objects: tuple[str, ...] = ()
    ) -> "Waiting":
        """A predicate's result; the predicate does not know for which action it was called."""
        return cls("", "", reason, message, unblocked_by, rule=rule, objects=objects)

    @classmethod
    def of(cls, action: str, thing: str, refused: "Waiting") -> "Waiting":
        """The predicate's result for one action on one object."""
        return replace(refused, action=action, object=thing)

    @property
    def sentence(self) -> str:
        """Object, message and what unblocks it, for events and conditions."""
        return f"{self.object}: {self.message} To resolve: {self.unblocked_by}"

    @property
    def order(self) -> tuple[bool, int, str, str, str]:
        """Sort key of the entries where they are shown: those that need attention first, and of these the ones that a user has to confirm.

        The one of the whole cluster comes before those of single brokers, of which there can be more than the status has room for.
        """
        asks = 2 if not self.asks else 0 if self.object.startswith("KafkaCluster/") else 1
        return (self.quiet, asks, self.object, self.action, self.reason)

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies the same entry over time."""
        return (self.action, self.object, self.reason)


def text_left_out(message: str) -> bool:
    """Whether this is the message of an entry for whose text the status has no room."""
    return message == TEXT_LEFT_OUT


def some(things: Sequence[str], limit: int = _NAMED) -> str:
    """The first few of many, and the number of the others: ``a, b, c and 197 more``."""
    if len(things) <= limit:
        return ", ".join(things)
    return f"{', '.join(things[:limit])} and {len(things) - limit} more"


def counted(count: int, singular: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{count} {singular}" if count == 1 else f"{count} {singular}s"
