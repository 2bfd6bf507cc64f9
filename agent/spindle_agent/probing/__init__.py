"""Probes disks from separate processes, so that a disk that never answers blocks nothing else."""
