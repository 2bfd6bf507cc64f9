"""kafka-python without its clients: the agent needs the encoding of messages only.

The library's package imports all of its clients, which takes 8 MB of memory on every node. Here the package is registered without running it, so
that an import of one of its modules loads that module and what it needs.
"""

import importlib.util
import sys
from typing import Final

_PACKAGE: Final = "kafka"


def leave_out_clients() -> None:
    """Register the package; to be called before anything imports it, else nothing changes."""
    if _PACKAGE not in sys.modules and (spec := importlib.util.find_spec(_PACKAGE)) is not None:
        sys.modules[_PACKAGE] = importlib.util.module_from_spec(spec)
