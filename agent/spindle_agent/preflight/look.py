"""Inspects disks without changing them, each in a separate thread, so that a hung disk does not block others."""

import errno
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from spindle.api import names
from spindle.disks.strays import is_replica_folder
from spindle.model import disk_facts
from spindle.model.dir_list import NO_LIST
from spindle.model.disk_facts import Expected, Found
from spindle.model.disk_identity import META_PROPERTIES, parse_identity, parse_log_dirs, parse_meta_properties
from spindle.model.layout import Layout
from spindle_agent import volume
from spindle_agent.preflight import filesystem

PENDING_FILE: Final = f"{names.IDENTITY_FILE}.pending"
PROBE_FILE: Final = ".spindle-probe"  # the agent's file; it probes the same disk at the same time
_OWN_PROBE_FILE: Final = ".spindle-preflight"
TIMEOUT_SECONDS: Final = 20.0
_LARGEST_FILE: Final = 64 * 1024  # maximum bytes of the identity files
# Maximum names read from a folder: more than is ever needed, but limited if somebody created very many.
_NAMES: Final = 10_000
_NOT_STRANGERS: Final = {
    "lost+found", names.IDENTITY_FILE, PENDING_FILE, PROBE_FILE, _OWN_PROBE_FILE, names.LOG_SUBDIR, names.BALLAST_FILE,
    names.HISTORY_FILE, names.SCRUB_FILE, names.SCRUB_FILE_NEW,
}  # fmt: skip
_NO_PARTITIONS: Final = {META_PROPERTIES, f"{META_PROPERTIES}.tmp", ".lock"}

_T = TypeVar("_T")


def look_at_all(
    layout: Layout, disks: list[Expected], *, probe: bool, timeout: float = TIMEOUT_SECONDS
) -> dict[str, Found]:
    """Inspect all disks in parallel.

    A disk that does not answer within ``timeout`` seconds counts as dead. ``probe`` writes and removes a small file on disks
    whose identity files name the recorded cluster.
    """
    reference = os.stat(layout.disks_root).st_dev  # noqa: PTH116 - only the number is wanted
    return bounded(
        {
            disk.disk: lambda disk=disk: look(layout, disk, reference, probe=probe)  # type: ignore[misc]
            for disk in disks
            if disk.mode != disk_facts.PLACEHOLDER
        },
        late=Found(mounted=True, error=f"no answer in {timeout:g} s"),
        timeout=timeout,
    )


def bounded(work: dict[str, Callable[[], _T]], *, late: _T, timeout: float) -> dict[str, _T]:
    """Run functions in daemon threads; the result is ``late`` for those that have not returned in time."""
    results: dict[str, _T] = {}

    def run(key: str, function: Callable[[], _T]) -> None:
        results[key] = function()

    threads = {
        key: threading.Thread(target=run, args=(key, function), daemon=True) for key, function in work.items()
    }
    for thread in threads.values():
        thread.start()
    left = timeout
    for thread in threads.values():
        started = os.times().elapsed
        thread.join(max(left, 0.001))
        left -= os.times().elapsed - started
    done = dict(results)
    return {key: done.get(key, late) for key in work}


def look(layout: Layout, disk: Expected, reference: int, *, probe: bool) -> Found:
    """Inspect one disk; ``reference`` is the device of the pod's own folders."""
    whose = disk.cluster_id if probe else ""
    return look_at(layout.mount(disk.disk), reference, shared=disk.shared_filesystem, probe_if_of=whose)


def look_at(mount: str, reference: int, *, shared: bool, probe_if_of: str = "", via: str = "") -> Found:
    """Inspect the volume at one path.

    Args:
        mount: the path.
        reference: the device of the path if nothing is mounted there.
        shared: inspect the path even if nothing is mounted there.
        probe_if_of: write and remove a small file if all identity files on the volume name this cluster; empty for never.
        via: another path that leads to the same folder and is opened in place of the first one; empty for none.
    """
    found, place = Found(mounted=False), via or mount
    try:
        about = os.stat(place)  # noqa: PTH116 - os names the errors that matter here
        if not stat.S_ISDIR(about.st_mode):
            return found
        found = replace(found, mounted=about.st_dev != reference)
        if not found.mounted and not shared:
            return found
        found = _about_filesystem(found, mount, place, about.st_dev)
        with volume.opened_root(place) as root:
            found = _about_contents(found, root)
            if _tells_only(found, probe_if_of) and not found.readonly:
                found = replace(found, writable=_probe(root))
    except FileNotFoundError:
        return found
    except PermissionError:
        return replace(found, writable=False)
    except OSError as error:
        # Any error that a mounted disk returns for a read is a problem of the disk.
        return replace(found, mounted=True, error=volume.describe(error.errno))
    return found


