"""The controller quorum: its members, their disks, and the change of voters one at a time (KIP-853)."""
