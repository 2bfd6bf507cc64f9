"""``spindle-preflight takeover``: converts the volumes of a stopped node of another operator to Spindle's layout, or back.

A log dir is renamed in place, so nothing is copied. All volumes are inspected before the first one is changed, each step is durable
before the next one, and an interrupted run can be continued.
"""

import errno
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.api import names
from spindle.model.disk_identity import META_PROPERTIES
from spindle.takeover import volumes
from spindle.takeover.volumes import VolumeFinding, VolumeObservation, VolumeOrder, VolumePlace
from spindle_agent import volume

_LOCK: Final = ".lock"  # Kafka's lock file, locked while Kafka runs
_LARGEST: Final = 64 * 1024
_OUR_META: Final = f"{names.LOG_SUBDIR}/{META_PROPERTIES}"


def carry_out(order: VolumeOrder) -> list[VolumeFinding]:
    """Convert the volumes; if one is refused, none is changed."""
    judge = volumes.may_put_back if order.undo else volumes.may_take
    findings = [judge(order, place, look(place)) for place in order.places]
    if any(finding.refusal for finding in findings):
        return findings
    for place, finding in zip(order.places, findings, strict=True):
        if not finding.done:
            (_put_back if order.undo else _take)(place)
    return findings


def look(place: VolumePlace) -> VolumeObservation:
    """Inspect a volume."""
    path = Path(place.path)
    theirs, ours = path / place.folder, path / names.LOG_SUBDIR
    with volume.opened_root(place.path) as root:
        entries = frozenset(volume.names_in(root, ""))
        meta, mine, record = (
            volume.read_text(root, name, _LARGEST)
            for name in (
                f"{place.folder}/{META_PROPERTIES}",
                f"{names.LOG_SUBDIR}/{META_PROPERTIES}",
                volumes.RECORD,
            )
        )
        locked = any(_is_locked(root, f"{folder}/{_LOCK}") for folder in (place.folder, names.LOG_SUBDIR))
    return VolumeObservation(
        entries=entries,
        meta=meta,
        ours=mine,
        record=record,
        identity=names.IDENTITY_FILE in entries,
        locked=locked,
        writable=os.access(path, os.W_OK | os.X_OK)
        and all(os.access(f, os.W_OK) for f in (theirs, ours) if f.exists()),
    )


@dataclass(frozen=True)
class _Paths:
    """The paths on a volume that are renamed."""

    root: Path
    folder: str

    @classmethod
    def of(cls, place: VolumePlace) -> "_Paths":
        return cls(Path(place.path), place.folder)

    @property
    def theirs(self) -> Path:
        return self.root / self.folder

    @property
    def ours(self) -> Path:
        return self.root / names.LOG_SUBDIR

    def aside(self, place: VolumePlace, log: Path) -> tuple[Path, Path]:
        """Files that do not belong to the new layout, and where they are kept."""
        if place.controller:
            return log / volumes.METADATA_FOLDER / "quorum-state", self.root / volumes.KEPT_VOTE
        return log / volumes.METADATA_FOLDER, self.root / volumes.KEPT_METADATA


def _take(place: VolumePlace) -> None:
    paths = _Paths.of(place)
    record = paths.root / volumes.RECORD
    if paths.theirs.exists():
        if not record.exists():
            meta = _text(paths.root, f"{place.folder}/{META_PROPERTIES}")
            _write(paths.root, volumes.RECORD, volumes.note(place, meta))
        away, kept = paths.aside(place, paths.theirs)
        if away.exists() and not kept.exists():
            away.rename(kept)
        paths.theirs.rename(paths.ours)
        _settle(paths.root, paths.ours)
    if place.as_node != place.node_id:
        text = volumes.restore(_text(paths.root, volumes.RECORD)).text
        _write(paths.root, _OUR_META, volumes.renumbered(text, place.as_node))


def _put_back(place: VolumePlace) -> None:
    paths = _Paths.of(place)
    before = volumes.restore(_text(paths.root, volumes.RECORD))
    # Otherwise it was interrupted before the log dir was renamed, or after it was renamed back.
    if paths.ours.exists():
        _write(paths.root, _OUR_META, before.text)
        paths.ours.rename(paths.theirs)
    away, kept = paths.aside(place, paths.theirs)
    if kept.exists() and not away.exists():
        kept.rename(away)
    _settle(paths.root, paths.theirs)
    (paths.root / volumes.RECORD).unlink()
    _settle(paths.root)


def _settle(*folders: Path) -> None:
    """Make renames durable (fsync of the folders)."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _text(root: Path, path: str) -> str:
    """Read a file that must exist. Raises OSError."""
    with volume.opened_root(str(root)) as opened:
        text = volume.read_text(opened, path, _LARGEST)
    if text is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return text


def _write(root: Path, path: str, text: str) -> None:
    with volume.opened_root(str(root)) as opened:
        volume.write_durably(opened, path, text)


def _is_locked(root: int, path: str) -> bool:
    """Whether a process on this machine holds a lock on a file, as Kafka does on its log dirs."""
    try:
        file = volume.open_file(root, path, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False
