"""What preflight's first container (``inspect``) found on each disk, from its termination message."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from spindle.api import names
from spindle.model import inspection, objects
from spindle.model.dir_list import DirList
from spindle.model.snapshot import SnapshotObject

_PARSED: Final = 4096  # cached reports: a pod's report does not change, and each pass reads it several times


def inspected(pod: SnapshotObject | None) -> Mapping[str, Mapping[str, Any]]:
    """Disk name → what was found there; empty while nothing was reported or if it cannot be parsed."""
    return _parsed(_said(pod))


def handed_over(pod: SnapshotObject | None) -> Mapping[str, Mapping[str, Any]]:
    """Disk name → what preflight found when it let Kafka start; empty if it has not, or if its report cannot be parsed.

    The disks may have changed since `inspected`: preflight can wait for days in between.
    """
    ended = (objects.terminated(pod, names.CONTAINER_PREFLIGHT) if pod is not None else None) or {}
    return _parsed(str(ended.get("message") or "")) if ended.get("exitCode") == 0 else {}


@lru_cache(maxsize=_PARSED)
def _parsed(said: str) -> Mapping[str, Mapping[str, Any]]:
    """The parsed report; shared by all callers, so it must not be modified."""
    try:
        return inspection.parse(said)
    except ValueError:
        return {}


def listed_on_disks(pod: SnapshotObject | None) -> DirList:
    """The newest list of log dirs on the broker's disks; `NO_LIST` if none is newer than the pod's own."""
    return inspection.parse_log_dirs(_said(pod))


def nonce_of(pod: SnapshotObject | None) -> str | None:
    """The nonce of this inspection, which a clearance repeats; None for a pod of a version without nonces."""
    return inspection.parse_nonce(_said(pod))


def _said(pod: SnapshotObject | None) -> str:
    ended = objects.terminated(pod, names.CONTAINER_INSPECT) if pod is not None else None
    return str((ended or {}).get("message") or "")
