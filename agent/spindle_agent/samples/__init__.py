"""What the agent sees of each broker, as samples in a topic of the broker's own cluster.

pyarrow is loaded by `packing` alone, and that by the first sample: an agent without samples does without it.
"""
