"""The planner of placements. Knows nothing of Kubernetes."""
