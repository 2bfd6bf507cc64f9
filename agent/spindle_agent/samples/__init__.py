"""Samples of each broker, written to a topic of the broker's cluster.

Only `packing` loads pyarrow, at the first sample; an agent without samples does not load it.
"""
