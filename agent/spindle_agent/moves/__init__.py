"""Moves of replicas between the log dirs of one broker, as requested by ``spec.moves``."""
