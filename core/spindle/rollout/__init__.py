"""Restarts: which pods differ from the spec, in which order brokers restart, evictions, drains and upgrades."""
