"""The numbers of controllers that a cluster may have."""

from typing import Final

SIZES: Final = (1, 3, 5)
