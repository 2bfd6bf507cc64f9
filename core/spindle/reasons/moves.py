"""Reasons about moves of replicas and leaders."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Moving replicas",
        "[Moves](../moves.md) describes order, rate and limits.",
        (
            Reason("MovesStarted", "reassignments were started; the message says why"),
            Reason(
                "ReplicasMoving",
                "replicas are being moved; the message says how many, and how far they are",
                "nothing: the copies end",
                "none",
            ),
            Reason("ReplicasMoved", "replicas arrived on the disks that were chosen for them"),
            Reason("MovesCancelled", "reassignments were cancelled; the message says why"),
            Reason("ReplicasRemoved", "replicas on a dead disk were removed from their assignments"),
            Reason(
                "TargetDiskFull",
                "with everything that is on its way, the target disk would exceed `thresholds.rejectMoves`",
                "free space, or wait until another target is chosen",
                "ticket",
            ),
            Reason(
                "TargetUnavailable",
                "the target broker of a move does not answer",
                "bring the broker back, or wait until another target is chosen",
                "ticket",
            ),
            Reason(
                "TargetUnusable",
                "the target disk of a move is offline, cordoned or missing",
                "make the disk usable again, or wait until another target is chosen",
                "ticket",
            ),
            Reason(
                "TargetLost",
                "a move was cancelled because its target is lost",
                "nothing: another target is chosen",
                "none",
            ),
            Reason(
                "WouldReduceRackSpread",
                "the replicas of the partition would be on fewer racks than they could be ([no rack lost](../safety.md#rule-3))",
                "wait until another target is chosen; if no disk in another rack has space, free space there, or add a broker or a disk",
                "ticket",
            ),
            Reason(
                "LogDirNotSelectable",
                "the name of the topic is so long (over some 213 characters) that Kafka does not allow to choose the log dir on the target, and not every log dir there could take the replica",
                "free space on every uncordoned log dir of the target, or choose another target",
                "ticket",
            ),
            Reason(
                "TopicNameTooLong",
                "Kafka moves no replica of a topic with so long a name between the log dirs of a broker",
                "add a broker, to which the replica moves if it has to leave its disk; or reassign the partition to another broker, or copy the topic to one with a shorter name",
                "ticket",
            ),
            Reason(
                "ReplicationStalled",
                "not a byte of a copy between brokers has arrived for five minutes",
                "bring back the brokers and leaders in the message that do not answer; if all answer, check their disks, logs and network. `spindle broker stop` and `spindle broker start` of the target restart the copy",
                "ticket",
            ),
            Reason(
                "EmptyReplicaMayLead",
                "an empty replica on the target could be elected leader ([no format over the last copy](../safety.md#rule-1))",
                "wait until another replica leads and is in sync",
                "ticket",
            ),
            Reason(
                "ReplicaReturning",
                "the replica has left its broker temporarily and returns there as an additional copy; it does not replace another one",
                "nothing: it returns",
                "none",
            ),
            Reason(
                "ExternalReassignment",
                "another client reassigns the partition",
                "wait until that ends, or cancel it: the entry has the command. A reassignment that waits for a replica on a dead disk never ends, and the entry says so",
                "ticket",
            ),
            Reason(
                "UnderReplicated",
                "the partition has too few in-sync replicas. Moves that do not add a replica wait; below `min.insync.replicas` they are cancelled",
                "bring the brokers and disks of its other replicas back",
                "ticket",
            ),
            Reason(
                "NoLeader",
                "the partition has no leader to copy from",
                "bring back one of its replicas that may lead",
                "page",
            ),
            Reason(
                "BlockedByOfflineLogDir",
                "a broker with an offline log dir moves nothing between its own log dirs",
                "nothing: it continues after a restart without that log dir",
                "none",
            ),
            Reason(
                "SettingsUnknown",
                "settings of the topic or the target could not be read, so a throttle could not be restored afterwards ([every changed setting can be restored](../safety.md#rule-10))",
                "make sure that the brokers and controllers answer; Spindle asks again",
                "ticket",
            ),
            Reason(
                "CatchUpInProgress",
                "a partition that has no more in-sync replicas than it needs, or fewer, catches up through a broker of this move, so the copies there are slowed down",
                "nothing: it catches up",
                "none",
            ),
            Reason(
                "TargetDiskFilling",
                "something else filled the target disk during the copy, so the copy is cancelled",
                "free space, or wait until another target is chosen",
                "ticket",
            ),
            Reason(
                "MoveFailed",
                "the agent abandoned a move between two disks of a broker; the message says why",
                "nothing: it is retried later, if it is still needed",
                "none",
            ),
            Reason(
                "MoveBackOff",
                "a failed move is not retried for a while: ten minutes after the first failure, twice as long after each further one, a day at most",
                "nothing: it is retried then",
                "none",
            ),
            Reason(
                "MoveObsolete",
                "a move was cancelled because it is no longer possible",
                "nothing: what is needed is planned again",
                "none",
            ),
            Reason(
                "MoveCancelled",
                "a copy was cancelled because its proposal was stopped or deleted",
                "nothing: what is still needed is planned again",
                "none",
            ),
            Reason(
                "MovedToOtherDisk",
                "the target broker was restarted and chose another disk, so the copy starts again",
                "nothing: the copy ends",
                "none",
            ),
            Reason(
                "ThrottlesReverting",
                "a KafkaCluster is being deleted, and its throttles are removed first",
                "nothing: it ends",
                "none",
            ),
            Reason(
                "CancellationRejected",
                "a KafkaCluster is being deleted, but Kafka does not cancel reassignments of which no earlier replica is in sync",
                "nothing: after two minutes the brokers stop nevertheless, and the move stays on record; or a broker with an earlier replica comes back",
                "none",
            ),
        ),
    ),
    Section(
        "The journal of moves",
        "The ConfigMap `<cluster>-moves` records the moves in progress and the Kafka settings that were changed for them. Do not edit it.",
        (
            Reason(
                "JournalNotFound",
                "the ConfigMap is not listed: it was deleted, or lacks its label",
                "nothing: Spindle restores the label, or creates a new one",
                "none",
            ),
            Reason(
                "JournalDeleted",
                "a user deleted the ConfigMap, which records what is still to be restored",
                "nothing: it is kept until everything is restored",
                "none",
            ),
            Reason(
                "JournalLost",
                "the ConfigMap is gone with what it recorded; the message names settings and missing replicas that may be Spindle's",
                "correct them with Kafka's tools, or confirm with the annotation in the message that they are as they should be",
                "ticket",
            ),
            Reason(
                "JournalUnreadable",
                "the ConfigMap cannot be read, so nothing is moved",
                "restore it; or cancel reassignments and remove throttles by hand, then delete it",
                "ticket",
            ),
            Reason(
                "JournalFull",
                "more moves are due than the ConfigMap can record at once; those that fit are made first",
                "nothing: moves end",
                "none",
            ),
        ),
    ),
    Section(
        "Leadership",
        "",
        (
            Reason(
                "LeadershipMoving",
                "a broker is about to stop, and other brokers are about to lead its partitions",
                "nothing: it takes half a minute at most",
                "none",
            ),
            Reason(
                "LeadershipMoved",
                "other replicas lead: the former leader is on a bad disk, its broker is about to stop, or a rebalance plan asks for it",
            ),
            Reason("LeadershipRestored", "the former leaders lead again"),
        ),
    ),
)
