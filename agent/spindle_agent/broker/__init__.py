"""The agent's connection to a broker: reads its log dirs and sends a few requests."""
