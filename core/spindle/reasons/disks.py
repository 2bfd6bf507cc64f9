"""Reasons about disks: failed, hung, lost, replaced."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Disks",
        "[A disk failed](../disk-failed.md) describes what happens and what you do. [Disk states](disk-life.md) lists the events of state changes (`DiskFailed`, `DiskEvacuated`, …) and the reasons for verdicts (`IOHung`, `ProbeError`, …).",
        (
            Reason(
                "DiskUnusable",
                "a disk is foreign, missing, read-only or dead",
                "do what the message says",
                "ticket",
            ),
            Reason(
                "DiskOffline",
                "Kafka took the log dir offline after an I/O error; the broker runs without it",
                "nothing: if the disk recovers, a restart of the broker uses it again; otherwise its replicas are re-replicated on other disks",
                "none",
            ),
            Reason(
                "DiskExcluded",
                "the broker was started without the disk, because the disk failed",
                "nothing, as with `DiskOffline`; where no agent monitors the disk, stop and start the broker to use it again",
                "none",
            ),
            Reason(
                "Excluded",
                "the reason of the verdict on a disk that is excluded from its broker and that no agent monitors",
            ),
            Reason(
                "ReplacementNeeded",
                "the disk is dead and empty, and the broker runs without it: it is safe to pull",
                "replace the disk",
                "ticket",
            ),
            Reason(
                "DiskContentLost",
                "the file system of the disk is the same, but everything on it is gone",
                "restore the content, or create a new file system on the disk",
                "ticket",
            ),
            Reason(
                "RetiredDiskReinserted",
                "the disk that was evacuated is in its slot again",
                "put a new disk in",
                "ticket",
            ),
            Reason(
                "UnexpectedDisk",
                "the disk in the slot belongs somewhere else",
                "put the right disk in",
                "ticket",
            ),
            Reason("DiskCleared", "a pod may format blank disks, because no data is lost by it"),
            Reason(
                "DiskReturned",
                "a broker restarts because a disk answers again, and Kafka uses it again only after a restart",
            ),
            Reason(
                "AgentNotReporting",
                "the agent of the disk's node called the disk bad and has not renewed its Lease since; Spindle does not act on a report that may be stale",
                "make the agent run again; until then Kafka's reports count",
                "ticket",
            ),
            Reason(
                "AgentStarved",
                "the node gives its agent so little CPU time that the agent cannot distinguish a hung disk from a delayed probe. No disk of the node is reported hung or slow, and no broker is stopped for a hung disk",
                "find what keeps the node's CPU or memory busy; give the agent more of both (`agent.resources`)",
                "ticket",
            ),
            Reason(
                "CorrelatedDiskFailures",
                "more disks than `spec.disks.automaticShare` failed within ten minutes, so Spindle takes no automatic action on them",
                "find what the disks have in common; Spindle continues when fewer disks are bad",
                "page",
            ),
            Reason(
                "LogDirsUnknown",
                "the broker does not report which replicas are on the disk, or on any of its disks",
                "make the broker answer again, or start it if it is stopped",
                "ticket",
            ),
        ),
    ),
    Section(
        "Hung disks",
        "If a write to a disk hangs, Spindle stops the broker at once, so that other replicas take over, but only in the cases that [no restart below min.insync.replicas](../safety.md#rule-2) permits.",
        (
            Reason(
                "BrokerStoppedForHungDisk",
                "a broker is stopped at once: one of its disks does not answer, and its partitions cannot be written anyway. It restarts without that disk when the old process is gone",
            ),
            Reason(
                "ProcessHung",
                "the process of a stopped broker waits in the kernel for a disk that does not answer",
                "make the disk answer, remove it, or restart the node",
                "ticket",
            ),
            Reason(
                "OnlyInSyncReplica",
                "a disk does not answer, but its broker is the only in-sync replica of partitions on it, so no other broker could take over",
                "bring another replica in sync, or make the disk answer; if the disk is lost, delete the broker's pod",
                "page",
            ),
            Reason(
                "LastReplicaServed",
                "a broker serves the only in-sync replica of partitions from a disk that it could not open again after a restart, because the disk was pulled out or swapped under it, or has failed. The broker is not stopped",
                "let the replicas move to other disks, put the original disk back, or accept its loss",
                "page",
            ),
            Reason(
                "AnotherBrokerDown",
                "a broker with a hung disk has to be stopped, but another broker is down",
                "bring the other broker back",
                "page",
            ),
            Reason(
                "HangUnconfirmed",
                "a disk does not answer; Spindle stops its broker when a later report shows the same write still pending",
                "nothing: the agent reports again within seconds, or the disk answers",
                "none",
            ),
            Reason(
                "AgentTooOld",
                "a disk does not answer, but the agent of its node is of an older version that does not report which write is pending, so a second report would prove nothing",
                "wait until the new agents are rolled out; if the disk surely hangs, delete the broker's pod",
                "page",
            ),
            Reason(
                "DiskStillServes",
                "a write to a disk has been pending for long, but logs on that disk whose leader is this broker still grow: the disk may be slow and not hung",
                "see why the disk is slow; it counts as hung when nothing on it grows any more, or after two minutes",
                "ticket",
            ),
            Reason(
                "CorrelatedDiskStalls",
                "a disk hangs, and other disks stall, too: disks of the same node, disks of another node since the same moment, or disks of many brokers. The cause is the machine or something that machines share, so no broker is stopped for it",
                "find what keeps the machines, or what they share, busy. On one node, or with few brokers, a write that is pending for more than a minute counts as a hang nevertheless",
                "page",
            ),
        ),
    ),
    Section(
        "Evacuating, draining and replacing disks",
        "",
        (
            Reason(
                "PlanPending",
                "Spindle does not know everything that a plan for the replicas needs",
                "nothing: it asks again",
                "none",
            ),
            Reason(
                "NoMoveTarget",
                "a disk is to be drained, but replicas on it can go nowhere else",
                "add a broker or a disk, free space, or remove the entry of the disk from `spec.maintenance.disks`",
                "ticket",
            ),
            Reason(
                "MovesBlocked",
                "the replicas on a dead disk have targets on other brokers, but none of these moves may start",
                "nothing: after three minutes Spindle removes the replicas from their assignments until their broker runs without the disk, where [no log dir removed with replicas on it](../safety.md#rule-5) permits it; the message says what blocks the moves",
                "none",
            ),
            Reason(
                "InsufficientInSyncReplicas",
                "replicas cannot leave a dead disk, because their partitions would have too few in-sync replicas ([no log dir removed with replicas on it](../safety.md#rule-5))",
                "bring the other replicas in sync, wait for a broker of theirs that is being restarted, or add a broker that can take the replicas",
                "ticket",
            ),
            Reason(
                "InsufficientSpaceOnBroker",
                "the broker's other disks have no space for the replicas of the dead disk",
                "replace the disk, or free space",
                "ticket",
            ),
            Reason(
                "ReplicasOnDisk",
                "replicas are still assigned to a disk that is to leave its broker",
                "nothing: they move to other disks, or leave their assignments",
                "none",
            ),
            Reason(
                "LastDisk",
                "a disk is empty, but its broker has no other disk to run with",
                "put a new disk into a slot of this broker, but not into the slot of the last disk while Kafka uses it; or remove the entry of the disk from `spec.maintenance.disks`",
                "ticket",
            ),
            Reason(
                "DiskRemovalCancelled",
                "replicas appeared on an empty disk while its broker was being stopped, so the disk stays in use and is evacuated again",
            ),
            Reason(
                "DiskNotObserved",
                "a disk was to be removed, but it cannot be inspected now that its broker is stopped. A placeholder dir replaces it until Kafka reports that no replica is missing",
            ),
            Reason("RestartWithoutDisk", "a broker restarts without a disk"),
            Reason("RestartWithDisk", "a broker restarts to use a disk that was replaced or has recovered"),
            Reason(
                "RestartPending",
                "dropped replicas return to their broker after it has restarted without its dead disk",
                "nothing: it restarts",
                "none",
            ),
            Reason(
                "ReplicaRestorePending",
                "a broker is to be restarted while partitions lack a replica because of a dead or overfull disk or a corrupt segment",
                "nothing: the replicas are restored first; for a full disk, free space or add a disk",
                "none",
            ),
            Reason(
                "InsufficientSpaceToRestore",
                "replicas that left a dead disk find no space on the other disks",
                "put a new disk in, or free space",
                "ticket",
            ),
        ),
    ),
    Section(
        "Data that may be lost",
        "",
        (
            Reason(
                "LastReplicaAtRisk",
                "a failed disk or node has the last in-sync replica of partitions, or formatting a disk could lose data that has no other live copy",
                "bring the old disk or the other brokers back; if that is impossible, the condition `DataAtRisk` says how to accept the loss",
                "page",
            ),
            Reason(
                "AcceptanceOutdated",
                "the token in `spec.acceptDataLoss.disks` does not match what is lost now",
                "copy the token again from the condition `DataAtRisk`",
                "page",
            ),
            Reason(
                "AcceptanceAlreadyUsed",
                "the token in `spec.acceptDataLoss.disks` was for an earlier loss of the same partitions on the same disk",
                "bring the disk back; or remove the entry, wait until the annotation `spindle.dev/accepted-loss` no longer names the disk, and add the entry again",
                "page",
            ),
            Reason(
                "OtherDiskMayHoldReplica",
                "a loss was accepted, but another disk of the same broker cannot be read either and may have those replicas",
                "bring that disk back, or accept its loss, too",
                "page",
            ),
            Reason(
                "SurvivorsUnavailable",
                "a loss was accepted, but a broker that is down may still have a copy",
                "bring that broker back, or accept its loss, too",
                "page",
            ),
            Reason(
                "SurvivorPreferred",
                "of the replicas that survived an accepted loss, the one with the most data is moved to the front of the assignment: Kafka elects the first one that it can",
            ),
            Reason(
                "SurvivorElected",
                "the loss of the last in-sync replica was accepted, and a surviving replica was elected leader",
            ),
            Reason(
                "AllDisksLost",
                "every disk of every broker is blank or cannot be read, so no broker can start and Spindle cannot determine what is lost",
                "bring one of the disks back as it was; restore the claims of retained volumes that the message names; or start from scratch without topics and records: `spindle delete-claims`, then delete the KafkaCluster and [apply it again](../backup.md#deleting-a-cluster)",
                "page",
            ),
            Reason(
                "ElrUnknown",
                "Kafka did not report the eligible leader replicas",
                "make sure that the brokers and controllers run; Spindle asks again",
                "ticket",
            ),
        ),
    ),
    Section(
        "Identity of clusters and disks",
        "",
        (
            Reason(
                "IdentityRecorded",
                "the cluster id and the voters were recorded in the ConfigMap `<cluster>-identity`, before any disk is formatted or found again",
            ),
            Reason(
                "ClusterIdentityCreated",
                "Kafka runs for the first time; from now on Spindle formats no disk without asking Kafka",
            ),
            Reason(
                "DirectoryIdAlreadyUsed",
                "the directory id was already given to another file system",
                "bring the original disk back. Otherwise a broker with other disks starts without this one, and uses the blank disk when its replicas are re-replicated; a broker without other disks uses it when Kafka reports that nothing is lost, or when the loss is accepted",
                "ticket",
            ),
            Reason(
                "ClaimDirectoryIdMismatch",
                "a claim has another directory id than the one on record, or lacks the cluster id",
                "restore its annotations, as the entry says; if the claim belongs to another disk, set its volume to `Retain` and delete the claim",
                "ticket",
            ),
            Reason(
                "ClaimClusterIdMismatch", "a claim has another cluster id", "move the claim away", "ticket"
            ),
            Reason(
                "ClusterIdConflict",
                "claims of an earlier cluster disagree about its id, so Spindle bootstraps no cluster over them",
                "restore `<cluster>-identity`, or delete the claims",
                "ticket",
            ),
            Reason(
                "IdentityUnreadable",
                "the identity record cannot be read",
                "restore it, or delete it: Spindle recreates it from the claims",
                "ticket",
            ),
            Reason(
                "RecordOutdated",
                "a KafkaBroker was edited or restored from an old copy, and lacks log dirs that its claims or disks list. Spindle completes it, and the broker restarts with an additional placeholder dir until all of its replicas were found",
            ),
            Reason("BrokerReadopted", "a broker was found again by its claims"),
            Reason(
                "BrokerNotFound",
                "Kafka assigns replicas to a broker that does not run and has neither a KafkaBroker nor claims; for example, a restored backup is older than the broker",
                "restore its claims for the retained volumes that the message names; if its disks are lost, move its replicas to other brokers and delete topics without a leader",
                "page",
            ),
            Reason(
                "ClaimMissing",
                "a broker was found again by its claims, but one of its disks has no claim. The broker runs without that disk and creates no empty replicas",
                "restore the claim for the volume that the message names; otherwise its replicas are re-replicated from the others",
                "ticket",
            ),
            Reason(
                "ClaimLost",
                "a broker was found again by its claims, but Kubernetes does not bind one of them to its volume (phase `Lost`). Usually the claim was applied with the annotations of an earlier binding",
                "delete that claim, run `spindle volume rebind VOLUME`, and apply the claim again without annotations that begin with `pv.kubernetes.io/`",
                "ticket",
            ),
            Reason(
                "ReplicasNotFound",
                "a broker was found again, but replicas that Kafka assigns to it are on none of its disks",
                "restore the claim of the missing disk; or correct `spindle.dev/directory-id` of a claim that is older than its disk",
                "ticket",
            ),
            Reason(
                "UnknownPoolClaims",
                "the KafkaCluster was applied again, and there are disks of brokers whose pool is neither in the spec nor on record",
                "put the pool back into the spec. When its brokers run you can remove it, which drains them",
                "ticket",
            ),
            Reason(
                "PoolNotFound",
                "brokers belong to a pool that is neither in the spec nor on record",
                "put the pool back into the spec; then you can remove it",
                "ticket",
            ),
        ),
    ),
    Section(
        "Corrupt segments",
        "[Scrubbing](../scrubbing.md) describes what is checked and how to repair it.",
        (
            Reason(
                "CorruptSegment",
                "a segment on a disk differs from what was written",
                "set `spec.disks.scrub.repair`, or re-replicate the replica yourself; replace a disk that has several corrupt segments",
                "ticket",
            ),
            Reason(
                "RepairDeferred",
                "a corrupt replica may not be dropped now: other replicas are not in sync, are corrupt, too, or are not known to be sound, or there would be no space for the new one",
                "do what the message says",
                "ticket",
            ),
            Reason(
                "CorruptReplicasDropped",
                "replicas with a corrupt segment were dropped, and are re-replicated from the others",
            ),
        ),
    ),
)
