"""Reads one segment past the page cache. Everything goes through descriptors, so that a swap of names is seen."""

import contextlib
import errno
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import crc32c

from spindle.scrub.batches import SHORT, SegmentBounds, epoch_of
from spindle.scrub.catalog import Segment, file_name, inactive
from spindle.scrub.confirmation import SegmentIdentity
from spindle.scrub.rate import BLOCK
from spindle.scrub.segment import SegmentCheck
from spindle.scrub.segment_errors import LOG, OFFSETS, TIMES, SegmentError, SegmentErrorKind
from spindle_agent import volume
from spindle_agent.scrub.survey import BAD_MEDIUM, names_in

_NO_DIRECT_IO: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
_FILES: Final = (LOG, OFFSETS, TIMES)
# Of an index, bytes that are looked at, whole entries of either kind: one of a segment of 1 GB has 3 MB at Kafka's default interval. Whoever writes to the
# disk can make a file of a terabyte that takes no space, and the agent's memory is that of all disks of its node.
_LARGEST_INDEX: Final = 16 * 2**20 // 24 * 24
_NOT_GIVEN: Final = (-1,)
UNKNOWN: Final[SegmentIdentity] = (_NOT_GIVEN,) * len(_FILES)
"""In place of the identity of a segment of which the disk gives nothing."""

Pace = Callable[[int], None]
"""Told of each number of bytes that was read; returns when more may be read."""


@dataclass(frozen=True)
class Scanned:
    """A segment that did not change while it was read.

    Attributes:
        size: bytes that were read.
        direct: whether they surely came from the disk, not from memory.
    """

    identity: SegmentIdentity
    finds: tuple[SegmentError, ...]
    size: int
    direct: bool


class Reader:
    """Has the memory that is read into, and knows whether this disk's file system takes direct I/O."""

    def __init__(self, piece: int, pace: Pace) -> None:
        """Nothing is read yet.

        Args:
            piece: bytes to read at a time, whole blocks.
            pace: see `Pace`.
        """
        self._memory = mmap.mmap(-1, piece)
        self._view = memoryview(self._memory)
        self._pace = pace
        self._direct = True

    @property
    def direct(self) -> bool:
        """Whether what is read surely comes from the disk."""
        return self._direct

    def scan(self, folder: int, segment: Segment, before: int | None) -> Scanned | None:
        """Read and check one inactive segment.

        Args:
            folder: descriptor of its partition's folder.
            segment: what to read.
            before: base offset of the segment before it; None if there is none.

        Returns:
            what was found; None if the segment has gone, or was changed meanwhile: then nothing is known.

        Raises:
            OSError: the disk does not answer as one that works, and not for the bytes of one file.
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
        """Of a neighbour's first batch: from memory, if it is there, since the neighbour has its own turn."""
        with contextlib.suppress(OSError):
            file = volume.open_file(folder, file_name(base, LOG))
            try:
                return epoch_of(os.pread(file, SHORT, 0))
            finally:
                os.close(file)
        return None

    def _pieces(self, folder: int, base: int, file: str, size: int) -> Iterator[memoryview]:
        """A file's bytes up to a size, as far as it has them."""
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
        # Without direct I/O what is in memory would be read: it is dropped first, and again so as to push nothing else out.
        if not self._direct:
            os.posix_fadvise(opened, at, len(self._view), os.POSIX_FADV_DONTNEED)
        try:
            count = os.preadv(opened, [self._view], at)
        except OSError as error:
            if error.errno in _NO_DIRECT_IO:
                self._direct = False  # it was opened so all the same; the next attempt goes without
            _check_medium(error, file, at)
            raise
        if not self._direct:
            os.posix_fadvise(opened, at, len(self._view), os.POSIX_FADV_DONTNEED)
        # A direct read has to begin on a block; short ones occur at the end of a file only.
        return count if count == len(self._view) or not self._direct else _last(opened, at, count)


class UnreadableError(Exception):
    """The disk does not give some bytes of one file."""

    def __init__(self, find: SegmentError) -> None:
        super().__init__(find.message)
        self.find = find


def unreadable(error: OSError, file: str, at: int, what: str = "it") -> SegmentError:
    """The find that an error of the disk is."""
    why = os.strerror(error.errno or errno.EIO)
    return SegmentError(SegmentErrorKind.UNREADABLE, file, at, None, f"the disk does not give {what}: {why}")


def _check_medium(error: OSError, file: str, at: int) -> None:
    """Tell an error that is about the bytes of one file from others.

    Raises:
        UnreadableError: it is.
    """
    if error.errno in BAD_MEDIUM:
        raise UnreadableError(unreadable(error, file, at)) from error


def _given(identity: SegmentIdentity) -> int:
    """Size of a segment's log.

    Raises:
        UnreadableError: the disk does not give the inode of one of the files.
    """
    for file, found in zip(_FILES, identity, strict=True):
        if found == _NOT_GIVEN:
            raise UnreadableError(unreadable(OSError(errno.EIO, ""), file, 0))
    return identity[0][1]


def _last(opened: int, at: int, count: int) -> int:
    """Bytes of a short read that may be gone on from: all at the file's end, whole blocks before it."""
    return count if at + count >= os.fstat(opened).st_size else count // BLOCK * BLOCK


def identify(folder: int, base: int) -> SegmentIdentity:
    """Inode, size and time of the last write of a segment's files; an empty entry for one that is not there.

    That of a file whose inode the disk does not give is -1 alone.

    Raises:
        OSError: the folder cannot be looked at.
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
