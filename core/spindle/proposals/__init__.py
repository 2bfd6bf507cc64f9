"""The lifecycle of a KafkaRebalance: approval, execution, validity of its moves, and end.

Pure functions. Moves are handed to the executor (`spindle.moves`), which decides on each. The state of each move is in the
KafkaRebalance's status and in Kafka, so that another operator can continue at any point.
"""
