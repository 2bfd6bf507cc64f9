"""Up, down, and being killed in the middle. What is left is looked for by other means than those that clean up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.layout import Layout
from e2e.cluster.state import Options
from e2e.cluster.testbed import Testbed, TestbedError
from e2e.cluster.waiting import wait_for
from tests.testbed.conftest import NAME

pytestmark = pytest.mark.e2e

SMALL = Options(nodes=2, zones=2, disks=2, disk_size=1 << 30)
SMALL_ARGUMENTS = ["--nodes=2", "--zones=2", "--disks=2", "--disk-size=1Gi"]


def traces(layout: Layout) -> list[str]:
    """Whatever on this machine still has the testbed's name on it."""
    found = [str(path) for path in (layout.state, Path("/run/netns", layout.control_netns)) if path.exists()]
    found += [str(path) for path in Path("/sys/fs/cgroup").rglob(f"*{layout.cgroup}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ")
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        found += [command] if str(layout.state) in command else []
        found += [f"mount seen by {process}"] if str(layout.state) in mounts else []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        if str(layout.state) in backing.read_text():
            found.append(str(backing))
    return found


def _start(*arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "SPINDLE_TESTBED": NAME}
    command = [sys.executable, "-m", "e2e.cluster", *arguments]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


@pytest.mark.capability
def test_up_works_twice_and_down_leaves_nothing(bed: Testbed, layout: Layout) -> None:
    assert not traces(layout)
    bed.up(SMALL)
    assert [node["metadata"]["name"] for node in bed.get("nodes")["items"]] == ["node1", "node2"]
    uid = bed.get("namespace", "default")["metadata"]["uid"]
    bed.up(SMALL)  # says that it is up, and leaves it alone
    assert bed.get("namespace", "default")["metadata"]["uid"] == uid
    with pytest.raises(TestbedError, match="other options"):
        bed.up(Options(nodes=3))
    assert traces(layout)
    bed.down()
    assert not traces(layout)
    bed.down()  # nothing to do is no error


@pytest.mark.parametrize(
    "moment",
    [
        "network and control plane",
        "2 nodes in 2 zones",
        pytest.param("volumes", marks=pytest.mark.capability),
    ],
)
def test_killed_in_the_middle_of_up(bed: Testbed, layout: Layout, moment: str) -> None:
    with _start("up", *SMALL_ARGUMENTS) as up:
        said = ""
        for line in up.stderr or ():
            said += line
            if moment in line:
                up.send_signal(signal.SIGKILL)
                break
        else:
            pytest.fail(f"never said {moment!r}:\n{said}")
    assert traces(layout), "there must be something to clear"
    bed.up(SMALL)
    assert bed.is_up()
    bed.kubectl("wait", "node", "--all", "--for=condition=Ready", "--timeout=60s")
    bed.down()
    assert not traces(layout)


def test_down_clears_what_a_killed_up_left(bed: Testbed, layout: Layout) -> None:
    with _start("up", *SMALL_ARGUMENTS) as up:
        wait_for("the first process", lambda: any("etcd" in trace for trace in traces(layout)), seconds=300)
        up.send_signal(signal.SIGKILL)
    bed.down()
    assert not traces(layout)


def test_one_command_at_a_time(bed: Testbed, layout: Layout) -> None:
    with _start("up", *SMALL_ARGUMENTS) as up:
        wait_for("the state folder", layout.state.exists, seconds=300)
        with pytest.raises(TestbedError, match="another command"):
            bed.down()
        up.send_signal(signal.SIGKILL)
    bed.down()
    assert not traces(layout)
