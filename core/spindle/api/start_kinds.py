"""How a broker was stopped before its start, as far as its log dirs show that."""

from typing import Final

CLEAN: Final = "Clean"
DIRTY: Final = "Dirty"
EMPTY: Final = "Empty"  # there was nothing to load
KINDS: Final = (CLEAN, DIRTY, EMPTY)
