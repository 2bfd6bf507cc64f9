"""What Spindle does about a disk that is nearly full: one level after another, each undone when there is space again.

Pure. `bounds` turns thresholds into bytes, `levels` decides which level a disk has, `offload` asks the planner where its
replicas can go, `drop_for_space` and `last_resort_actions` decide what is done if they can go nowhere.
"""
