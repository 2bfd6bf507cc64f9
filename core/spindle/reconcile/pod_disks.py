"""Which disks a pod was made with, as its annotation says."""

import json

from spindle.cluster import names
from spindle.disks import facts
from spindle.reconcile import objects
from spindle.reconcile.snapshot import Object


def mode_in(pod: Object | None, disk: str) -> str | None:
    """The mode in which a pod has a disk; None without a pod, or where the pod is without it."""
    if pod is None:
        return None
    try:
        named = json.loads(objects.annotation(pod, names.ANN_DISKS) or "[]")
        return next((str(d.get("mode") or facts.ACTIVE) for d in named if d["name"] == disk), None)
    except (ValueError, KeyError, TypeError, AttributeError):
        return facts.ACTIVE  # nobody knows; so it counts as mounted


def another_in(pod: Object | None, disk: str, directory_id: object) -> bool:
    """Whether a pod was made with another disk of that name, which has been replaced since."""
    if pod is None:
        return False
    try:
        named = json.loads(objects.annotation(pod, names.ANN_DISKS) or "[]")
        before = [d["directoryId"] for d in named if d["name"] == disk and d.get("mode") == facts.ACTIVE]
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return bool(before) and before[0] != directory_id
