"""From a cluster's state and history to a proposal. No I/O and no clock, so that a run can be repeated from its record.

Picture ─ reading ─► Reading (snapshot, notes) ─ propose ─► Proposal | Nothing
   ▲                       ▲
record                  history
"""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("history", "picture", "propose", "reading")
