"""Runs what a worker runs a few times on an empty folder, before workers are forked.

Python writes into the memory of code that runs for the first times: it makes room for what it learns about the code, and fills caches. What it has
written before the fork is shared by the workers of all disks; each would otherwise have its own copy, about half a megabyte.
"""

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from spindle.api import names
from spindle.model.disk_identity import META_PROPERTIES, Identity, render_identity, render_meta_properties
from spindle_agent.probing.messages import Began, Watch, decode, encode
from spindle_agent.probing.probe import memory, probe
from spindle_agent.probing.quick_check import full_check, quick_check

_TIMES: Final = 20  # Python 3.11 learns about a function from its eighth call on


def run() -> None:
    """Run it; without a folder for temporary files it is left out."""
    with contextlib.suppress(OSError), TemporaryDirectory() as folder:
        watch = _volume(Path(folder))
        block, back = memory(), memory()
        seen = None
        for _ in range(_TIMES):
            seen = quick_check(watch, 0.0, seen)
            for report in (seen.glanced, full_check(watch, 0.0), Began(at=0.0), probe(watch, block, back)):
                decode(encode(report))
            decode(encode(watch))


def _volume(folder: Path) -> Watch:
    """A folder with a disk's identity."""
    identity = Identity("none", 0, "", "none")
    files = {
        folder / names.IDENTITY_FILE: render_identity(identity, None),
        folder / names.LOG_SUBDIR / META_PROPERTIES: render_meta_properties(identity),
    }
    for file, text in files.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return Watch(path=str(folder), cluster_id="none", node_id=0, disk="", directory_id=identity.directory_id)
