"""What is done about a disk that fills: one step after another, each undone when there is room again.

Pure. `levels` turns thresholds into bytes, `levels` decides how far up the ladder a disk is, `relief` asks the planner where its
replicas can go, `shedding` and `resorts` decide what is done where nothing can.
"""
