"""Writes a folder as a layer: the same files give the same bytes, whoever wrote them, when and where."""

import gzip
import hashlib
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_TIME: Final = 946684800  # of every file, the start of 2000: a ZIP archive cannot hold a time before 1980
_OPEN: Final = ("tmp", "var/tmp")  # everybody may write there
_LARGE: Final = 1 << 18  # from this size on, copies of a library become links


def write_layer(folder: Path, target: Path) -> str:
    """Write a folder as a tar archive.

    Returns:
        Its SHA-256 as hex.
    """
    with (
        target.open("wb") as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in _sorted(folder):
            _add(archive, path, str(path.relative_to(folder)))
    return digest_of(target)


def link_copies(folder: Path) -> None:
    """Replace large files that another file of their folder repeats, as wheels do with libraries, by links to it."""
    for place in (folder, *(path for path in _sorted(folder) if path.is_dir() and not path.is_symlink())):
        first: dict[str, Path] = {}
        for path in sorted(place.iterdir(), key=lambda each: (-len(each.name), each.name)):
            if path.is_file() and not path.is_symlink() and path.stat().st_size >= _LARGE:
                kept = first.setdefault(digest_of(path), path)
                if kept is not path:
                    path.unlink()
                    path.symlink_to(kept.name)


def compress(source: Path, target: Path) -> None:
    """Compress a layer; the same layer gives the same bytes."""
    with (
        source.open("rb") as plain,
        target.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, 1 << 20)


def digest_of(path: Path) -> str:
    """SHA-256 of a file as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def add_bytes(archive: tarfile.TarFile, name: str, body: IO[bytes], size: int) -> None:
    """Add a file to an archive, with the time that all files have."""
    entry = _entry(name, 0o644)
    entry.size = size
    archive.addfile(entry, body)


def _sorted(folder: Path) -> Iterator[Path]:
    """Everything below a folder; a folder comes before what is in it."""
    for path in sorted(folder.iterdir(), key=lambda each: each.name):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _sorted(path)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_symlink():
        entry = _entry(name, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, str(path.readlink())
        archive.addfile(entry)
    elif path.is_dir():
        entry = _entry(name, 0o1777 if name in _OPEN else 0o755)
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    else:
        entry = _entry(name, 0o755 if path.stat().st_mode & 0o100 else 0o644)
        entry.size = path.stat().st_size
        with path.open("rb") as body:
            archive.addfile(entry, body)


def _entry(name: str, mode: int) -> tarfile.TarInfo:
    """An entry that belongs to root."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.mtime = mode, _TIME
    return entry
