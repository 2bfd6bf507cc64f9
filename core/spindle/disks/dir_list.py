"""A broker's list of its log dirs: disk → directory id, with a generation that grows with each change.

It stands on the KafkaBroker, on each of the broker's claims and in ``spindle.json`` on each of its disks, so that a broker that is found
again by its claims is not started without a disk: the list with the highest generation counts (rule 15).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DirList:
    """The dirs that may hold replicas; a disk that was never formatted, or that was removed, is not among them.

    Attributes:
        generation: grows by one with each change; 0 for no list.
        dirs: disk → directory id.
    """

    generation: int = 0
    dirs: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is a list."""
        return self.generation > 0

    def document(self) -> dict[str, Any]:
        """As JSON has it; equal lists give equal documents."""
        dirs = [{"name": name, "directoryId": self.dirs[name]} for name in sorted(self.dirs)]
        return {"generation": self.generation, "dirs": dirs}

    def text(self) -> str:
        """As an annotation has it."""
        return json.dumps(self.document(), separators=(",", ":"))

    def changed_to(self, dirs: Mapping[str, str]) -> "DirList":
        """The list with these dirs: the same one if they are the same."""
        return self if self and dict(self.dirs) == dict(dirs) else DirList(self.generation + 1, dict(dirs))


NO_LIST = DirList()


def read_list(document: object) -> DirList:
    """A list from its document; `NO_LIST` if it is none, or cannot be understood."""
    try:
        generation, dirs = int(document["generation"]), document["dirs"]  # type: ignore[index]
        found = {str(entry["name"]): str(entry["directoryId"]) for entry in dirs}
    except (KeyError, TypeError, ValueError, OverflowError):
        return NO_LIST
    return DirList(generation, found) if generation > 0 else NO_LIST


def parse_list(text: str | None) -> DirList:
    """A list from its text; `NO_LIST` if there is none, or it cannot be understood."""
    try:
        return read_list(json.loads(text)) if text else NO_LIST
    except (ValueError, RecursionError):
        return NO_LIST


def newest(lists: Iterable[DirList]) -> DirList:
    """The list with the highest generation; of several the longest, since a dir too many does less harm than one too few."""
    return max(lists, key=lambda each: (each.generation, len(each.dirs), each.text()), default=NO_LIST)
