"""Scrubbing: one process per disk checks its inactive segments; and the agent's side of it.

`spindle.scrub` decides what is corrupt, which segment is next and when an error is confirmed; this package accesses the disk.
"""
