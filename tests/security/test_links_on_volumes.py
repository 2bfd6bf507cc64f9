"""Kafka's container leaves links, fifos and second names on its disk: agent and preflight, as processes, write to no other disk through them and go on."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.cleanup import loop_devices, remove_free_loops
from spindle.api import names
from spindle_agent.preflight.look import PROBE_FILE
from tests.kafka.cluster import Cluster
from tests.kafka.node import PreflightRefusedError
from tests.kube.test_agent import Agent

SEGMENT = bytes(range(256)) * 32  # two probes long
LEFT_BEHIND = (".spindle-preflight", PROBE_FILE, names.HISTORY_FILE, names.BALLAST_FILE)


@pytest.fixture(autouse=True)
def _no_loops_left() -> Iterator[None]:
    before = set(loop_devices())
    yield
    remove_free_loops(before)


@pytest.fixture
def agent(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(api_server, namespace, tmp_path, disks=4)
    try:
        yield made
    finally:
        made.close()


def a_segment(disk: Path) -> Path:
    """Data of a partition on a disk."""
    folder = disk / "log" / "orders-0"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(SEGMENT)
    return segment


def standing(disk: Path) -> dict[str, bytes]:
    """Every file of a disk that is Kafka's, or says whose disk it is."""
    kept = [path for path in disk.rglob("*") if path.is_file() and path.name not in LEFT_BEHIND]
    return {str(path): path.read_bytes() for path in kept}


@pytest.mark.kube
def test_the_agent_writes_to_no_other_disk_through_what_kafka_left_on_its_own(agent: Agent) -> None:
    disks = {name: agent.folder / "disks" / name for name in agent.disks}
    victim = a_segment(disks["disk3"])
    (disks["disk0"] / PROBE_FILE).symlink_to(f"../disk3/{victim.relative_to(disks['disk3'])}")
    (disks["disk1"] / PROBE_FILE).hardlink_to(a_segment(disks["disk1"]))
    os.mkfifo(disks["disk2"] / PROBE_FILE)
    before = {name: standing(disk) for name, disk in disks.items()}
    agent.make_broker()
    agent.start()

    wanted = dict.fromkeys(("disk0", "disk1", "disk2"), "Failed") | {"disk3": "Healthy"}
    agent.until("verdicts", lambda: agent.verdicts() == wanted)
    assert {name: standing(disk) for name, disk in disks.items()} == before
    messages = {disk["name"]: disk.get("message", "") for disk in agent.observed()["disks"]}
    assert all(
        "in place of the expected file, ELOOP" in messages[name] for name in ("disk0", "disk1", "disk2")
    ), messages


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "cluster", brokers=1, disks=2)
    try:
        yield made
    finally:
        made.down()


@pytest.mark.kafka
def test_preflight_writes_to_no_other_disk_through_a_link(cluster: Cluster) -> None:
    """Preflight tries a write to each disk at every start, also to those that are in use."""
    node = cluster.brokers[0]
    node.new_pod()
    node.clear_blank()
    node.preflight()
    node.new_pod()
    victim = a_segment(node.mount("disk1"))
    link = node.mount("disk0") / ".spindle-preflight"
    link.symlink_to(Path("../disk1") / victim.relative_to(node.mount("disk1")))
    with contextlib.suppress(PreflightRefusedError):  # nothing starts, or without this disk
        node.preflight()
    assert victim.read_bytes() == SEGMENT
