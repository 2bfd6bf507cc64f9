"""Loop-mounted disks (XFS, or ext4) that can be pulled out, swapped, wiped and killed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from e2e.cluster.cleanup import attached_loops
from e2e.cluster.paths import orphans, remove_orphans

_RELEASE_SECONDS = 30.0
SIZE = 320 * 2**20  # the least that mkfs.xfs makes is 300 MB


_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, of whose folders only our own are touched
_IMAGES = "spindle-disks-"
_ROOM = 4 * 2**30  # images are thin: those of a cluster take some hundred megabytes


def images(base: Path) -> Path:
    """A new folder for images: in memory if that has room, since Kafka syncs much and all of this is thrown away, else below ``base``."""
    if os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM:
        for folder in orphans(_MEMORY, _IMAGES):
            _release(folder)
        remove_orphans(_MEMORY, _IMAGES)
        base = _MEMORY
    return Path(tempfile.mkdtemp(prefix=f"{_IMAGES}{os.getpid()}-", dir=base))


def _release(folder: Path) -> None:
    """Unmount the disks whose images are in a folder; their loop devices go with the mounts, which no image's removal does."""
    loops = attached_loops(folder)
    for line in Path("/proc/self/mounts").read_text().splitlines():
        source, at = line.split()[:2]
        if source in loops:
            run("umount", "-l", at)


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr or done.stdout}")
    return done.stdout


class Disk:
    """One disk image; it is somewhere mounted or lies on the shelf."""

    def __init__(self, image: Path, kind: str = "xfs", size: int = SIZE) -> None:
        self.image = image
        self.size = size
        self.kind = kind
        self.at: Path | None = None
        self.wipe()

    def wipe(self) -> None:
        """Make it a blank file system with a new UUID, as a new disk has."""
        assert self.at is None
        self.image.unlink(missing_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self.size)
        if self.kind == "xfs":
            run("mkfs.xfs", "-q", "-K", self.image)
        else:
            run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.image)

    def mount(self, at: Path, *options: str) -> None:
        assert self.at is None
        at.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + _RELEASE_SECONDS
        while True:
            try:
                run("mount", "-o", ",".join(("loop", *options)), self.image, at)
            except RuntimeError:
                # Somebody's mount namespace may have been cloned from ours, and keep what we have unmounted for a while.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)  # noqa: TID251 - a poll with a deadline
            else:
                break
        self.at = at

    def unmount(self) -> None:
        if self.at is not None:
            run("umount", self.at)
            self.at = None

    def pull(self) -> None:
        """Take it out of sight while somebody may still hang in it; it cannot be put back before they are let go."""
        run("umount", "-l", self.at or "")
        self.at = None

    def freeze(self) -> None:
        """No write comes back from now on."""
        run("fsfreeze", "-f", self.at or "")

    def thaw(self) -> None:
        run("fsfreeze", "-u", self.at or "")

    def remount(self, option: str) -> None:
        run("mount", "-o", f"remount,{option}", self.at or "")

    def die(self) -> None:
        """Answer EIO to everybody from now on."""
        run("xfs_io", "-x", "-c", "shutdown", self.at or "")


def mounts_below(folder: Path) -> list[Path]:
    found = [Path(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [path for path in found if path.is_relative_to(folder)]


def unmount_all_below(folder: Path) -> None:
    for path in sorted(mounts_below(folder), key=lambda p: len(p.parts), reverse=True):
        with contextlib.suppress(RuntimeError):
            run("umount", "-l", path)
    os.sync()
