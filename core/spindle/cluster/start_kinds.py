"""How a broker was stopped before it starts, as far as that shows in its log dirs."""

from typing import Final

CLEAN: Final = "Clean"
DIRTY: Final = "Dirty"
EMPTY: Final = "Empty"  # there was nothing to load
KINDS: Final = (CLEAN, DIRTY, EMPTY)
