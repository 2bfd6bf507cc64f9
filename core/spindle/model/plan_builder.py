"""Collects the actions, events and waiting entries of one pass."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from spindle.model import objects
from spindle.model.actions import Action, Delete
from spindle.model.events import Event
from spindle.model.times import stamp
from spindle.model.waiting import Waiting


@dataclass
class PlanBuilder:
    """Collects what the steps of one pass decide."""

    actions: list[Action] = field(default_factory=list)
    waits: list[Waiting] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    _known: set[tuple[str, str, str]] = field(default_factory=set, init=False, repr=False, compare=False)

    def do(self, *actions: Action) -> None:
        """Add actions, in order."""
        self.actions.extend(actions)

    def delete(
        self,
        kind: str,
        obj: objects.RawObject,
        reason: str = "",
        message: str = "",
        *,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object, unless it is being deleted already."""
        if not objects.deleting(obj):
            name, uid = objects.name(obj), objects.uid(obj)
            self.do(
                Delete(
                    kind=kind, name=name, uid=uid, grace_seconds=grace_seconds, reason=reason, message=message
                )
            )

    def wait(self, *waits: Waiting) -> None:
        """Add waiting entries; a second one with the same key is dropped."""
        for wait in waits:
            if wait.key not in self._known:
                self._known.add(wait.key)
                self.waits.append(wait)

    def waiting_status(self, before: Iterable[dict[str, Any]], now: float) -> list[dict[str, Any]]:
        """``status.waiting``: the entries, each with the time of its first appearance."""
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
            for wait in sorted(self.waits, key=lambda wait: wait.order)
        ]
