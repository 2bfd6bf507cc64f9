"""Where the testbed keeps things: what was built (cache) and what is running (state), both outside the checkout."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parents[1]


def cache_dir() -> Path:
    """What is dear to build, keyed by version; safe to delete at any time that nothing runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spindle"
