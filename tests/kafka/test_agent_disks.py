"""What the agent makes of disks that really fail, hang, vanish and are swapped."""

import asyncio
import statistics
from pathlib import Path
from typing import Any

import pytest

from spindle.disks.findings import ProbeSettings
from tests.kafka.agent_stand import Stand, stand
from tests.kafka.disks import run

KINDS = ("xfs", pytest.param("ext4", marks=pytest.mark.slow))
BOUND = 10.0  # seconds from a disk's death to the verdict; a free machine needs less than 2, which the output shows


def more(file: Any) -> bool:
    """Write on; False when there is no room left."""
    try:
        return bool(file.write(b"x" * 2**20))
    except OSError:
        return False


async def well(on: Stand, *names: str) -> None:
    on.look()
    for name in names:
        await on.until_verdict(name, "Healthy")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_disk_that_dies_is_seen(tmp_path: Path, kind: str) -> None:
    took = []
    async with stand(tmp_path) as on:
        names = [f"disk{index}" for index in range(5)]
        for name in names:
            on.insert(name, kind)
        await well(on, *names)
        for number, name in enumerate(names):
            await asyncio.sleep(0.37 * (number + 1))  # not in step with the probes
            on.disks[name].die()
            took.append(await on.until_verdict(name, "Failed", "ProbeError"))
            assert all(on.entry(other)["verdict"] == "Healthy" for other in names[number + 1 :])
    print(f"{kind}: death to verdict {[round(each, 2) for each in took]}")
    assert statistics.median(took) < BOUND


@pytest.mark.usefixtures("brief_dwells")
async def test_a_readonly_remount_is_a_failure_and_its_end_is_seen(tmp_path: Path) -> None:
    async with stand(tmp_path) as on:
        disk = on.insert("disk0", "ext4")
        await well(on, "disk0")
        disk.remount("ro")
        assert await on.until_verdict("disk0", "Failed", "ReadOnly") < BOUND
        disk.remount("rw")
        await on.until_verdict("disk0", "Healthy", seconds=90)


@pytest.mark.usefixtures("brief_dwells")
async def test_a_hung_disk_holds_up_no_other_and_is_well_after_the_thaw(tmp_path: Path) -> None:
    tuning = ProbeSettings(hung_after=3.0)
    async with stand(tmp_path, tuning) as on:
        on.insert("disk0"), on.insert("disk1")
        await well(on, "disk0", "disk1")
        on.disks["disk0"].freeze()
        took = await on.until_verdict("disk0", "Failed", "IOHung", seconds=20)
        assert 3.0 <= took < 3.0 + tuning.interval + BOUND
        on.disks["disk1"].die()
        assert await on.until_verdict("disk1", "Failed", "ProbeError") < BOUND
        on.disks["disk0"].thaw()
        await on.until_verdict("disk0", "Healthy", seconds=90)


async def test_into_an_empty_folder_nothing_is_written(tmp_path: Path) -> None:
    async with stand(tmp_path) as on:
        disk = on.insert("disk0")
        await well(on, "disk0")
        disk.pull()
        assert await on.until_verdict("disk0", "Missing", "NotMounted") < BOUND
        await asyncio.sleep(5)
        assert list(on.path("disk0").iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_disk_in_the_slot_is_blank_and_left_alone(tmp_path: Path, kind: str) -> None:
    async with stand(tmp_path) as on:
        disk = on.insert("disk0", kind)
        await well(on, "disk0")
        before = on.entry("disk0")["fsUuid"]
        disk.pull()
        on.insert("disk0", kind, ours=False)
        await on.until_verdict("disk0", "Swapped", "OtherFileSystem")
        entry = on.entry("disk0")
        assert entry["content"] == "blank"
        assert entry["fsUuid"] != before
        await asyncio.sleep(5)
        assert {each.name for each in on.path("disk0").iterdir()} <= {"lost+found"}


async def test_somebody_elses_disk_is_foreign_and_left_alone(tmp_path: Path) -> None:
    async with stand(tmp_path) as on:
        disk = on.insert("disk0")
        await well(on, "disk0")
        assert (on.path("disk0") / ".spindle-probe").stat().st_size == 4096
        disk.pull()
        on.insert("disk0", ours=False)
        on.brand("disk0", "B" * 22)
        await on.until_verdict("disk0", "Swapped", "OtherFileSystem", seconds=10)
        assert on.entry("disk0")["content"] == "foreign"
        await asyncio.sleep(3)
        assert not (on.path("disk0") / ".spindle-probe").exists()


@pytest.mark.usefixtures("brief_dwells")
async def test_a_new_disk_is_seen_while_a_write_to_the_former_one_still_hangs(tmp_path: Path) -> None:
    async with stand(tmp_path, ProbeSettings(hung_after=3.0)) as on:
        hung = on.insert("disk0")
        await well(on, "disk0")
        before = on.entry("disk0")["fsUuid"]
        hung.freeze()
        await on.until_verdict("disk0", "Failed", "IOHung", seconds=20)
        frozen = on.base / "aside"
        frozen.mkdir()
        at = hung.at
        assert at is not None
        run("mount", "--bind", at, frozen)  # a way to thaw it later
        hung.pull()
        try:
            on.insert("disk0", ours=False)
            on.ids["disk0"] = "C" * 22  # what the operator does when it gives the old one up
            on.recorded["disk0"] = None
            on.look()
            await on.until(lambda: on.entry("disk0").get("content") == "blank", seconds=10)
            assert on.entry("disk0")["fsUuid"] != before
            await on.until_verdict("disk0", "Healthy", seconds=90)
        finally:
            run("fsfreeze", "-u", frozen)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_full_disk_is_not_a_dead_one(tmp_path: Path, kind: str) -> None:
    async with stand(tmp_path) as on:
        on.insert("disk0", kind)
        fill = on.path("disk0") / "log" / "fill"
        with fill.open("wb", buffering=0) as file:
            while more(file):
                pass
        on.look()
        await on.until(lambda: bool(on.entry("disk0")), seconds=10)
        await asyncio.sleep(5)
        assert on.entry("disk0")["verdict"] in {"Healthy", "Suspect"}
        fill.unlink()
        await on.until_verdict("disk0", "Healthy", seconds=20)


async def test_a_volume_may_be_a_folder_on_a_disk_that_is_mounted_further_up(tmp_path: Path) -> None:
    async with stand(tmp_path) as on:
        disk = on.insert("disk0", ours=False)
        inner = on.path("disk0") / "volume"
        inner.mkdir()
        on.ids["disk0/volume"] = on.ids.pop("disk0")
        on.look()
        await on.until(lambda: on.entry("disk0/volume").get("content") == "blank")
        assert on.entry("disk0/volume")["verdict"] == "Healthy"
        disk.pull()
        await on.until_verdict("disk0/volume", "Missing", "NotMounted")
        inner.mkdir()  # what is there then is the node's own file system
        await asyncio.sleep(2)
        assert on.entry("disk0/volume")["verdict"] == "Missing"
