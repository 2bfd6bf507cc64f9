"""Reasons about moves."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Moving replicas",
        "Replicas move between brokers and between the disks of a broker, each onto a disk that was chosen for it. What is in motion, and which of Kafka's settings were changed for it, stands in the ConfigMap `<cluster>-moves`; do not edit it. At most 5 replicas are copied to or read from a broker at a time, and 2 to or from a disk (one below 64 MiB counts as a part of one), and not faster than `spec.disks.moveBytesPerSecond`. The throttle is Kafka's own (replication throttles of the topics and brokers concerned, `replica.alter.log.dirs.io.max.bytes.per.second` between disks). It is set when a move begins and taken back when the last one has landed, to what stood there before; a rate that you have set yourself stays as it is and holds for the moves, too. A partition that is written to faster than that never catches up on its new broker: raise the number, it is taken up at once.",
        (
            Reason(
                "TargetDiskFull",
                "the disk would get fuller than `thresholds.rejectMoves` with all that is on its way",
                "space is freed, or another target is chosen",
                "ticket",
            ),
            Reason(
                "TargetUnavailable",
                "the broker that is to take a replica does not answer",
                "it is back, or another target is chosen",
                "ticket",
            ),
            Reason(
                "TargetUnusable",
                "the disk that is to take a replica is offline, cordoned or not there",
                "it takes replicas again, or another one is chosen",
                "ticket",
            ),
            Reason(
                "TargetLost",
                "a move was given up because its target is lost",
                "nothing: another target is chosen",
                "none",
            ),
            Reason(
                "WouldReduceRackSpread",
                "the copies would stand on fewer racks than they could",
                "another target is planned by itself; if no disk in another rack takes it: free space there, or add a broker or a disk",
                "ticket",
            ),
            Reason(
                "LogDirNotSelectable",
                "the topic's name is so long (over some 213 characters) that Kafka lets nobody choose the log dir on the target, and not every log dir there could take the replica",
                "every uncordoned log dir of the target has room, or another target",
                "ticket",
            ),
            Reason(
                "TopicNameTooLong",
                "Kafka moves no replica of such a topic between the log dirs of a broker",
                "add a broker, to which it goes by itself if it has to leave its disk; or reassign the partition to another broker, or copy the topic to one with a shorter name",
                "ticket",
            ),
            Reason(
                "ReplicationStalled",
                "for five minutes not a byte of a copy between brokers has arrived",
                "the brokers and leaders that it names: one that does not answer comes back; if all answer, their disks, logs and network; `spindle stop` and `spindle start` of the target begin the copy anew",
                "ticket",
            ),
            Reason(
                "EmptyReplicaMayLead",
                "an empty replica there could be made leader",
                "another replica is elected and in sync",
                "ticket",
            ),
            Reason(
                "ReplicaReturning",
                "the replica has left its broker for a while and comes back there as one more copy; it does not take another one's place",
                "it is back",
                "ticket",
            ),
            Reason(
                "ExternalReassignment",
                "somebody else reassigns the partition",
                "that ends, or is cancelled: the entry has the command. One that waits for a replica on a dead disk never ends, and says so",
                "ticket",
            ),
            Reason(
                "UnderReplicated",
                "the partition is short of copies in sync; moves that do not add one wait, below the minimum they are cancelled",
                "its other copies catch up",
                "ticket",
            ),
            Reason(
                "NoLeader",
                "the partition has no leader to copy from",
                "one of its replicas that may lead comes back",
                "ticket",
            ),
            Reason(
                "BlockedByOfflineLogDir",
                "a broker with an offline dir moves nothing between its own dirs",
                "it is restarted without it",
                "ticket",
            ),
            Reason(
                "SettingsUnknown",
                "settings of the topic or the target could not be read, so a throttle could not be put back",
                "Kafka tells",
                "ticket",
            ),
            Reason(
                "CatchUpInProgress",
                "a partition with no more copies in sync than it needs, or with fewer, catches up by way of a broker of this move; what runs there is slowed down",
                "it has caught up",
                "ticket",
            ),
            Reason(
                "TargetDiskFilling",
                "something else filled the disk while a replica was copied to it; the copy is given up",
                "space is freed, or another target is chosen",
                "ticket",
            ),
            Reason(
                "MoveFailed",
                "the agent gave a move between two disks of a broker up; the message says why",
                "nothing: it rests, and what is still needed is planned anew",
                "none",
            ),
            Reason(
                "MoveBackOff",
                "such a move rests: ten minutes after the first time, twice as long after each further one, a day at most",
                "nothing",
                "none",
            ),
            Reason(
                "MoveObsolete",
                "a move was given up because it is no longer possible",
                "nothing: what is needed is planned anew",
                "none",
            ),
            Reason(
                "MovedToOtherDisk",
                "the target was restarted and chose another disk; the copy is begun again",
                "nothing",
                "none",
            ),
            Reason(
                "JournalUnreadable",
                "the ConfigMap `<cluster>-moves` cannot be read; nothing is moved",
                "restore it; or cancel reassignments and remove throttles by hand, then delete it",
                "ticket",
            ),
            Reason("JournalFull", "too much is in motion to note more", "what is in motion lands", "ticket"),
            Reason(
                "MoveCancelled",
                "a move in motion belongs to a proposal that was stopped or deleted; the copy is given up",
                "nothing: what is still needed is planned anew",
                "none",
            ),
            Reason(
                "ReplicasMoving",
                "replicas are on their way; how many, and how far",
                "nothing: they land",
                "none",
            ),
            Reason(
                "ThrottlesReverting",
                "a KafkaCluster that is deleted takes its throttles back first",
                "nothing: it ends",
                "none",
            ),
            Reason(
                "CancellationRejected",
                "a KafkaCluster is deleted while replicas move whose reassignment Kafka does not take back, because no replica from before it is in sync",
                "nothing: after two minutes the brokers stop all the same, and the move stays on record; or a broker with a replica from before comes back",
                "none",
            ),
        ),
    ),
)
