"""Nobody changes an object from the cache of watches in place: it has parts in common with others."""

import os
import subprocess
import sys


def test_objects_that_were_read_from_watches_are_never_changed() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.sim.unchanged", "21"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "2"},
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert int(ran.stdout.split()[-3]) > 1000, ran.stdout[-500:]
