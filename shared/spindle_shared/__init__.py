"""What operator, agent and rebalance job do in the same way at their edges. It imports little: the agent runs on every node."""
