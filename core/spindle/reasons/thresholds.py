"""Reasons about full disks."""

from typing import Final

from spindle.api.thresholds import EFFECTS, LAST_RESORTS, UsageLevel
from spindle.reasons.reason import Reason, Section

_SPACE: Final = "add disks or brokers, or delete data"
_FREE: Final = "free space; the setting is then restored automatically"


def _level(level: UsageLevel) -> Reason:
    """The reason of the condition ``DiskPressure`` for a last-resort level."""
    effect = EFFECTS[level].rstrip(".")
    return Reason(
        level.label, f"a disk has reached the level {level.label}: {_lower(effect)}", _SPACE, "page"
    )


def _applied(level: UsageLevel) -> Reason:
    """The reason that says that a last-resort action is applied."""
    action = LAST_RESORTS[level]
    means = f"`lastResortActions.{_lower(level.label)}`: {action.means}"
    return Reason(action.reason, means, _FREE, "page") if action.restored else Reason(action.reason, means)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


SECTIONS = (
    Section(
        "Full disks",
        "[Full disks](../full-disks.md) describes the usage levels and their actions. The reason of the condition `DiskPressure` is the highest level that any disk has reached, or `BelowThresholds`. `status.disks[].usage.reason` says why a disk has its level.",
        (
            Reason("BelowThresholds", "every disk is below its thresholds"),
            Reason(
                "Warn",
                "a disk has reached the level Warn, and nothing is done yet",
                "nothing: Spindle acts at the next levels",
                "none",
            ),
            Reason(
                "Move",
                "a disk has reached the level Move: replicas are moved to disks with more space",
                "nothing: the replicas move",
                "none",
            ),
            Reason(
                "Cordon",
                "a disk has reached the level Cordon: it gets no new replicas, and replicas are moved away",
                _SPACE,
                "ticket",
            ),
            Reason(
                "RejectMoves",
                "a disk has reached the level RejectMoves: no move may use it as a target",
                _SPACE,
                "ticket",
            ),
            Reason(
                "DropReplicas",
                "a disk has reached the level DropReplicas: a replica is dropped where enough others are in sync",
                _SPACE,
                "page",
            ),
            *(_level(level) for level in LAST_RESORTS),
            Reason("UsedPercent", "the disk has its level because of the share of its space that is used"),
            Reason("BytesFree", "the disk has its level because of its free bytes"),
            Reason("Forecast", "the disk has its level because it is expected to reach the threshold soon"),
            Reason(
                "NotReleased",
                "the disk keeps its level: its usage has fallen below the threshold, but not by `hysteresis` yet",
            ),
            Reason("Room", "the disk has enough space"),
            Reason("ThresholdReached", "a disk has reached a higher usage level"),
            Reason("ThresholdCleared", "a disk has fallen below a usage level"),
            Reason(
                "InsufficientSpace",
                "a disk is too full, and no other disk can take its replicas",
                _SPACE,
                "ticket",
            ),
            Reason(
                "CordonNotSupported",
                "a disk is to get no new replicas, but this version of Kafka has no cordon",
                "raise `metadata.version` to 4.3 or later",
                "ticket",
            ),
            Reason(
                "NoReplicaToDrop",
                "no replica on a disk that is too full can be dropped, because two replicas always stay",
                _SPACE,
                "page",
            ),
            Reason(
                "ReplicasDropped",
                "replicas were dropped because their disk is too full and nothing else helps; they are restored when there is space",
            ),
            *(_applied(level) for level in LAST_RESORTS),
        ),
    ),
)
