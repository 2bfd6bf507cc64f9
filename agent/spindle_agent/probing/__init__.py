"""Looking at disks from processes of their own, so that a disk which never answers holds up nobody else."""
