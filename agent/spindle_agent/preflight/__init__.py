"""Preflight: the init containers of a Kafka pod. Inspects the disks, formats cleared ones, and hands over to Kafka.

Uses only the standard library, `spindle.disks` and a few modules of `spindle.model`, so that a pod's start waits only for its disks.
"""
