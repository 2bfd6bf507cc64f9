"""The disks of a pod, from its annotation."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from spindle.api import names
from spindle.model import disk_facts, objects
from spindle.model.snapshot import SnapshotObject

_PARSED: Final = 4096  # cached annotations: that of a pod does not change


def mode_in(pod: SnapshotObject | None, disk: str) -> str | None:
    """The mode in which a pod has a disk; None without a pod, or if the pod does not have it."""
    if pod is None:
        return None
    disks, complete = _disks(pod)
    if disk not in disks:
        return None if complete else disk_facts.ACTIVE  # unknown, so it counts as mounted
    return str(disks[disk].get("mode") or disk_facts.ACTIVE)


def another_in(pod: SnapshotObject | None, disk: str, directory_id: object) -> bool:
    """Whether a pod was created with another disk of that name, which has been replaced since."""
    entry = _disks(pod)[0].get(disk) if pod is not None else None
    if entry is None or entry.get("mode") != disk_facts.ACTIVE or "directoryId" not in entry:
        return False
    return bool(entry["directoryId"] != directory_id)


def _disks(pod: SnapshotObject) -> tuple[Mapping[str, Mapping[str, Any]], bool]:
    return _parsed(objects.annotation(pod, names.ANN_DISKS) or "[]")


@lru_cache(maxsize=_PARSED)
def _parsed(text: str) -> tuple[Mapping[str, Mapping[str, Any]], bool]:
    """The disks that can be read in the annotation, and whether these are all; shared by all callers, so it must not be modified."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return {}, False
    if not isinstance(entries, list):
        return {}, False
    found = [each for each in entries if isinstance(each, dict) and isinstance(each.get("name"), str)]
    return {each["name"]: each for each in reversed(found)}, len(found) == len(entries)
