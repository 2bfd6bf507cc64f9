"""Reports: one self-contained HTML file each, for light and dark mode. Pure functions that return text."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("charts", "page")
