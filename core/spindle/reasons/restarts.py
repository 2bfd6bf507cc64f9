"""Reasons about restarts and stops."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Restarts",
        "[Rolling restarts](../rolling.md) describes in which order brokers and controllers restart. [No restart below min.insync.replicas](../safety.md#rule-2) is the rule behind most of these reasons. `status.takingDown` says why a node restarts: `SpecChanged`, `CertificateRenewed`, `Fenced`, `Stopped`, `DisksAdded` and others of this page.",
        (
            Reason(
                "Stopped",
                "a broker is stopped because `spec.maintenance.stopped` is true; also the state of a stopped proposal",
            ),
            Reason(
                "StoppedBrokerNeeded",
                "a broker is stopped by `spec.maintenance.stopped`, and partitions have no leader without it: they had none when it stopped, because a disk was offline, or other brokers have failed since",
                "start the broker: `spindle broker start`",
                "page",
            ),
            Reason(
                "Fenced",
                "a broker is restarted because Kafka has fenced it although its process is healthy ([a broker that stays fenced](../operations.md#a-broker-that-stays-fenced))",
            ),
            Reason(
                "WouldBeUnderMinIsr",
                "without the broker, partitions would have fewer than `min.insync.replicas` in-sync replicas, so it is not stopped",
                "nothing: it continues when their other replicas have caught up; [two brokers that wait for each other](../disk-failed.md#two-brokers-that-wait-for-each-other) need an administrator",
                "none",
            ),
            Reason(
                "RestartDeadlock",
                "brokers have to restart because of their disks, but each is needed by a partition that another one of them lacks. The entry names all of them, each with its partitions",
                "let the broker go that the entry names, with the token in the entry (`spec.acceptUnavailable`): [two brokers that wait for each other](../disk-failed.md#two-brokers-that-wait-for-each-other)",
                "page",
            ),
            Reason(
                "MinIsrUnknown",
                "`min.insync.replicas` of a topic is not known",
                "nothing: Spindle asks Kafka again",
                "none",
            ),
            Reason(
                "ReassignmentInProgress",
                "partitions are being moved to this broker, or are on its dead disk and are being reassigned",
                "wait until the reassignment ends, or cancel it; if another client started it and `kafka-reassign-partitions.sh` can cancel it, the entry has the command",
                "ticket",
            ),
            Reason(
                "ProgressDeadlineExceeded",
                "a restarted node is not back in sync after `spec.rolling.backWithinSeconds`; or a node did not stop within that time, because its eviction is refused (the entry names the PodDisruptionBudget) or its process does not end. No further node is restarted for a change",
                "bring the node back, let its eviction through, or correct the change",
                "ticket",
            ),
            Reason(
                "CrashLooping",
                "Kafka has exited three times in a pod. No further node is restarted for a change",
                "make Kafka run for ten minutes, or correct the change",
                "ticket",
            ),
            Reason(
                "RolloutStalled",
                "the rollout of a change does not continue, because of `ProgressDeadlineExceeded` or `CrashLooping`",
                "resolve that entry",
                "ticket",
            ),
            Reason(
                "LoadingLogs",
                "the broker [loads its logs](../starts.md); a restart would make it start over",
                "nothing: it loads them",
                "none",
            ),
            Reason(
                "IntraBrokerMovesInProgress",
                "replicas are being copied between disks of the broker",
                "nothing: the copies end; after half an hour the broker is restarted nevertheless",
                "none",
            ),
        ),
    ),
)
