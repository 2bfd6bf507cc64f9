"""Reasons about full disks."""

from typing import Final

from spindle.reasons.reason import Reason, Section

_SPACE: Final = "add disks or brokers, or delete data"
_FREE: Final = "free space; the setting is then restored automatically"

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
            Reason(
                "ReduceRetention",
                "a disk has reached the level ReduceRetention: the retention of the topics that fill it is halved",
                _SPACE,
                "page",
            ),
            Reason(
                "DeleteRecords",
                "a disk has reached the level DeleteRecords: the oldest records on it are deleted",
                _SPACE,
                "page",
            ),
            Reason(
                "ThrottleProducers",
                "a disk has reached the level ThrottleProducers: producers without their own quota are throttled",
                _SPACE,
                "page",
            ),
            Reason(
                "BlockProducers",
                "a disk has reached the level BlockProducers: producers of the topics on it are blocked",
                _SPACE,
                "page",
            ),
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
            Reason(
                "RetentionReduced",
                "`lastResortActions.reduceRetention`: the retention of topics that fill a disk is halved",
                _FREE,
                "page",
            ),
            Reason(
                "RecordsDeleted",
                "`lastResortActions.deleteRecords`: the oldest records of partitions on a disk that is nearly full were deleted",
            ),
            Reason(
                "ProducersThrottled",
                "`lastResortActions.throttleProducers`: users without their own quota are throttled",
                _FREE,
                "page",
            ),
            Reason(
                "ProducersBlocked",
                "`lastResortActions.blockProducers`: producers of topics on a disk get MESSAGE_TOO_LARGE",
                _FREE,
                "page",
            ),
        ),
    ),
)
