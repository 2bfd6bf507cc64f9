"""Reasons about rebalance."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Samples",
        "[Samples](../samples.md) are what plans are made from. Events: `SamplesTopicCreated`, `SamplesTopicSet`.",
        (
            Reason(
                "TopicNotManaged",
                "a topic `__spindle_samples` is there that Spindle has not made; it is left alone, and nothing is published",
                "delete it if nobody needs it, or turn off `rebalance.samples`",
                "ticket",
            ),
            Reason(
                "WaitingForBrokers",
                "the topic is to stand on as many brokers and racks as it has copies, and fewer run",
                "nothing: they start",
                "none",
            ),
        ),
    ),
    Section(
        "Rebalancing",
        "What a proposal waits for, and in `status.dropped` why one of its moves was left out. More in [Rebalancing](../rebalance.md).",
        (
            Reason(
                "ApprovalRequired",
                "nobody has approved the proposal; the message says why the rules have not",
                "set `spec.approved` to the value of `spec.inputHash`",
                "ticket",
            ),
            Reason(
                "AnotherProposalExecuting",
                "another proposal is being carried out and is finished first",
                "it ends, or a person stops it",
                "ticket",
            ),
            Reason(
                "MaintenanceWindowClosed",
                "no maintenance window is open, or one of them cannot be read",
                "one opens; when, the message says",
                "ticket",
            ),
            Reason(
                "MaxDurationExceeded",
                "the proposal has been carried out for `maxDurationMinutes`: nothing more of it begins, and it is stopped when what is in motion has landed",
                "a larger `maxDurationMinutes`; else a later run plans what is still needed",
                "ticket",
            ),
            Reason(
                "DiskFailureHasPriority",
                "a disk failed; a proposal that is being carried out pauses, and is stopped when a disk is being emptied or after half an hour",
                "the disk is evacuated or well again; what was stopped a later run plans anew",
                "ticket",
            ),
            Reason(
                "PartitionsUnderMinIsr",
                "partitions have fewer copies in sync than they need; a proposal that is being carried out pauses, and is stopped after half an hour",
                "they catch up; what was stopped a later run plans anew",
                "ticket",
            ),
            Reason("StoppedByUser", "a person ended it", "a new run", "ticket"),
            Reason("ApprovalWithdrawn", "a person ended it", "a new run", "ticket"),
            Reason(
                "Superseded",
                "a newer proposal was made before this one was begun, and approved if this one was",
                "approve that one",
                "ticket",
            ),
            Reason("Expired", "it was not begun in time", "a new run", "ticket"),
            Reason("NoMovesLeft", "none of its moves held any more", "a new run", "ticket"),
            Reason(
                "InvalidProposal",
                "it cannot be read, or contradicts itself; the message names the field",
                "delete it and have a new one made",
                "ticket",
            ),
            Reason("TopicDeleted", "a move's topic is gone", "nothing", "none"),
            Reason(
                "ReplicaRelocated",
                "a replica is not where it was when the plan was made",
                "a new run",
                "ticket",
            ),
            Reason(
                "MoveNotStarted",
                "for half an hour nothing of a proposal moved, and this move was not begun: others went first, or copies of other partitions caught up",
                "a new run",
                "ticket",
            ),
            Reason(
                "ReplicaSizeChanged",
                "a replica is larger than planned by more than a quarter and 256 MiB",
                "a new run",
                "ticket",
            ),
            Reason("TargetGone", "the broker that a replica was to go to is gone", "a new run", "ticket"),
            Reason(
                "SourceDown", "the broker that a replica is to leave does not answer", "it is back", "ticket"
            ),
            Reason(
                "ProposalsUnknown",
                "KafkaRebalances could not be read; what is in motion goes on",
                "the API server answers, and the operator may list them",
                "ticket",
            ),
            Reason(
                "JobUnreadable",
                "the objects of the rebalance job could not be read; they are left as they are",
                "the operator's role allows to list them: upgrade the chart",
                "ticket",
            ),
            Reason(
                "RunSucceeded",
                "how the latest run of the rebalance job went (condition `RebalanceRuns`)",
                "the message has the reason and the last lines",
                "ticket",
            ),
            Reason(
                "RunFailed",
                "how the latest run of the rebalance job went (condition `RebalanceRuns`)",
                "the message has the reason and the last lines",
                "ticket",
            ),
        ),
    ),
)
