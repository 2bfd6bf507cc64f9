"""The planner of placements. Knows nothing of Kubernetes."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("assign", "explain", "planner", "problem", "snapshot", "sources")
