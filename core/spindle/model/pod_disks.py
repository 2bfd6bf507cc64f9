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
    try:
        entry = _entry(pod, disk)
        return str(entry.get("mode") or disk_facts.ACTIVE) if entry is not None else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return disk_facts.ACTIVE  # unknown, so it counts as mounted


def another_in(pod: SnapshotObject | None, disk: str, directory_id: object) -> bool:
    """Whether a pod was created with another disk of that name, which has been replaced since."""
    if pod is None:
        return False
    try:
        entry = _entry(pod, disk)
        if entry is None or entry.get("mode") != disk_facts.ACTIVE:
            return False
        return bool(entry["directoryId"] != directory_id)
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _entry(pod: SnapshotObject, disk: str) -> Mapping[str, Any] | None:
    """A disk's entry in the annotation; raises ValueError, KeyError, TypeError or AttributeError if it cannot be parsed."""
    return _parsed(objects.annotation(pod, names.ANN_DISKS) or "[]").get(disk)


@lru_cache(maxsize=_PARSED)
def _parsed(text: str) -> Mapping[str, Mapping[str, Any]]:
    """The parsed annotation by disk; shared by all callers, so it must not be modified."""
    return {entry["name"]: entry for entry in reversed(json.loads(text))}
