"""Usage and usage level of each disk, computed once in a pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spindle.api.thresholds import UsageLevel
from spindle.disks.broker_disks import BrokerDisk
from spindle.model import disk_facts
from spindle.model.bounds import BY_LABEL, DiskBounds, disk_bounds
from spindle.model.levels import LevelVerdict, decide_level
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp


@dataclass(frozen=True)
class DiskUsage:
    """One disk.

    Attributes:
        used: bytes in use; released ballast counts, so that releasing it does not lower the level.
        others: bytes that belong to no replica: foreign files, and logs that Kafka is about to delete.
        since: when the level was reached, in seconds since the epoch.
        before: the level before this pass.
    """

    levels: DiskBounds
    used: int
    others: int
    verdict: LevelVerdict
    since: float
    before: UsageLevel

    @property
    def level(self) -> UsageLevel:
        """The usage level."""
        return self.verdict.level


def find_disk_usage(state: ClusterState, slot: BrokerDisk) -> DiskUsage | None:
    """Usage of a disk; None while unknown: then Spindle neither takes nor reverts an action."""
    size = _size(slot)
    if size is None or slot.mode != disk_facts.ACTIVE:
        return None
    capacity, in_use = size
    used = in_use + _given_up(state, slot)
    levels_of = disk_bounds(capacity, state.thresholds_of(slot.broker), state.spec.disks.last_resort_actions)
    recorded, before = slot.before.get("usage") or {}, recorded_level(slot)
    # The forecast of an agent that does not report is stale.
    cordon_in = _cordon_in(state, slot) if slot.watched else None
    verdict = decide_level(used, levels_of, before, cordon_in)
    since = seconds(recorded.get("since")) if verdict.level is before else None
    return DiskUsage(
        levels_of, used, _others(slot, used), verdict, state.now if since is None else since, before
    )


def recorded_level(slot: BrokerDisk) -> UsageLevel:
    """The level in the status; Normal if it has none that this version knows."""
    return BY_LABEL.get(str((slot.before.get("usage") or {}).get("level")), UsageLevel.NORMAL)


def status_of(fill: DiskUsage | None, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """``status.disks[].usage``; the previous value while the usage is unknown."""
    if fill is None:
        return before.get("usage") or {}
    return {
        "level": fill.level.label,
        "since": stamp(fill.since),
        "reason": fill.verdict.reason,
        "message": fill.verdict.message,
        "usedPercent": fill.verdict.used_percent,
    }


def _size(slot: BrokerDisk) -> tuple[int, int] | None:
    """Capacity and used bytes from Kafka, else from the agent."""
    known = slot.log_dir
    if known is not None and not known.error and known.total_bytes and known.usable_bytes is not None:
        return known.total_bytes, known.total_bytes - known.usable_bytes
    capacity, used = slot.observed.get("capacityBytes"), slot.observed.get("usedBytes")
    if not slot.watched or not capacity or used is None:
        return None
    return int(capacity), int(used)


def _given_up(state: ClusterState, slot: BrokerDisk) -> int:
    """Bytes of ballast that should exist and do not."""
    standing = slot.observed.get("ballastBytes")
    wanted = state.spec.disks.ballast_bytes
    return 0 if standing is None or not wanted else max(0, wanted - int(standing))


def _cordon_in(state: ClusterState, slot: BrokerDisk) -> float | None:
    """Forecast seconds until the Cordon level; None for never or unknown."""
    found = ((slot.observed.get("forecast") or {}).get("cordonAt") or {}).get("at")
    at = slot.operator_time(found) if isinstance(found, str) else None
    return None if at is None else at - state.now


def _others(slot: BrokerDisk, used: int) -> int:
    known = slot.log_dir
    return max(0, used - (known.log_bytes if known is not None else 0))
