"""What preflight writes on disks: formats of cleared disks, placeholders, renamed stray folders."""

import contextlib
import os
import stat
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from spindle.api import names
from spindle.disks.strays import STRAY_SUFFIX, Copy, is_partition_folder, strays
from spindle.model.dir_list import NO_LIST, DirList
from spindle.model.disk_facts import Expected, Found
from spindle.model.disk_identity import (
    META_PROPERTIES,
    Identity,
    parse_identity,
    parse_meta_properties,
    render_identity,
    render_meta_properties,
)
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import Layout
from spindle_agent import volume
from spindle_agent.preflight.log_ends import find_log_end
from spindle_agent.preflight.look import PENDING_FILE

# Written regularly while Kafka runs, so their times show when a dir was last in use.
_CHECKPOINTS: Final = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)
_USED_FILE: Final = "used-clearances"
_LARGEST_META: Final = 64 * 1024
_LONGEST_NAME: Final = 255  # Kafka's limit for bytes of a file name


def format_log_dir(layout: Layout, disk: Expected, found: Found) -> None:
    """Format a blank disk as a log dir; Kafka needs only ``meta.properties``.

    That file is written first: with it the disk has its identity, without it the disk is still blank; there is no state in between.
    """
    with volume.opened_root(layout.mount(disk.disk)) as root:
        _check_whose(root, disk)
        volume.make_folder(root, names.LOG_SUBDIR)
        meta = render_meta_properties(disk.identity)
        volume.write_durably(root, f"{names.LOG_SUBDIR}/{META_PROPERTIES}", meta)
    adopt(layout, disk, found)


def begin_controller_format(layout: Layout, disk: Expected, found: Found) -> None:
    """Mark a controller's disk for formatting by Kafka's storage tool in Kafka's container.

    The mark is not the identity, so that a disk whose tool never ran can be distinguished from one that lost its log.
    """
    with volume.opened_root(layout.mount(disk.disk)) as root:
        _check_whose(root, disk)
        volume.write_durably(root, PENDING_FILE, render_identity(disk.identity, found.fs_uuid))


def adopt(layout: Layout, disk: Expected, found: Found, log_dirs: DirList = NO_LIST) -> None:
    """Write the identity file on a disk whose ``meta.properties`` belongs to this broker, if it is missing.

    It is rewritten if its list of the broker's log dirs is older than ``log_dirs``.
    """
    newer = log_dirs.generation >= found.log_dirs.generation and log_dirs != found.log_dirs
    if found.identity is None or newer:
        text = render_identity(disk.identity, found.fs_uuid, log_dirs if newer else found.log_dirs)
        with volume.opened_root(layout.mount(disk.disk)) as root:
            _check_whose(root, disk)
            volume.write_durably(root, names.IDENTITY_FILE, text)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(PENDING_FILE, dir_fd=root)


def place_placeholder(layout: Layout, disk: Expected) -> None:
    """Create a regular file at a disk's mount point: Kafka treats the dir as offline and starts."""
    path = Path(layout.mount(disk.disk))
    if path.is_dir():
        path.rmdir()  # an empty mount point of an earlier attempt; anything else must not be touched
    path.write_text("This disk is out of use. Because of this file Kafka treats the log dir as offline.\n")


def prepare_metadata_dir(layout: Layout, cluster_id: str, node_id: int) -> None:
    """Prepare a broker's metadata log dir, an emptyDir that is new with each pod."""
    log = Path(layout.metadata_log_dir)
    log.mkdir(exist_ok=True)
    with volume.opened_root(str(log)) as root:
        text = volume.read_text(root, META_PROPERTIES, _LARGEST_META)
        if text is not None:
            there = parse_meta_properties(text)
            if (there.cluster_id, there.node_id) == (cluster_id, node_id):
                return
            raise ValueError(
                f"{log / META_PROPERTIES} belongs to node {there.node_id} of cluster {there.cluster_id}"
            )
        directory = uuid_from_entropy(os.urandom(32), "metadata", str(node_id))
        meta = render_meta_properties(Identity(cluster_id, node_id, "metadata", directory))
        volume.write_durably(root, META_PROPERTIES, meta)


