"""The disks of these tests leave nothing behind, even if a test process is killed."""

import os
import subprocess
import sys
from pathlib import Path

from e2e.cluster.cleanup import attached_loops
from tests.kafka.disks import images, mounts_below

_KILLED = """
import os, signal, sys
from pathlib import Path
from tests.kafka.disks import Disk, images
folder = images(Path(sys.argv[1]))
Disk(folder / "image-0").mount(Path(sys.argv[1], "disk0"))
print(folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_disks_of_a_killed_process_are_released_by_the_next(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    killed = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": "."}
    )
    folder = Path(killed.stdout.strip())
    assert attached_loops(folder), killed.stderr

    images(tmp_path).rmdir()

    assert mounts_below(tmp_path) == []
    assert attached_loops(folder) == []
    assert not folder.exists()