def _tells_only(found: Found, cluster_id: str) -> bool:
    """Whether a disk has an identity, and it names only this cluster."""
    told = {each.cluster_id for each in (found.identity, found.pending, found.meta) if each is not None}
    kept = found.identity is not None or found.meta is not None
    return bool(cluster_id) and kept and told == {cluster_id} and found.garbled is None


def _about_filesystem(found: Found, mount: str, place: str, device: int) -> Found:
    mounted = filesystem.mount_at(mount)
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sizes = os.fstatvfs(fd)
        uuid = filesystem.fs_uuid(fd)
    finally:
        os.close(fd)
    return replace(
        found,
        fs_uuid=uuid,
        fs_type=mounted.fs_type if mounted else None,
        source=_source(mounted),
        device=filesystem.device_number(device),
        total_bytes=sizes.f_blocks * sizes.f_frsize,
        used_bytes=(sizes.f_blocks - sizes.f_bfree) * sizes.f_frsize,
        readonly=bool(sizes.f_flag & os.ST_RDONLY),
        writable=_may_write(place) and _may_write(f"{place}/{names.LOG_SUBDIR}"),
    )


def _may_write(folder: str) -> bool:
    """Whether the permissions allow creating files in a folder; a folder that does not exist yet counts."""
    return os.access(folder, os.W_OK | os.X_OK) or not os.path.lexists(folder)


def _source(mounted: filesystem.Mount | None) -> str | None:
    """The mounted device, with the folder on it if only a part is mounted."""
    if mounted is None:
        return None
    return mounted.source if mounted.root == "/" else f"{mounted.source}[{mounted.root}]"


def _about_contents(found: Found, root: int) -> Found:
    garbled: list[str] = []

    def parsed(path: str, parse: Callable[[str], _T]) -> _T | None:
        try:
            text = volume.read_text(root, path, _LARGEST_FILE)
            return None if text is None else parse(text)
        except volume.ForeignFileError as error:
            garbled.append(str(error.strerror))
        except ValueError as error:
            garbled.append(f"{path.rpartition('/')[2]} cannot be parsed: {error}")
        return None

    return replace(
        found,
        identity=parsed(names.IDENTITY_FILE, parse_identity),
        pending=parsed(PENDING_FILE, parse_identity),
        log_dirs=parsed(names.IDENTITY_FILE, parse_log_dirs) or NO_LIST,
        meta=parsed(f"{names.LOG_SUBDIR}/{META_PROPERTIES}", parse_meta_properties),
        garbled=garbled[0] if garbled else None,
        strangers=tuple(sorted(volume.names_in(root, "", _NAMES) - _NOT_STRANGERS)),
        partitions=bool(_in_log_dir(root) - _NO_PARTITIONS),
        replicas=_replicas(root),
    )


def _replicas(root: int) -> int:
    """Number of folders in the log dir that may hold a replica; 0 without a log dir."""
    try:
        log = volume.open_folder(root, names.LOG_SUBDIR)
    except (FileNotFoundError, NotADirectoryError, volume.ForeignFileError):
        return 0  # not a disk of this broker, which the verdict states
    try:
        with os.scandir(log) as entries:
            return sum(e.is_dir(follow_symlinks=False) and is_replica_folder(e.name) for e in entries)
    finally:
        os.close(log)


def _in_log_dir(root: int) -> set[str]:
    """Names in the log dir; a link in place of the log dir counts as content, so that the disk does not count as blank."""
    try:
        return volume.names_in(root, names.LOG_SUBDIR, _NAMES)
    except volume.ForeignFileError as error:
        return {str(error)}


def _probe(root: int) -> bool:
    """Write, flush and remove a small file. A full disk counts as writable: preflight does not check free space."""
    try:
        file = volume.open_file(root, _OWN_PROBE_FILE, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            os.write(file, b"probe\n")
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(_OWN_PROBE_FILE, dir_fd=root)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return True
        if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            return False
        raise
    return True
