"""What preflight's first half (``inspect``) saw of each disk, as its pod's termination message tells it."""

from collections.abc import Mapping
from typing import Any

from spindle.cluster import names
from spindle.disks import report
from spindle.reconcile import objects
from spindle.reconcile.snapshot import Object


def inspected(pod: Object | None) -> Mapping[str, Mapping[str, Any]]:
    """Disk name → what was found there; empty while nothing was reported or where it can't be read."""
    if pod is None:
        return {}
    ended = objects.terminated(pod, names.CONTAINER_INSPECT)
    try:
        return report.parse((ended or {}).get("message") or "")
    except ValueError:
        return {}
