"""Where replicas go: KIP-36 assignment of new topics (`assign`), rack rules (`racks`), the rebalance planner.

Nothing is imported here: the operator loads `assign` at start-up and must not pay for numpy.
"""
