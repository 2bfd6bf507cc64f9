"""Preflight: the init containers of a Kafka pod. Looks at the disks, formats on a clearance, hands over to Kafka.

Standard library and `spindle.disks` only, so that a pod's start waits for nothing but its disks.
"""
