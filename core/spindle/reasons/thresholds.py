"""Reasons about thresholds."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Full disks",
        "What is done about them, step by step, has [a page of its own](../full-disks.md). The condition `DisksHaveRoom` has the highest step that any disk has reached as its reason: `Warn`, `Move`, `Cordon`, `RejectMoves`, `DropReplicas`, `ReduceRetention`, `DeleteRecords`, `ThrottleProducers` or `BlockProducers`; `BelowThresholds` if none has. `status.disks[].usage.reason` says why: `UsedPercent` or `BytesFree` (which threshold it was), `Forecast` (it is expected to), `NotReleased` (it has fallen, and not far enough yet), `Room`. Each step up or down is an event, `ThresholdReached` or `ThresholdCleared`; `ReplicasDropped` and `RecordsDeleted` name what was given up.",
        (
            Reason(
                "InsufficientSpace",
                "a disk is too full, and no other one can take its replicas",
                "add disks or brokers, or delete data",
                "ticket",
            ),
            Reason(
                "CordonNotSupported",
                "a disk is to take nothing new, and this Kafka has no cordon",
                "`metadata.version` 4.3 or later",
                "ticket",
            ),
            Reason(
                "NoReplicaToDrop",
                "no replica on a disk that is too full can be given up: two copies always stay",
                "add disks or brokers, or delete data",
                "ticket",
            ),
            Reason(
                "RetentionReduced",
                "`lastResortActions.reduceRetention`: topics that fill a disk are kept half as long",
                "free space; it is put back by itself",
                "ticket",
            ),
            Reason(
                "ProducersThrottled",
                "`lastResortActions.throttleProducers`: users without a quota of their own are slowed down",
                "free space; it is put back by itself",
                "ticket",
            ),
            Reason(
                "ProducersBlocked",
                "`lastResortActions.blockProducers`: producers of topics on a disk get MESSAGE_TOO_LARGE",
                "free space; it is put back by itself",
                "ticket",
            ),
        ),
    ),
    Section(
        "Corrupt segments",
        "What is checked, how, and what can be done has [a page of its own](../scrubbing.md). `CorruptReplicasDropped` is the event of a replica that is made anew.",
        (
            Reason(
                "CorruptSegment",
                "a segment on a disk is not what was written",
                "`spec.disks.scrub.repair`, or make the replica anew by hand; replace a disk with several of them",
                "ticket",
            ),
            Reason(
                "RepairDeferred",
                "a corrupt replica may not be dropped now: others are not in sync, are corrupt as well or not known to be sound yet, or it would find no room",
                "as the message says",
                "ticket",
            ),
        ),
    ),
)
