"""One pass: `plan.plan` calls the packages in order and builds the status."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("batches", "plan", "refused_requests")
