"""Where the testbed keeps things: what was built (cache) and what is running (state), both outside the checkout."""

import os
import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parents[1]


def cache_dir() -> Path:
    """What is dear to build, keyed by version; safe to delete at any time that nothing runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spindle"


def remove_orphans(base: Path, prefix: str) -> None:
    """Remove folders named ``<prefix><pid>-…`` whose process is gone: it was killed before it could."""
    for folder in base.glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).split("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)