def set_strays_aside(layout: Layout, disks: Iterable[Expected]) -> list[str]:
    """Rename partition folders that a newer dir holds too; returns their former paths.

    Kafka does not start with a stray folder whose name lacks the unique part before the suffix.
    """
    expected = {disk.disk: disk for disk in disks}
    held = {name: _partition_folders(layout, name) for name in expected}
    count = Counter(folder for folders in held.values() for folder in folders)
    # Only partitions on two dirs are inspected: a large broker has a hundred thousand files.
    copies = [
        _copy(layout, disk, folder)
        for disk, folders in held.items()
        for folder in folders
        if count[folder] > 1
    ]
    moved = []
    for copy in strays(copies):
        unique = f".{uuid.uuid4().hex}{STRAY_SUFFIX}"
        aside = copy.folder[: _LONGEST_NAME - len(unique)] + unique
        with _opened_log_dir(layout, copy.disk, expected[copy.disk]) as log:
            os.rename(copy.folder, aside, src_dir_fd=log, dst_dir_fd=log)
        moved.append(f"{layout.log_dir(copy.disk)}/{copy.folder}")
    return moved


def remember_used(layout: Layout, directory_id: str) -> None:
    """Record that this pod has used the clearance for a directory id."""
    with (Path(layout.handover_dir) / _USED_FILE).open("a") as file:
        file.write(directory_id + "\n")


def used_clearances(layout: Layout) -> set[str]:
    """Directory ids whose clearance this pod has used; the folder exists as long as the pod."""
    path = Path(layout.handover_dir) / _USED_FILE
    return set(path.read_text().split()) if path.exists() else set()


def _check_whose(root: int, disk: Expected) -> None:
    """Check that the volume behind this descriptor names no other cluster; it may have been swapped since the inspection.

    Raises:
        ValueError: it names another cluster, or cannot be parsed.
        OSError: the disk cannot be read.
    """
    told = [
        parse(text).cluster_id
        for path, parse in (
            (names.IDENTITY_FILE, parse_identity),
            (PENDING_FILE, parse_identity),
            (f"{names.LOG_SUBDIR}/{META_PROPERTIES}", parse_meta_properties),
        )
        if (text := volume.read_text(root, path, _LARGEST_META)) is not None
    ]
    if other := [cluster_id for cluster_id in told if cluster_id != disk.cluster_id]:
        raise ValueError(
            f"the volume of {disk.disk} now names cluster {other[0]} (this is {disk.cluster_id}); nothing is written on it"
        )


@contextlib.contextmanager
def _opened_log_dir(layout: Layout, disk: str, expected: Expected | None = None) -> Iterator[int]:
    """A descriptor of a disk's log dir; for writing, ``expected`` is checked. Raises OSError, ValueError."""
    with volume.opened_root(layout.mount(disk)) as root:
        if expected is not None:
            _check_whose(root, expected)
        log = volume.open_folder(root, names.LOG_SUBDIR)
        try:
            yield log
        finally:
            os.close(log)


def _partition_folders(layout: Layout, disk: str) -> list[str]:
    with _opened_log_dir(layout, disk) as log, os.scandir(log) as entries:
        return [
            entry.name
            for entry in entries
            if is_partition_folder(entry.name) and entry.is_dir(follow_symlinks=False)
        ]


def _copy(layout: Layout, disk: str, folder: str) -> Copy:
    with _opened_log_dir(layout, disk) as log:
        opened = volume.open_folder(log, folder)
        try:
            with os.scandir(opened) as files:
                stats = {file.name: file.stat(follow_symlinks=False) for file in files}
            plain = {name: s for name, s in stats.items() if stat.S_ISREG(s.st_mode)}
            end = find_log_end(opened, {name: s.st_size for name, s in plain.items()})
        finally:
            os.close(opened)
        used = [_modified(log, name) for name in _CHECKPOINTS]
    return Copy(
        folder=folder,
        disk=disk,
        dir_used=max(used, default=0.0),
        written=max((s.st_mtime for s in plain.values()), default=0.0),
        size=sum(s.st_size for s in plain.values()),
        end=end,
    )


def _modified(folder: int, name: str) -> float:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return 0.0
