"""The objects that Spindle creates in Kubernetes."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("backup", "cronjob")
