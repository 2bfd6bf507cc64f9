"""Checks segments that no client reads: their batches and indexes, which segment is due, and when a finding is confirmed.

KIP-263 proposes to skip these checks at a broker's start; here they run at a limited rate while the broker runs. Pure: the caller reads the
files and passes the bytes in.
"""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = (
    "batches",
    "catalog",
    "confirmation",
    "rate",
    "schedule",
    "segment",
    "segment_errors",
    "state_file",
)
