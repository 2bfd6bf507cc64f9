"""What preflight writes on disks: the format of a cleared one, placeholders, and folders set aside."""

import os
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from spindle.cluster import names
from spindle.cluster.ids import uuid_from_entropy
from spindle.cluster.layout import Layout
from spindle.disks.facts import Expected, Found
from spindle.disks.identity import (
    META_PROPERTIES,
    Identity,
    parse_meta_properties,
    render_identity,
    render_meta_properties,
)
from spindle.disks.strays import STRAY_SUFFIX, Copy, is_partition_folder, strays
from spindle_agent.preflight.look import PENDING_FILE

# Written again and again while Kafka runs, and so telling when a dir was in use last.
_CHECKPOINTS: Final = (
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    ".kafka_cleanshutdown",
)
_USED_FILE: Final = "used-clearances"
_LONGEST_NAME: Final = 255  # bytes of a file name, as Kafka has it


def format_log_dir(layout: Layout, disk: Expected, found: Found) -> None:
    """Make a blank disk a log dir; Kafka asks for nothing but its ``meta.properties``.

    That file comes first: with it the disk has its identity, without it it is still blank, and nothing lies between.
    """
    log = Path(layout.log_dir(disk.disk))
    log.mkdir(exist_ok=True)
    write_durably(log / META_PROPERTIES, render_meta_properties(disk.identity))
    adopt(layout, disk, found)


def begin_controller_format(layout: Layout, disk: Expected, found: Found) -> None:
    """Mark a controller's disk for the format that Kafka's own tool does in Kafka's container.

    The mark is not yet the identity, so that a disk whose tool never ran can be told from one that lost its log.
    """
    write_durably(Path(layout.mount(disk.disk)) / PENDING_FILE, render_identity(disk.identity, found.fs_uuid))


def adopt(layout: Layout, disk: Expected, found: Found) -> None:
    """Write our identity file on a disk whose ``meta.properties`` is ours already, if it isn't there."""
    if found.identity is None:
        root = Path(layout.mount(disk.disk))
        write_durably(root / names.IDENTITY_FILE, render_identity(disk.identity, found.fs_uuid))
        (root / PENDING_FILE).unlink(missing_ok=True)


def place_placeholder(layout: Layout, disk: Expected) -> None:
    """Put a regular file where a disk would be mounted: Kafka counts the dir as offline and starts."""
    path = Path(layout.mount(disk.disk))
    if path.is_dir():
        path.rmdir()  # an empty mount point of an earlier try; anything else must not be touched
    path.write_text(
        "This disk is out of use. The file stands here so that Kafka takes its log dir as offline.\n"
    )


def prepare_metadata_dir(layout: Layout, cluster_id: str, node_id: int) -> None:
    """A broker's metadata log lies on an emptyDir that is new with each pod."""
    log = Path(layout.metadata_log_dir)
    log.mkdir(exist_ok=True)
    path = log / META_PROPERTIES
    if path.exists():
        there = parse_meta_properties(path.read_text())
        if (there.cluster_id, there.node_id) == (cluster_id, node_id):
            return
        raise ValueError(f"{path} belongs to node {there.node_id} of cluster {there.cluster_id}")
    directory = uuid_from_entropy(os.urandom(32), "metadata", str(node_id))
    write_durably(path, render_meta_properties(Identity(cluster_id, node_id, "metadata", directory)))


def set_strays_aside(layout: Layout, disks: Iterable[Expected]) -> list[str]:
    """Rename partition folders that another, newer dir holds too; returns the paths that they had.

    Kafka refuses to start on a stray folder whose name lacks the unique part in front of the suffix.
    """
    held = {disk.disk: _partition_folders(layout, disk.disk) for disk in disks}
    count = Counter(folder for folders in held.values() for folder in folders)
    # Only what two dirs hold is looked into: a large broker has a hundred thousand files.
    copies = [
        _copy(layout, disk, folder)
        for disk, folders in held.items()
        for folder in folders
        if count[folder] > 1
    ]
    moved = []
    for copy in strays(copies):
        path = Path(layout.log_dir(copy.disk)) / copy.folder
        unique = f".{uuid.uuid4().hex}{STRAY_SUFFIX}"
        path.rename(path.with_name(path.name[: _LONGEST_NAME - len(unique)] + unique))
        moved.append(str(path))
    return moved


def remember_used(layout: Layout, directory_id: str) -> None:
    """Note that this pod has used the clearance for a directory id."""
    with (Path(layout.handover_dir) / _USED_FILE).open("a") as file:
        file.write(directory_id + "\n")


def used_clearances(layout: Layout) -> set[str]:
    """Directory ids whose clearance this pod has used; the folder lives as long as the pod."""
    path = Path(layout.handover_dir) / _USED_FILE
    return set(path.read_text().split()) if path.exists() else set()


def write_durably(path: Path, text: str) -> None:
    """Write a file so that after a power cut it is there whole or not at all."""
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _partition_folders(layout: Layout, disk: str) -> list[str]:
    with os.scandir(layout.log_dir(disk)) as entries:
        return [entry.name for entry in entries if is_partition_folder(entry.name) and entry.is_dir()]


def _copy(layout: Layout, disk: str, folder: str) -> Copy:
    log = Path(layout.log_dir(disk))
    with os.scandir(log / folder) as files:
        stats = [file.stat() for file in files if file.is_file()]
    return Copy(
        folder=folder,
        disk=disk,
        dir_used=max((_modified(log / name) for name in _CHECKPOINTS), default=0.0),
        written=max((s.st_mtime for s in stats), default=0.0),
        size=sum(s.st_size for s in stats),
    )


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
