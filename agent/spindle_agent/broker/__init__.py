"""The agent's own broker: what it says of its log dirs, and the few things that are asked of it."""
