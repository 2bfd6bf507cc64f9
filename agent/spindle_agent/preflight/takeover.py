"""``spindle-preflight takeover``: makes the volumes of one stopped node of another operator's ours, or puts them back.

A log dir is renamed in its place, so nothing is copied. All volumes are looked at before the first one is changed, each step is durable
before the next one, and a run that was cut off is taken up where it was.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spindle.cluster import names
from spindle.disks.identity import META_PROPERTIES
from spindle.takeover import volumes
from spindle.takeover.volumes import Finding, Order, Place, Seen
from spindle_agent.preflight.prepare import write_durably

_LOCK: Final = ".lock"  # Kafka's, held as long as it runs
_LARGEST: Final = 64 * 1024


def carry_out(order: Order) -> list[Finding]:
    """Do it; if one volume is refused none is changed."""
    judge = volumes.may_put_back if order.undo else volumes.may_take
    findings = [judge(order, place, look(place)) for place in order.places]
    if any(finding.refusal for finding in findings):
        return findings
    for place, finding in zip(order.places, findings, strict=True):
        if not finding.done:
            (_put_back if order.undo else _take)(place)
    return findings


def look(place: Place) -> Seen:
    """What stands on a volume."""
    root = Path(place.path)
    entries = frozenset(entry.name for entry in root.iterdir())
    theirs, ours = root / place.folder, root / names.LOG_SUBDIR
    return Seen(
        entries=entries,
        meta=_text(theirs / META_PROPERTIES),
        ours=_text(ours / META_PROPERTIES),
        record=_text(root / volumes.RECORD),
        identity=names.IDENTITY_FILE in entries,
        locked=_is_locked(theirs / _LOCK) or _is_locked(ours / _LOCK),
        writable=os.access(root, os.W_OK | os.X_OK)
        and all(os.access(f, os.W_OK) for f in (theirs, ours) if f.exists()),
    )


@dataclass(frozen=True)
class _Paths:
    """A volume's parts that are moved."""

    root: Path
    folder: str

    @classmethod
    def of(cls, place: Place) -> "_Paths":
        return cls(Path(place.path), place.folder)

    @property
    def theirs(self) -> Path:
        return self.root / self.folder

    @property
    def ours(self) -> Path:
        return self.root / names.LOG_SUBDIR

    def aside(self, place: Place, log: Path) -> tuple[Path, Path]:
        """What does not go along, and where it is kept."""
        if place.controller:
            return log / volumes.METADATA_FOLDER / "quorum-state", self.root / volumes.KEPT_VOTE
        return log / volumes.METADATA_FOLDER, self.root / volumes.KEPT_METADATA


def _take(place: Place) -> None:
    paths = _Paths.of(place)
    record = paths.root / volumes.RECORD
    if paths.theirs.exists():
        if not record.exists():
            write_durably(record, volumes.note(place, (paths.theirs / META_PROPERTIES).read_text()))
        away, kept = paths.aside(place, paths.theirs)
        if away.exists() and not kept.exists():
            away.rename(kept)
        paths.theirs.rename(paths.ours)
        _settle(paths.root, paths.ours)
    if place.as_node != place.node_id:
        text = volumes.restore(record.read_text()).text
        write_durably(paths.ours / META_PROPERTIES, volumes.renumbered(text, place.as_node))


def _put_back(place: Place) -> None:
    paths = _Paths.of(place)
    before = volumes.restore((paths.root / volumes.RECORD).read_text())
    write_durably(paths.ours / META_PROPERTIES, before.text)
    away, kept = paths.aside(place, paths.ours)
    if kept.exists() and not away.exists():
        kept.rename(away)
    paths.ours.rename(paths.theirs)
    (paths.root / volumes.RECORD).unlink()
    _settle(paths.root, paths.theirs)


def _settle(*folders: Path) -> None:
    """Have renames on the disk."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST).decode(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_locked(path: Path) -> bool:
    """Whether a process on this machine holds a lock on a file, as Kafka does on its log dirs."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except BlockingIOError:
        return True
    return False
