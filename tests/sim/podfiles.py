"""A pod's files, and preflight on them: its real code, with paths that lead to the simulated disks."""

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from spindle.api import names
from spindle.disks.log_end import NO_EPOCH, LogEnd
from spindle.disks.strays import Copy
from spindle.model import disk_facts
from spindle.model.dir_list import NO_LIST
from spindle.model.disk_facts import Found
from spindle.model.disk_identity import parse_identity, parse_log_dirs, parse_meta_properties
from spindle.model.layout import METADATA_DISK, Layout
from spindle_agent.preflight import handover, inputs, look, prepare
from spindle_agent.preflight import main as preflight
from tests.sim.disks import FileSystem
from tests.sim.loop import Clock

_POD_UID = "SPINDLE_POD_UID"
_META = ("cluster.id", "node.id", "directory.id")


class AsleepError(BaseException):
    """Preflight sleeps, or waits for a hung disk: it is run again later."""


class HungError(BaseException):
    """A read or write that does not return."""


@dataclass
class PodFiles:
    """The files of one pod's containers.

    Attributes:
        disks: mount point → the file system that was mounted there at the pod's start; None for the empty folder of a slot without
            a disk.
        files: every other file by its path.
    """

    disks: dict[str, FileSystem | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    message: str = ""

    current: ClassVar["PodFiles"]

    def at(self, path: str) -> tuple[FileSystem | None, str] | None:
        """The disk of a path, and the path below its root; None if it is on none."""
        for mount, fs in self.disks.items():
            if path == mount or path.startswith(mount + "/"):
                return fs, path[len(mount) + 1 :]
        return None


class VPath:
    """The part of a path's interface that preflight uses."""

    def __init__(self, *parts: Any) -> None:
        self.text = "/".join(str(part) for part in parts)

    def __truediv__(self, other: str) -> "VPath":
        return VPath(self.text, other)

    def __str__(self) -> str:
        return self.text

    @property
    def name(self) -> str:
        return self.text.rsplit("/", 1)[-1]

    @property
    def parent(self) -> "VPath":
        return VPath(self.text.rsplit("/", 1)[0])

    def with_name(self, name: str) -> "VPath":
        return self.parent / name

    def read_text(self, **_: Any) -> str:
        text = _read(self.text)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", self.text)
        return text

    def exists(self) -> bool:
        return _read(self.text) is not None

    def is_dir(self) -> bool:
        return PodFiles.current.at(self.text) is not None and not PodFiles.current.at(self.text)[1]  # type: ignore[index]

    def mkdir(self, **_: Any) -> None:
        _write(self.text, "")

    def rmdir(self) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy", self.text)

    def write_text(self, text: str, **_: Any) -> None:
        _write(self.text, text)

    def write_bytes(self, data: bytes) -> None:
        _write(self.text, data.decode(errors="replace"))

    def unlink(self, *, missing_ok: bool = False) -> None:
        held = PodFiles.current.at(self.text)
        files = PodFiles.current.files if held is None else (held[0].files if held[0] is not None else {})
        key = self.text if held is None else held[1]
        if key not in files and not missing_ok:
            raise FileNotFoundError(self.text)
        files.pop(key, None)

    def rename(self, other: "VPath") -> None:
        """Rename a partition's directory to a stray one."""
        held = PodFiles.current.at(self.text)
        assert held is not None
        fs, below = held
        assert fs is not None
        _may_write(fs)
        key = _partition(below.removeprefix("log/"))
        fs.logs[key, f"renamed {other.name[-12:]}"] = fs.logs.pop((key, ""))

    @contextlib.contextmanager
    def open(self, mode: str = "r") -> Iterator["_Appended"]:
        assert mode == "a"
        file = _Appended(_read(self.text) or "")
        yield file
        _write(self.text, file.text)


@dataclass
class _Appended:
    text: str

    def write(self, more: str) -> None:
        self.text += more


def _read(path: str) -> str | None:
    held = PodFiles.current.at(path)
    if held is None:
        return PodFiles.current.files.get(path)
    fs, below = held
    if fs is None:
        return None
    if fs.state == "hung":
        raise HungError
    if fs.state == "dead":
        raise OSError(errno.EIO, "Input/output error")
    return disk_text(fs, below)


def disk_text(fs: FileSystem, below: str) -> str | None:
    """A small file of a disk; None if it does not exist."""
    if below == names.IDENTITY_FILE:
        return None if fs.identity is None else json.dumps(fs.identity)
    if below == "log/meta.properties":
        if fs.meta is None:
            return None
        return "version=1\n" + "".join(f"{key}={value}\n" for key, value in fs.meta.items())
    return fs.files.get(below)


def _write(path: str, text: str) -> None:
    held = PodFiles.current.at(path)
    if held is None:
        PodFiles.current.files[path] = text
        return
    fs, below = held
    if fs is None:
        PodFiles.current.files[path] = text  # to the node's own root file system
        return
    _may_write(fs)
    if below == names.IDENTITY_FILE:
        fs.identity = json.loads(text)
    elif below == "log/meta.properties":
        read = dict(
            line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#")
        )
        fs.meta = {key: read[key] for key in _META if key in read}
    else:
        fs.files[below] = text


def _may_write(fs: FileSystem) -> None:
    if fs.state == "hung":
        raise HungError
    if fs.state == "dead":
        raise OSError(errno.EIO, "Input/output error")
    if fs.state == "readonly":
        raise OSError(errno.EROFS, "Read-only file system")


def found(fs: FileSystem | None) -> Found:
    """The result of inspecting a mounted disk."""
    if fs is None:
        return Found(mounted=False)
    if fs.state == "dead":
        return Found(mounted=True, error="Input/output error")
    if fs.state == "hung":
        return Found(mounted=True, error="no answer in 20 s")

    def parsed(below: str, parse: Any) -> Any:
        text = disk_text(fs, below)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError:
            return None

    return Found(
        mounted=True,
        readonly=fs.state == "readonly",
        writable=fs.state != "readonly",
        fs_uuid=fs.uuid,
        fs_type="xfs",
        source=f"/dev/{fs.disk}",
        device=f"8:{sum(map(ord, fs.disk)) % 250}",
        total_bytes=fs.capacity,
        used_bytes=fs.used,
        identity=parsed(names.IDENTITY_FILE, parse_identity),
        pending=parsed(look.PENDING_FILE, parse_identity),
        log_dirs=parsed(names.IDENTITY_FILE, parse_log_dirs) or NO_LIST,
        meta=parsed("log/meta.properties", parse_meta_properties),
        partitions=bool(fs.logs) or "metadata" in fs.files,
        replicas=sum(suffix in ("", "future") for _, suffix in fs.logs),
        strangers=("somebody",) if fs.files.get("somebody") else (),
    )


def _look_at_all(
    layout: Layout, disks: list[disk_facts.Expected], *, probe: bool, **_: Any
) -> dict[str, Found]:
    return {
        disk.disk: found(PodFiles.current.disks.get(layout.mount(disk.disk)))
        for disk in disks
        if disk.mode != disk_facts.PLACEHOLDER
    }


def folder_of(key: tuple[str, int]) -> str:
    """The directory of a partition."""
    return f"{key[0]}-{key[1]}"


def _partition(folder: str) -> tuple[str, int]:
    topic, _, index = folder.rpartition("-")
    return topic, int(index)


def _folders(layout: Layout, disk: str) -> list[str]:
    fs = PodFiles.current.disks.get(layout.mount(disk))
    if fs is None:
        return []
    if fs.state in ("dead", "hung"):
        raise OSError(errno.EIO, "Input/output error")
    return [folder_of(key) for key, suffix in sorted(fs.logs) if not suffix]


def _copy(layout: Layout, disk: str, folder: str) -> Copy:
    fs = PodFiles.current.disks[layout.mount(disk)]
    assert fs is not None
    log = fs.logs[_partition(folder), ""]
    epoch = log.entries[-1][0] if log.entries else NO_EPOCH
    end = LogEnd(log.topic_id, epoch, log.end)
    return Copy(folder, disk, dir_used=fs.used_at, written=log.written_at, size=log.bytes, end=end)


def _hand_over(layout: Layout, node: inputs.Node, disks: list[disk_facts.Expected]) -> None:
    dirs = ",".join(layout.log_dir(disk.disk) for disk in disks)
    folder = VPath(layout.handover_dir)
    properties = node.properties.rstrip("\n")
    (folder / "server.properties").write_text(f"{properties}\nlog.dirs={dirs}\n")
    entries = [[d.mode, layout.mount(d.disk), layout.log_dir(d.disk), d.directory_id] for d in disks]
    (folder / "disks.list").write_text(json.dumps(entries))


def _say(text: str) -> None:
    PodFiles.current.said.append(text)


def _sleep(_: float) -> None:
    raise AsleepError


@contextlib.contextmanager
def _inside(files: PodFiles, uid: str, skew: float) -> Iterator[None]:
    PodFiles.current = files
    os.environ[_POD_UID] = uid
    before, Clock.skew = Clock.skew, skew
    try:
        yield
    finally:
        Clock.skew = before


class _Volume:
    """Like `spindle_agent.volume`: descriptors are paths here."""

    @staticmethod
    @contextlib.contextmanager
    def opened_root(path: str) -> Iterator[str]:
        held = PodFiles.current.at(path)
        if held is not None and held[0] is not None:
            if held[0].state == "hung":
                raise HungError
            if held[0].state == "dead":
                raise OSError(errno.EIO, "Input/output error")
        yield path

    @staticmethod
    def open_folder(root: str, name: str) -> str:
        return f"{root}/{name}"

    @staticmethod
    def make_folder(root: str, name: str) -> None:
        return None

    @staticmethod
    def read_text(root: str, path: str, _: int) -> str | None:
        return _read(f"{root}/{path}")

    @staticmethod
    def write_durably(root: str, path: str, text: str) -> None:
        _write(f"{root}/{path}", text)


class _Os:
    """The part of ``os`` that preflight uses on a volume."""

    @staticmethod
    def urandom(count: int) -> bytes:
        return os.urandom(count)

    @staticmethod
    def close(_: Any) -> None:
        return None

    @staticmethod
    def unlink(name: str, *, dir_fd: str) -> None:
        (VPath(dir_fd) / name).unlink()

    @staticmethod
    def rename(name: str, to: str, *, src_dir_fd: str, dst_dir_fd: str) -> None:
        (VPath(src_dir_fd) / name).rename(VPath(dst_dir_fd) / to)


def patches() -> list[tuple[Any, str, Any]]:
    """Replacements in preflight's edge: (module, name, by what)."""
    wanted = [
        (preflight, "Path", VPath),
        (inputs, "Path", VPath),
        (prepare, "Path", VPath),
        (prepare, "volume", _Volume),
        (prepare, "write_durably", lambda path, text: path.write_text(text)),
        (prepare, "_partition_folders", _folders),
        (prepare, "_copy", _copy),
        (look, "look_at_all", _look_at_all),
        (handover, "Path", VPath),
        (handover, "hand_over", _hand_over),
        (preflight, "_say", _say),
        (preflight, "_terminate", lambda text: setattr(PodFiles.current, "message", text)),
        (time, "sleep", _sleep),
    ]
    if hasattr(prepare, "volume"):
        wanted.append((prepare, "os", _Os))
    return [(module, name, value) for module, name, value in wanted if hasattr(module, name)]


def run(files: PodFiles, command: str, uid: str = "", skew: float = 0.0) -> int | None:
    """Run ``inspect`` or ``run``; its exit code, or None if it waits for something.

    Args:
        files: of the pod.
        command: of the container.
        uid: of the pod.
        skew: seconds by which the node's clock is ahead.
    """
    with _inside(files, uid, skew):
        try:
            return preflight.inspect(Layout()) if command == "inspect" else preflight.run(Layout())
        except (AsleepError, HungError):
            return None


def mounts_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Mount point in Kafka's container → claim, of a pod's disks."""
    claims = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    }
    layout, found_at = Layout(), {}
    for volume, claim in claims.items():
        disk = METADATA_DISK if volume == "metadata" else volume.removeprefix("disk-")
        found_at[layout.mount(disk)] = claim
    return found_at


def checked_start(files: PodFiles) -> str:
    """Why ``start.sh`` refuses a start of Kafka's container; empty if it does not."""
    entries = json.loads(files.files.get(f"{names.HANDOVER_DIR}/disks.list", "[]"))
    for mode, mount, _, directory in entries:
        fs = files.disks.get(mount)
        if mode == disk_facts.PLACEHOLDER:
            continue
        if fs is None:
            return f"{mount} is no longer mounted"
        if fs.state in ("dead", "hung"):
            continue
        if fs.meta is None:
            if look.PENDING_FILE in fs.files:
                continue
            return f"{mount} has no readable meta.properties"
        if fs.meta.get("directory.id") != directory:
            return f"{mount} is not the expected disk: its directory id is {fs.meta.get('directory.id')}, not {directory}"
    return ""
