"""What the agent makes of devices that are sick below the file system: errors, silence, and time."""

import json
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.build import ensure_enclosure
from spindle.disks.findings import ProbeSettings
from tests.kafka.agent_stand import Stand, stand
from tests.kafka.disks import run
from tests.kafka.node import wait_for


class Enclosure:
    """Serves images through a file system that can be told to fail."""

    def __init__(self, base: Path) -> None:
        self.images, self.served, self._socket = base / "images", base / "served", base / "socket"
        self.images.mkdir()
        self.served.mkdir()
        with (base / "enclosure.log").open("wb") as log:
            self._process = subprocess.Popen(
                [ensure_enclosure(), self.images, self.served, self._socket], stdout=log, stderr=log
            )
        wait_for("the enclosure", self._socket.exists)

    def order(self, name: str, mode: str, milliseconds: int = 0) -> None:
        """How a disk behaves from now on: well, slow, hang or error."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self._socket))
            order = {"file": f"{name}.img", "mode": mode, "milliseconds": milliseconds}
            connection.sendall(json.dumps(order).encode())
            while connection.recv(65536):
                pass

    def close(self) -> None:
        for image in self.images.iterdir():
            self.order(image.stem, "well")
        self._process.terminate()
        self._process.wait(10)
        run("umount", "-l", self.served)


@pytest.fixture
def enclosure(tmp_path: Path) -> Iterator[Enclosure]:
    made = Enclosure(tmp_path)
    yield made
    made.close()


async def with_disks(on: Stand, enclosure: Enclosure, *names: str) -> None:
    for name in names:
        on.insert(name, images=enclosure.images, served=enclosure.served)
    on.look()
    for name in names:
        await on.until_verdict(name, "Healthy")


async def test_a_device_that_answers_with_errors_has_failed(tmp_path: Path, enclosure: Enclosure) -> None:
    async with stand(tmp_path / "disks") as on:
        await with_disks(on, enclosure, "disk0", "disk1")
        enclosure.order("disk0", "error")
        took = await on.until_verdict("disk0", "Failed", "ProbeError", seconds=15)
        print(f"errors of the device to verdict: {took:.2f} s")
        assert on.entry("disk1")["verdict"] == "Healthy"


@pytest.mark.usefixtures("brief_dwells")
async def test_a_device_that_falls_silent_hangs_reads_too_and_holds_up_no_other(
    tmp_path: Path, enclosure: Enclosure
) -> None:
    async with stand(tmp_path / "disks", ProbeSettings(hung_after=4.0)) as on:
        await with_disks(on, enclosure, "disk0", "disk1")
        enclosure.order("disk0", "hang")
        took = await on.until_verdict("disk0", "Failed", "IOHung", seconds=15)
        print(f"silence of the device to verdict: {took:.2f} s")
        on.disks["disk1"].die()
        assert await on.until_verdict("disk1", "Failed", "ProbeError") < 2
        enclosure.order("disk0", "well")
        await on.until_verdict("disk0", "Healthy", seconds=90)


@pytest.mark.usefixtures("brief_dwells")
@pytest.mark.slow
async def test_a_slow_device_is_seen_next_to_its_peers(tmp_path: Path, enclosure: Enclosure) -> None:
    async with stand(tmp_path / "disks") as on:
        await with_disks(on, enclosure, "disk0", "disk1", "disk2", "disk3")
        enclosure.order("disk0", "slow", 300)
        suspect = await on.until_verdict("disk0", "Suspect", "SlowDevice", seconds=90)
        slow = await on.until_verdict("disk0", "Slow", "SlowDevice", seconds=120)
        print(f"slow: suspect after {suspect:.0f} s, a verdict {slow:.0f} s later: {on.entry('disk0')}")
        assert on.entry("disk0")["latencyMs"] >= 100
        assert all(on.entry(f"disk{index}")["verdict"] == "Healthy" for index in (1, 2, 3))
