"""A broker's list of its log dirs: disk → directory id, with a generation that increases with each change.

It is stored on the KafkaBroker, on each of the broker's claims and in ``spindle.json`` on each of its disks, so that a broker that is
recovered from its claims does not start without a disk: the list with the highest generation is valid. See "no start with a log dir missing"
(`docs/safety.md`, rule 15).
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

_PARSED: Final = 4096  # cached texts: a list rarely changes


@dataclass(frozen=True)
class DirList:
    """The dirs that may hold replicas; a disk that was never formatted, or was removed, is not included.

    Attributes:
        generation: increases by one with each change; 0 for no list.
        dirs: disk → directory id.
    """

    generation: int = 0
    dirs: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is a list."""
        return self.generation > 0

    def document(self) -> dict[str, Any]:
        """The list as a JSON document; equal lists give equal documents."""
        dirs = [{"name": name, "directoryId": self.dirs[name]} for name in sorted(self.dirs)]
        return {"generation": self.generation, "dirs": dirs}

    def text(self) -> str:
        """The list as the text of an annotation."""
        return json.dumps(self.document(), separators=(",", ":"))

    def changed_to(self, dirs: Mapping[str, str]) -> "DirList":
        """The list with these dirs: the same list if they are unchanged."""
        return self if self and dict(self.dirs) == dict(dirs) else DirList(self.generation + 1, dict(dirs))


NO_LIST = DirList()


def read_list(document: object) -> DirList:
    """A list from its document; `NO_LIST` if the document is not a valid list."""
    try:
        generation, dirs = int(document["generation"]), document["dirs"]  # type: ignore[index]
        found = {str(entry["name"]): str(entry["directoryId"]) for entry in dirs}
    except (KeyError, TypeError, ValueError, OverflowError):
        return NO_LIST
    return DirList(generation, found) if generation > 0 else NO_LIST


@lru_cache(maxsize=_PARSED)
def parse_list(text: str | None) -> DirList:
    """A list from its text; `NO_LIST` if there is none, or it is not valid."""
    try:
        return read_list(json.loads(text)) if text else NO_LIST
    except (ValueError, RecursionError):
        return NO_LIST


def newest(lists: Iterable[DirList]) -> DirList:
    """The list with the highest generation; of several, the longest, because an extra dir does less harm than a missing one."""
    found = [each for each in lists if each]
    if len(found) < 2:  # nearly always
        return found[0] if found else NO_LIST
    return max(found, key=lambda each: (each.generation, len(each.dirs), each.text()))
