"""A user who reads ``status.waiting`` and follows ``unblockedBy``."""

import re
import time
from typing import Any, Final

from e2e.chaos.bench import Bench
from e2e.scenarios.disk_slot import slots

_PATIENCE: Final = 45.0  # seconds that the user lets Spindle try by itself
_NEW_DISK: Final = frozenset(
    {"ReplacementNeeded", "RetiredDiskReinserted", "UnexpectedDisk", "DiskContentLost"}
)
_DELETE_POD: Final = re.compile(r"kubectl delete pod ([a-z0-9-]+)")


class People:
    """Reads ``status.waiting``, and follows an entry that has been there for a while."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._seen: dict[tuple[str, str], float] = {}

    def help(self, waits: list[dict[str, Any]]) -> None:
        """Follow the entries that are due now."""
        now = time.monotonic()
        there = {(wait["reason"], wait["object"]): wait for wait in waits}
        self._seen = {key: self._seen.get(key, now) for key in there}
        for key, wait in there.items():
            if now - self._seen[key] >= _PATIENCE and self._act(wait):
                self._seen[key] = now
                print(
                    f"   user follows {wait['reason']} of {wait['object']}: {wait['unblockedBy']}",
                    flush=True,
                )

    def _act(self, wait: dict[str, Any]) -> bool:
        if wait["reason"] in _NEW_DISK and wait["object"].count("/") == 2:
            _, owner, disk = wait["object"].split("/")
            for slot in slots(self._bench.lab).values():
                if (slot.owner, slot.disk) == (owner, disk):
                    self._bench.machine.new_disk(slot.volume)
                    return True
        if wait["reason"] == "RestartDeadlock" and (named := _DELETE_POD.search(wait["unblockedBy"])):
            self._bench.lab.kubectl("delete", "pod", named[1], "--wait=false", "--ignore-not-found")
            return True
        return False
