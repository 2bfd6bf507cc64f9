"""Actions on a disk that fills up: one usage level after another, each ended when there is free space again.

Pure. `bounds` converts thresholds to bytes, `levels` determines the usage level of a disk, `offload` asks the planner where its
replicas can move, `drop_for_space` and `last_resort_actions` decide what to do if no replica can move.
"""
