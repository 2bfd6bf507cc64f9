"""What each bad disk needs next: pure decisions above the executor of moves, below the reconcile steps.

Each module answers one question, and each answer is checked against the safety rules before it is given:

    standing    which replicas stand on a disk, and what else of them is alive
    evacuate    where they can go on other brokers
    shrink      whether they may leave their assignments instead (rule 5)
    repair      whether a replica that is corrupt may be made anew
    regrow      where they come back to on their own broker
    retire      whether nothing stands on a disk any more, so that the broker may run without it
    replace     whether what is in the slot is a new disk
    lead        who is to lead what stands on a disk that serves, but badly
    fence       whether a broker with a hung disk may be stopped at once
    acceptance  what a person gave up, and whether that still is what is lost
    maintenance what a person wants of a broker and its disks
"""
