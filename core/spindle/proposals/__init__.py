"""What becomes of a KafkaRebalance: who may approve it, when it is carried out, what of it still holds, and how it ends.

Pure. Moves are handed to the one executor (`spindle.moves`), which has the last word on each; what has become of each stands in the
KafkaRebalance's own status and in Kafka, so an operator that dies anywhere is followed by one that goes on from there.
"""
