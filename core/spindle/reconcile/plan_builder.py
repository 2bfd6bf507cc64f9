"""The plan while it is being written: actions, events and waits, collected by the steps in turn."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spindle.cluster.refusal import Refusal
from spindle.reconcile.actions import Action
from spindle.reconcile.events import Event
from spindle.reconcile.times import stamp


@dataclass(frozen=True)
class Wait:
    """One thing that is held back (an entry of ``status.waiting``).

    Attributes:
        action: what would be done, CamelCase (``CreatePod``, ``Format``, …).
        object: what it regards, ``Kind/name``.
        reason: why not, CamelCase.
        message: one or two sentences for a person.
        unblocked_by: what a person can do, or what Spindle waits for.
        quiet: part of every normal start; shown in status, but no event and no word of alarm.
    """

    action: str
    object: str
    reason: str
    message: str
    unblocked_by: str
    quiet: bool = False

    @classmethod
    def refused(cls, action: str, thing: str, refusal: Refusal) -> "Wait":
        """A wait for a refusal by one of the safety rules."""
        return cls(action, thing, refusal.reason, refusal.message, refusal.unblocked_by)

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes two waits the same one over time."""
        return (self.action, self.object, self.reason)


@dataclass
class PlanBuilder:
    """Collects what the steps of one pass decide."""

    actions: list[Action] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _known: set[tuple[str, str, str]] = field(default_factory=set, init=False, repr=False, compare=False)

    def do(self, *actions: Action) -> None:
        """Add actions, in order."""
        self.actions.extend(actions)

    def wait(self, *waits: Wait) -> None:
        """Add waits; a second one with the same key is dropped."""
        for wait in waits:
            if wait.key not in self._known:
                self._known.add(wait.key)
                self.waits.append(wait)

    def waiting_status(self, before: Iterable[dict[str, Any]], now: float) -> list[dict[str, Any]]:
        """``status.waiting``: the waits, each with the time since when it has been there."""
        since = {(b.get("action"), b.get("object"), b.get("reason")): b.get("since") for b in before}
        return [
            {
                "action": wait.action,
                "object": wait.object,
                "reason": wait.reason,
                "message": wait.message,
                "since": since.get(wait.key) or stamp(now),
                "unblockedBy": wait.unblocked_by,
            }
            for wait in sorted(self.waits, key=lambda w: (w.quiet, w.object, w.action, w.reason))
        ]
