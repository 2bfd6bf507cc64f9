"""Reads one segment, bypassing the page cache. Everything uses descriptors, so that renamed files are detected."""

import contextlib
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.batches import SHORT, SegmentBounds, epoch_of
from spindle.scrub.catalog import Segment, file_name, inactive
from spindle.scrub.confirmation import SegmentIdentity
from spindle.scrub.rate import BLOCK
from spindle.scrub.segment import SegmentCheck
from spindle.scrub.segment_errors import LOG, OFFSETS, TIMES, SegmentError
from spindle_agent import volume
from spindle_agent.scrub.survey import BAD_MEDIUM, names_in

_NO_DIRECT_IO: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
_FILES: Final = (LOG, OFFSETS, TIMES)
# Bytes of an index to read, a multiple of both entry sizes: the index of a 1 GB segment has 3 MB at Kafka's default interval. Somebody who can write to the
# disk could create a sparse file of a terabyte, and all disks of the node share the agent's memory.
_LARGEST_INDEX: Final = 16 * 2**20 // 24 * 24
_NOT_GIVEN: Final = (-1,)
UNKNOWN: Final[SegmentIdentity] = (_NOT_GIVEN,) * len(_FILES)
"""Identity of a segment whose files the disk cannot read at all."""

Pace = Callable[[int], None]
"""Called with each number of bytes read; returns when more may be read."""


@dataclass(frozen=True)
class Scanned:
    """A segment that did not change while it was read.

    Attributes:
        size: bytes read.
        direct: whether they certainly came from the disk, not from memory.
    """

    identity: SegmentIdentity
    finds: tuple[SegmentError, ...]
    size: int
    direct: bool


class Reader:
    """Holds the read buffer, and whether this disk's file system supports direct I/O."""

    def __init__(self, piece: int, pace: Pace) -> None:
        """Create a reader.

        Args:
            piece: bytes per read, a multiple of the block size.
            pace: see `Pace`.
        """
        self._memory = mmap.mmap(-1, piece)
        self._view = memoryview(self._memory)
        self._pace = pace
        self._direct = True

    @property
    def direct(self) -> bool:
        """Whether reads certainly come from the disk."""
        return self._direct

    def scan(self, folder: int, segment: Segment, before: int | None) -> Scanned | None:
        """Read and check one inactive segment.

        Args:
            folder: descriptor of its partition's folder.
            segment: the segment to read.
            before: base offset of the previous segment; None if there is none.

        Returns:
            The result; None if the segment was deleted or changed in the meantime, so that nothing is known.

        Raises:
            OSError: the disk has an error that is not limited to the bytes of one file.
        """
        identity = identify(folder, segment.base)
        if not identity[0]:
            return None
        try:
            finds, read = self._check(folder, segment, before, _given(identity))
        except FileNotFoundError:
            return None
        except UnreadableError as error:
            finds, read = (error.find,), 0
        if identify(folder, segment.base) != identity or segment not in inactive(names_in(folder)):
            return None
        return Scanned(identity, finds, read, self._direct)

    def _check(
        self, folder: int, segment: Segment, before: int | None, size: int
    ) -> tuple[tuple[SegmentError, ...], int]:
        offsets, times = (self._whole(folder, segment.base, file) for file in (OFFSETS, TIMES))
        bounds = SegmentBounds(
            base=segment.base,
            end=segment.end,
            size=size,
            epoch_before=None if before is None else self._epoch(folder, before),
            epoch_after=self._epoch(folder, segment.end),
        )
        check = SegmentCheck(bounds, offsets, times, crc32c.crc32c)
        read = len(offsets or b"") + len(times or b"")
        for piece in self._pieces(folder, segment.base, LOG, size):
            check.feed(piece)
            read += len(piece)
        return check.finish(), read

    def _whole(self, folder: int, base: int, file: str) -> bytes | None:
        try:
            size = os.stat(file_name(base, file), dir_fd=folder, follow_symlinks=False).st_size
            whole = bytearray()
            for piece in self._pieces(folder, base, file, min(size, _LARGEST_INDEX)):
                whole += piece
            return bytes(whole)
        except FileNotFoundError:
            return None

    def _epoch(self, folder: int, base: int) -> int | None:
        """Leader epoch of a neighbour segment's first batch; may come from memory, because the neighbour is checked itself."""
        with contextlib.suppress(OSError):
            file = volume.open_file(folder, file_name(base, LOG))
            try:
                return epoch_of(os.pread(file, SHORT, 0))
            finally:
                os.close(file)
        return None

    def _pieces(self, folder: int, base: int, file: str, size: int) -> Iterator[memoryview]:
        """A file's bytes up to a size, or fewer if it is shorter."""
        try:
            opened = self._open(folder, file_name(base, file))
        except OSError as error:
            _check_medium(error, file, 0)
            raise
        try:
            at = 0
            while at < size:
                count = min(self._read(opened, file, at), size - at)
                if not count:
                    return
                self._pace(count)
                yield self._view[:count]
                at += count
        finally:
            os.close(opened)

    def _open(self, folder: int, name: str) -> int:
        if self._direct:
            try:
                return volume.open_file(folder, name, os.O_RDONLY | os.O_DIRECT)
            except OSError as error:
                if error.errno not in _NO_DIRECT_IO:
                    raise
                self._direct = False
        return volume.open_file(folder, name)

    def _read(self, opened: int, file: str, at: int) -> int:
        # Without direct I/O the page cache would be read: drop it before, and again afterwards so that other data stays cached.
        if not self._direct:
            os.posix_fadvise(opened, at, len(self._view), os.POSIX_FADV_DONTNEED)
        try:
            count = os.preadv(opened, [self._view], at)
        except OSError as error:
            if error.errno in _NO_DIRECT_IO:
                self._direct = (
                    False  # opening with O_DIRECT succeeded nevertheless; the next attempt is without it
                )
            _check_medium(error, file, at)
            raise
        if not self._direct:
            os.posix_fadvise(opened, at, len(self._view), os.POSIX_FADV_DONTNEED)
        # A direct read must start at a block boundary; short reads occur only at the end of a file.
        return count if count == len(self._view) or not self._direct else _last(opened, at, count)


