"""What preflight's first half (``inspect``) saw of each disk, as its pod's termination message tells it."""

import json
from collections.abc import Mapping
from typing import Any

from spindle.cluster import names
from spindle.reconcile import objects
from spindle.reconcile.snapshot import Object


def inspected(pod: Object | None) -> Mapping[str, Mapping[str, Any]]:
    """Disk name → what was found there; empty while nothing was reported or where it can't be read."""
    if pod is None:
        return {}
    ended = objects.terminated(pod, names.CONTAINER_INSPECT)
    try:
        report = json.loads((ended or {}).get("message") or "{}")
        return {str(disk["name"]): disk for disk in report.get("disks", ())}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
