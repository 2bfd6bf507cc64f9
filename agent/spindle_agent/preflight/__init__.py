"""Preflight: the init containers of a Kafka pod. Inspects the disks, formats cleared ones, and hands over to Kafka.

Uses only the standard library and `spindle.disks`, so that a pod's start waits only for its disks.
"""