class UnreadableError(Exception):
    """The disk cannot read some bytes of one file."""

    def __init__(self, find: SegmentError) -> None:
        super().__init__(find.message)
        self.find = find


def unreadable(error: OSError, file: str, at: int, what: str = "it") -> SegmentError:
    """The segment error for an error of the disk."""
    why = volume.describe(error.errno or errno.EIO)
    return SegmentError(SegmentErrorKind.UNREADABLE, file, at, None, f"the disk cannot read {what}: {why}")


def _check_medium(error: OSError, file: str, at: int) -> None:
    """Distinguish an error about the bytes of one file from other errors.

    Raises:
        UnreadableError: the error is about this file.
    """
    if error.errno in BAD_MEDIUM:
        raise UnreadableError(unreadable(error, file, at)) from error


def _given(identity: SegmentIdentity) -> int:
    """Size of a segment's log.

    Raises:
        UnreadableError: the disk cannot read the inode of one of the files.
    """
    for file, found in zip(_FILES, identity, strict=True):
        if found == _NOT_GIVEN:
            raise UnreadableError(unreadable(OSError(errno.EIO, ""), file, 0))
    return identity[0][1]


def _last(opened: int, at: int, count: int) -> int:
    """Bytes of a short read after which to continue: all at the file's end, else whole blocks."""
    return count if at + count >= os.fstat(opened).st_size else count // BLOCK * BLOCK


def identify(folder: int, base: int) -> SegmentIdentity:
    """Inode, size and modification time of a segment's files; an empty entry for a missing file.

    The entry of a file whose inode cannot be read is only -1.

    Raises:
        OSError: the folder cannot be read.
    """
    return tuple(_identify(folder, file_name(base, file)) for file in _FILES)


def _identify(folder: int, name: str) -> tuple[int, ...]:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ()
    except OSError as error:
        if error.errno not in BAD_MEDIUM:
            raise
        return _NOT_GIVEN
    return found.st_ino, found.st_size, found.st_mtime_ns
