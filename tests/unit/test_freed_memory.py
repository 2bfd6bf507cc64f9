"""Memory that was freed goes back to the kernel."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import threading
from pathlib import Path
from spindle_shared.freed_memory import give_back, use_one_heap

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])

use_one_heap()
kept = []

def work():
    made = [bytes(2000) for _ in range(30_000)]
    kept.append(made[::1000])

for _ in range(4):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_what_threads_have_freed_goes_back() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert int(ran.stdout) * resource.getpagesize() > 20_000_000
