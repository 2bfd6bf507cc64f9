"""Folders of the testbed: build results (cache) and running state, both outside the checkout."""

import os
import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
CHECKOUT = PACKAGE.parents[1]


def cache_dir() -> Path:
    """Build results that are expensive to create, keyed by version; may be deleted while nothing runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "spindle"


def orphans(base: Path, prefix: str) -> list[Path]:
    """Folders named ``<prefix><pid>-…`` whose process was killed before it could remove them."""
    named = ((folder, folder.name.removeprefix(prefix).split("-")[0]) for folder in base.glob(f"{prefix}*"))
    return [folder for folder, pid in named if pid.isdigit() and not Path("/proc", pid).exists()]


def remove_orphans(base: Path, prefix: str) -> None:
    """Remove these folders (`orphans`)."""
    for folder in orphans(base, prefix):
        shutil.rmtree(folder, ignore_errors=True)
