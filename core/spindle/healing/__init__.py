"""The next action for each bad disk: pure decisions, used by the reconcile steps; the move executor carries out the moves.

Each module answers one question, and checks each answer against the safety rules (`docs/safety.md`):

    replica_index     which replicas are on a disk, and which other replicas of their partitions are live
    evacuate          where they can go on other brokers
    drop_replicas     whether they may leave their assignments instead (no log dir removed with replicas on it)
    repair            whether a corrupt replica may be re-replicated
    restore_replicas  where they return to on their own broker
    remove_dir        whether a disk is empty, so that the broker may run without it
    disk_slot         whether the disk in a slot is a new one
    after_moves       the cluster as it will be when the moves in progress have ended
    backfill          what a new disk still lacks
    leadership        who leads the partitions on a disk that serves badly
    rack_spread       partitions that healing left on too few racks
    hang              whether a disk surely hangs
    fence             whether a broker with a hung disk may be stopped at once
    node_loss         whether a node is lost
    acceptance        which loss an administrator accepted, and whether that still is what is lost
    maintenance       what an administrator requests of a broker and its disks
"""
