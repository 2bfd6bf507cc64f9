"""Disks: what preflight and agents found, the verdict, the states, and what may be formatted."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = (
    "classify",
    "findings",
    "judge",
    "log_end",
    "peers",
    "signals",
    "starved",
    "strays",
)
