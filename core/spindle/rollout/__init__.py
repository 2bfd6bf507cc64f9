"""Restarts: which pods differ from the spec, in which order brokers restart, evictions, drains and upgrades."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("starts",)
