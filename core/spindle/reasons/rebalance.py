"""Reasons about samples, proposals and the rebalance job."""

from typing import Final

from spindle.reasons.reason import Reason, Section

_AGAIN: Final = "run the job again"

SECTIONS = (
    Section(
        "Samples",
        "Rebalance plans are made from [samples](../samples.md).",
        (
            Reason("SamplesTopicCreated", "the topic `__spindle_samples` was created"),
            Reason(
                "SamplesTopicSet", "settings of the topic `__spindle_samples` were set as the spec has them"
            ),
            Reason(
                "TopicNotManaged",
                "a topic `__spindle_samples` exists that Spindle did not create. Spindle does not touch it, and nothing is published",
                "delete it if it is not needed, or turn off `rebalance.samples`",
                "ticket",
            ),
            Reason(
                "WaitingForBrokers",
                "fewer brokers or racks are available than the topic is to have replicas",
                "nothing: it is created when they run; lower `spec.replicas` of a KafkaTopic if the cluster has no more brokers",
                "none",
            ),
        ),
    ),
    Section(
        "Proposals",
        "What a proposal waits for, why it ended and, in `status.dropped`, why one of its moves was omitted: [Rebalancing](../rebalance.md).",
        (
            Reason("RebalanceProposed", "a proposal was created"),
            Reason("RebalanceApproved", "a proposal was approved and waits for its turn"),
            Reason("RebalanceExecuting", "the execution of a proposal started"),
            Reason("RebalanceDone", "a proposal was executed"),
            Reason("RebalanceStopped", "a proposal was stopped; the message says why"),
            Reason("RebalanceExpired", "a proposal was not started in time and has expired"),
            Reason("RebalanceSuperseded", "a newer proposal replaced this one"),
            Reason("RebalanceFailed", "a proposal failed; the message says why"),
            Reason(
                "ApprovalRequired",
                "the proposal is not approved; the message says why the rules for automatic approval do not apply",
                "set `spec.approved` to the value of `spec.inputHash`",
                "ticket",
            ),
            Reason("ApprovedByUser", "an administrator approved the proposal"),
            Reason("ApprovedByRule", "a rule of the spec approved the proposal"),
            Reason(
                "Executing",
                "the proposal is being executed",
                "nothing: it ends; to end it sooner, set `spec.stop`",
                "none",
            ),
            Reason("Done", "the proposal was executed"),
            Reason(
                "AnotherProposalExecuting",
                "another proposal is being executed and is finished first",
                "nothing: it is next; or stop the other one",
                "none",
            ),
            Reason(
                "MaintenanceWindowClosed",
                "no maintenance window is open, or one of them cannot be read",
                "wait until the time in the message, or correct the window that cannot be read",
                "ticket",
            ),
            Reason(
                "MaxDurationExceeded",
                "the proposal has been executed for `maxDurationMinutes`. It starts no further moves, and is stopped when the moves in progress have ended",
                "raise `maxDurationMinutes`; otherwise a later run plans what is still needed",
                "ticket",
            ),
            Reason(
                "DiskFailureHasPriority",
                "a disk failed. A proposal that is being executed pauses, and is stopped when a disk is being evacuated or after half an hour",
                "nothing: it continues when the disk is evacuated or has recovered; a later run plans again what was stopped",
                "none",
            ),
            Reason("StoppedByUser", "an administrator stopped the proposal", _AGAIN, "ticket"),
            Reason(
                "ApprovalWithdrawn",
                "an administrator withdrew the approval, so the proposal was stopped",
                _AGAIN,
                "ticket",
            ),
            Reason(
                "Superseded",
                "a newer proposal was made before this one was started (and was approved, if this one was)",
                "approve the newer one",
                "ticket",
            ),
            Reason("Expired", "the proposal was not started in time", _AGAIN, "ticket"),
            Reason("NoMovesLeft", "none of the moves of the proposal is possible any more", _AGAIN, "ticket"),
            Reason(
                "InvalidProposal",
                "the proposal cannot be read, or contradicts itself; the message names the field",
                "delete it and run the job again",
                "ticket",
            ),
            Reason("MovesDropped", "moves of the proposal were omitted; the message says why"),
            Reason("TopicDeleted", "the topic of a move does not exist any more"),
            Reason(
                "ReplicaRelocated", "a replica is not where it was when the plan was made", _AGAIN, "ticket"
            ),
            Reason(
                "MoveNotStarted",
                "no move of the proposal made progress for half an hour, and this move was not started: other moves went first, or replicas of other partitions caught up",
                _AGAIN,
                "ticket",
            ),
            Reason(
                "ReplicaSizeChanged",
                "a replica has grown by more than a quarter and 256 MiB since the plan was made",
                _AGAIN,
                "ticket",
            ),
            Reason("TargetGone", "the target broker of a move does not exist any more", _AGAIN, "ticket"),
            Reason(
                "SourceDown",
                "the broker that has the replica does not answer",
                "bring the broker back",
                "ticket",
            ),
            Reason(
                "ProposalsUnknown",
                "the KafkaRebalances could not be read; moves in progress continue",
                "make sure that the API server answers and that the operator may list KafkaRebalances",
                "ticket",
            ),
        ),
    ),
    Section(
        "The rebalance job",
        "How the latest run ended (condition `RebalanceRuns`): [Rebalance job](../rebalance-job.md).",
        (
            Reason("Proposed", "a KafkaRebalance was created, or one from the same state exists already"),
            Reason("Balanced", "every disk and every broker is within its band"),
            Reason(
                "NoPlan",
                "moves are needed but not possible; the message says which, why, and what would make them possible",
                "do what the message says",
                "ticket",
            ),
            Reason(
                "ProposalUnderWay",
                "a proposal is approved and not done; the next plan has to use its result",
                "nothing: a later run plans again",
                "none",
            ),
            Reason(
                "Planned",
                "a run planned several clusters, with different outcomes; the message has all of them",
            ),
            Reason("RunSucceeded", "the run succeeded but left no message"),
            Reason(
                "RunFailed",
                "the run failed; the message has the error and the last lines of the log",
                "correct the error in the message",
                "ticket",
            ),
            Reason(
                "CredentialsUnreadable",
                "the client certificate (`--tls`) cannot be read",
                "check the Secret that the job mounts",
                "ticket",
            ),
            Reason(
                "KafkaUnreachable",
                "Kafka does not answer the job, or does not let it describe the cluster",
                "check the listener, the network and the rights of the job",
                "ticket",
            ),
            Reason(
                "KubernetesUnreachable",
                "the API server does not answer the job",
                "check the API server and the network",
                "ticket",
            ),
            Reason(
                "KubernetesRefused",
                "the API server rejected a request of the job",
                "check the rights of the job's ServiceAccount",
                "ticket",
            ),
            Reason(
                "NoSuchCluster",
                "there is no KafkaCluster of that name in the namespace",
                "correct the name or the namespace",
                "ticket",
            ),
            Reason(
                "SamplesUnreadable",
                "the topic `__spindle_samples` cannot be read; the message has the offsets",
                "check the topic and the brokers that have its replicas",
                "ticket",
            ),
            Reason(
                "RecordUnreadable",
                "objects have a format that this version does not know, or the directory of `--replay` cannot be read",
                "use the same version of the job and the CRDs, or correct the path",
                "ticket",
            ),
            Reason(
                "EngineFailed",
                "Spark failed",
                "check the memory of the pod (also if its JVM does not respond any more) and the executors",
                "ticket",
            ),
            Reason(
                "RollupFailed",
                "the job cannot write to `spec.rebalance.rollup`; its proposal was created. The next run that can write adds the missing hours",
                "check path, credentials and settings; the message has the store's response",
                "ticket",
            ),
            Reason(
                "Interrupted",
                "the run reached its deadline (`spec.rebalance.engine.deadlineMinutes`), or the Job was deleted",
                "raise the deadline, or find out who deleted the Job",
                "ticket",
            ),
            Reason(
                "JobUnreadable",
                "the operator could not read the objects of the rebalance job, and leaves them as they are",
                "upgrade the chart, so that the operator's role allows it to list them",
                "ticket",
            ),
        ),
    ),
)
