"""The next action for each bad disk: pure decisions, used by the reconcile steps; the move executor carries out the moves.

Each module answers one question, and checks each answer against the safety rules (`docs/safety.md`):

    replica_index     which replicas are on a disk, and which other replicas of them are live
    evacuate          where they can move on other brokers
    drop_replicas     whether they may be dropped from their assignments instead ("no log dir removed with replicas on it")
    repair            whether a corrupt replica may be dropped and re-replicated
    restore_replicas  where dropped replicas are restored on their own broker
    remove_dir        whether a disk holds no replica any more, so that the broker may run without it
    disk_slot         whether a new disk is in the slot
    backfill          which moves backfill a new disk
    leadership        which broker leads the partitions on a degraded disk
    fence, hang       whether a broker with a hung disk may be stopped at once
    node_loss         when a node counts as permanently lost
    rack_spread       how partitions that healing crowded onto too few racks are spread again
    acceptance        which data loss the user accepted, and whether it still matches what is lost
    maintenance       what the user requests for a broker and its disks
"""
