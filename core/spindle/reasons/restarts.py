"""Reasons about restarts."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Taking down",
        "",
        (
            Reason(
                "RestartDeadlock",
                "brokers that have to restart for their disks are each needed by a partition that another one of them lacks; the entry has all of them, each with its partitions",
                "let the one go that the entry names, with the word that it gives (`spec.acceptUnavailable`): [two that wait for each other](../disk-failed.md#two-brokers-that-wait-for-each-other)",
                "ticket",
            ),
            Reason(
                "WouldBeUnderMinIsr",
                "partitions would have too few copies in sync",
                "their other replicas catch up; [two that wait for each other](../disk-failed.md#two-brokers-that-wait-for-each-other) need a person",
                "ticket",
            ),
            Reason("MinIsrUnknown", "a topic's `min.insync.replicas` is not known", "Kafka tells", "ticket"),
            Reason(
                "ReassignmentInProgress",
                "partitions are being moved to this broker, or are on its dead disk and being reassigned",
                "the move ends or is cancelled (the entry has the command where somebody else began it and `kafka-reassign-partitions.sh` can)",
                "ticket",
            ),
            Reason(
                "WouldLoseQuorum",
                "the controllers would lose their majority",
                "the others catch up",
                "ticket",
            ),
            Reason(
                "QuorumUnknown",
                "the quorum cannot be asked, or has no leader",
                "controllers answer",
                "ticket",
            ),
            Reason(
                "NoQuorumLeader",
                "the quorum cannot be asked, or has no leader",
                "controllers answer",
                "ticket",
            ),
            Reason("KafkaUnknown", "it is not known what Kafka needs", "Kafka answers", "ticket"),
            Reason(
                "RolloutInProgress",
                "it is not its turn: [brokers of one rack go together, controllers singly](../rolling.md)",
                "those before it are back in sync",
                "ticket",
            ),
            Reason(
                "ProgressDeadlineExceeded",
                "one that was restarted is not back in sync after `spec.rolling.backWithinSeconds`, or one that was to be restarted has not gone down by then (its eviction is refused, and the disruption budget named; or its process does not end); no further one is restarted for a change",
                "it comes back, its eviction is let through, or the change is corrected",
                "ticket",
            ),
            Reason(
                "CrashLooping",
                "Kafka has ended three times in a pod; no further one is restarted for a change",
                "it runs for ten minutes, or the change is corrected",
                "ticket",
            ),
            Reason(
                "RolloutStalled",
                "the change goes no further, because of one of the two before",
                "as there",
                "ticket",
            ),
            Reason(
                "LoadingLogs",
                "the broker [loads its logs](../starts.md); a restart would have it begin again",
                "it has loaded them",
                "ticket",
            ),
            Reason(
                "IntraBrokerMovesInProgress",
                "replicas are being copied between disks of the broker",
                "they land; after half an hour it is restarted all the same",
                "ticket",
            ),
            Reason("PodsTerminating", "the cluster is being deleted", "nothing: it ends", "none"),
        ),
    ),
)
