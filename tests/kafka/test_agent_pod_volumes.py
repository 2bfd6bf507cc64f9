"""Volumes that the kubelet mounts for pods, on real file systems: what the agent sees of them, and what it does not follow."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from spindle.disks.findings import ProbeSettings
from tests.kafka.agent_stand import Stand, standing
from tests.kafka.disks import run

FIRST, SECOND = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
BOUND = 10.0


class PodStand(Stand):
    """Disks in place of CSI volumes, below a folder like the kubelet's."""

    def __init__(self, *of: Any) -> None:
        self.pod = FIRST
        super().__init__(*of)

    @property
    def pods(self) -> Path:
        return self.base / "pods"

    def options(self) -> list[str]:
        return [f"--kubelet-pods={self.pods}"]

    def path(self, name: str) -> Path:
        return self.pods / self.pod / "volumes" / "kubernetes.io~csi" / f"pvc.{name}" / "mount"

    def insert(self, name: str, *args: Any, **more: Any) -> Any:
        self.path(name).mkdir(parents=True)
        return super().insert(name, *args, **more)

    def status(self) -> dict[str, Any]:
        disks = [{"name": name, "pv": f"pvc.{name}", "volumeType": "csi"} for name in self.ids]
        return {"podUid": self.pod, "disks": disks}

    def why(self, name: str) -> str:
        told = {each["name"]: each["message"] for each in self.notes.latest.get("unwatched", ())}
        return str(told.get(name, ""))


def pods(base: Path, tuning: ProbeSettings | None = None) -> AbstractAsyncContextManager[PodStand]:
    return standing(PodStand, base, tuning)


@contextlib.asynccontextmanager
async def one(base: Path, kind: str = "xfs", **settings: float) -> AsyncIterator[PodStand]:
    async with pods(base, ProbeSettings(**settings)) as on:
        on.insert("disk0", kind)
        on.look()
        await on.until_verdict("disk0", "Healthy")
        yield on


async def unmounted(path: Path) -> None:
    """Unmount as a CSI driver does for the kubelet, which tries again while a probe holds the volume."""
    for _ in range(20):
        with contextlib.suppress(RuntimeError):
            run("umount", path)
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{path} is held for long")


async def test_a_volume_that_dies_is_seen(tmp_path: Path) -> None:
    async with one(tmp_path) as on:
        assert on.entry("disk0")["content"] == "ours"
        assert on.entry("disk0")["device"].startswith("/dev/loop")
        on.disks["disk0"].die()
        assert await on.until_verdict("disk0", "Failed", "ProbeError") < BOUND


async def test_a_volume_that_hangs_is_seen_and_holds_up_no_other(tmp_path: Path) -> None:
    async with one(tmp_path, hung_after=4.0) as on:
        on.insert("disk1")
        on.look()
        await on.until_verdict("disk1", "Healthy")
        on.disks["disk0"].freeze()
        await on.until_verdict("disk0", "Failed", "IOHung", seconds=30)
        assert on.entry("disk1")["verdict"] == "Healthy"


@pytest.mark.usefixtures("brief_dwells")
async def test_a_readonly_volume_and_one_with_another_file_system_are_seen(tmp_path: Path) -> None:
    async with one(tmp_path, "ext4") as on:
        on.disks["disk0"].remount("ro")
        await on.until_verdict("disk0", "Failed", "ReadOnly")
        on.disks["disk0"].pull()
        on.recorded = {"disk0": on.recorded["disk0"]}
        before = on.recorded["disk0"]
        on.path("disk0").mkdir(exist_ok=True)
        Stand.insert(on, "disk0", "xfs", ours=False)
        assert on.recorded["disk0"] == before
        await on.until_verdict("disk0", "Swapped", "OtherFileSystem")


@pytest.mark.usefixtures("brief_dwells")
async def test_without_a_mount_nothing_is_said_of_the_disk_and_its_next_pod_has_it_again(
    tmp_path: Path,
) -> None:
    """The kubelet unmounts a volume whose pod ends, in the middle of probes: that is no failure of the disk, nor does it heal one."""
    async with one(tmp_path) as on:
        disk = on.disks["disk0"]
        for _ in range(5):
            await unmounted(on.path("disk0"))
            await on.until(lambda: "not mounted" in on.why("disk0"))
            assert on.entry("disk0") == {}
            on.pod = SECOND if on.pod == FIRST else FIRST
            on.path("disk0").mkdir(parents=True, exist_ok=True)
            run("mount", "-o", "loop", disk.image, on.path("disk0"))
            on.look()
            await on.until_verdict("disk0", "Healthy")
            assert on.why("disk0") == ""
        disk.at = on.path("disk0")
        disk.die()
        await on.until_verdict("disk0", "Failed", "ProbeError")
        await unmounted(on.path("disk0"))
        await on.until(lambda: on.entry("disk0") == {})
        assert "not mounted" in on.why("disk0")


@pytest.mark.parametrize("part", range(5))
async def test_no_part_of_the_path_may_be_a_link(tmp_path: Path, part: int) -> None:
    """Neither to a volume of another pod with the same identity, nor to a folder elsewhere: nothing is read or written there."""
    async with one(tmp_path) as on:
        real = on.path("disk0")
        parts = real.relative_to(on.pods).parts
        on.pod = SECOND
        link = on.pods.joinpath(SECOND, *parts[1 : part + 1]) if part else on.pods / SECOND
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(on.pods.joinpath(*parts[: part + 1]))
        assert on.path("disk0").samefile(real)
        on.look()
        await on.until(lambda: "not mounted" in on.why("disk0"))
        probe = real / ".spindle-probe"
        written = probe.stat().st_mtime_ns
        await asyncio.sleep(2.5)
        assert probe.stat().st_mtime_ns == written
        assert on.entry("disk0") == {}


async def test_a_mount_in_the_middle_of_the_path_hides_the_volume(tmp_path: Path) -> None:
    async with one(tmp_path) as on:
        identity = (on.path("disk0") / "spindle.json").read_text()
        over = on.pods / FIRST / "volumes"
        run("mount", "-t", "tmpfs", "tmpfs", over)
        on.path("disk0").mkdir(parents=True)
        (on.path("disk0") / "spindle.json").write_text(identity)
        await on.until(lambda: "not mounted" in on.why("disk0"))
        run("umount", over)
        await on.until_verdict("disk0", "Healthy")
