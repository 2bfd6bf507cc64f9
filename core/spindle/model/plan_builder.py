"""Collects the actions, events and waiting entries of one pass."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.model import objects
from spindle.model.actions import Action, Create, Delete
from spindle.model.events import Event
from spindle.model.times import stamp
from spindle.model.waiting import TEXT_LEFT_OUT, Waiting

MOST_LISTED: Final = 1000  # entries of status.waiting, as its schema has it
MOST_TEXT: Final = 450_000  # bytes of all their texts: the status of 1,000 brokers must fit into one object


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

    def withhold(self, kind: str, name: str) -> None:
        """Take back the creation of an object: a later step of the pass has decided something that it is made from."""
        self.actions[:] = [
            each
            for each in self.actions
            if not (
                isinstance(each, Create)
                and each.object["kind"] == kind
                and each.object["metadata"]["name"] == name
            )
        ]

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

    @property
    def listed(self) -> list[Waiting]:
        """The entries that the status has room for, those that need attention first."""
        return sorted(self.waits, key=lambda wait: wait.order)[:MOST_LISTED]

    def waiting_status(self, before: Iterable[dict[str, Any]], now: float) -> list[dict[str, Any]]:
        """``status.waiting``: the entries, each with the time of its first appearance.

        Texts of entries for which `MOST_TEXT` has no room are left out. What passes read back, the key and the time (`ClusterState.waited`), is kept. Entries for which there
        is no room have waited for no time yet: what depends on the time waits longer.
        """
        since = {(b.get("action"), b.get("object"), b.get("reason")): b.get("since") for b in before}
        left, entries = MOST_TEXT, []
        for wait in self.listed:
            left -= len(wait.message.encode()) + len(wait.unblocked_by.encode())
            entries.append(
                {
                    "action": wait.action,
                    "object": wait.object,
                    "reason": wait.reason,
                    "message": wait.message if left >= 0 else TEXT_LEFT_OUT,
                    "since": since.get(wait.key) or stamp(now),
                    "unblockedBy": wait.unblocked_by if left >= 0 else _way_to_the_text(wait.reason),
                }
            )
        return entries


def _way_to_the_text(reason: str) -> str:
    return f"Resolve the entries before this one; its text follows then. What the reason means: spindle explain {reason}"
