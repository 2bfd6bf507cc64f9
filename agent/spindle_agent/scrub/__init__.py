"""Reading what nobody reads: a process for each disk that checks its inactive segments, and the agent's end of it.

What is wrong with a segment, which is next and when a find is believed is `spindle.scrub`; here is what touches the disk.
"""
