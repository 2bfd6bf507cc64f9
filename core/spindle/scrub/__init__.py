"""Checking segments that nobody reads: their batches, their indexes, which is due, and when a find is believed.

What KIP-263 would leave out at a broker's start is checked here instead, at a polite rate while the broker runs. Nothing here reads a
file: bytes come in, finds come out.
"""
