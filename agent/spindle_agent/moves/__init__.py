"""Moves of replicas between the dirs of one broker, as ``spec.moves`` asks for them."""
