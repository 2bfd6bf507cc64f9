"""Reads a DescribeLogDirs response in which only sizes changed: in one step, not field by field.

Every replica that is written to changes its size between two observations, so nearly every response differs from the one before, in nothing but
sizes. Where they are is found once (`find_layout`), and used for as long as all other bytes stay the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spindle.model.view import LogDir
from spindle_operator.answers import read_log_dirs
from spindle_operator.raw_answers import RawAnswer

_VERSIONS: Final = (4, 5)  # DescribeLogDirsResponse: with the sizes of volumes; 5 with cordons
_LONG: Final = 8
_PARTITION: Final = (
    4 + 2 * _LONG + 1 + 1
)  # index, size, offset lag, whether it is a future replica, tagged fields

Key = tuple[str, int]


@dataclass(frozen=True)
class _Dir:
    """One log dir of a layout.

    Attributes:
        like: the dir as it was read; its sizes are out of date.
        keys, future_keys: of its replicas, in the order of the response.
        order: of the response's partitions, those of ``keys`` and then those of ``future_keys``.
    """

    like: LogDir
    keys: tuple[Key, ...]
    future_keys: tuple[Key, ...]
    order: NDArray[np.int32]


@dataclass(frozen=True)
class Layout:
    """Where a response has its sizes.

    Attributes:
        version: of the response.
        length: bytes of the response.
        fixed: SHA-256 of the response with zeros instead of sizes and lags.
        sizes: first byte of each size: for each dir those of its partitions, then the volume's total and usable bytes.
        lags: first byte of each lag.
        dirs: the log dirs.
    """

    version: int
    length: int
    fixed: bytes
    sizes: NDArray[np.int32]
    lags: NDArray[np.int32]
    dirs: tuple[_Dir, ...]

    def read(self, answer: RawAnswer) -> tuple[LogDir, ...] | None:
        """The log dirs of a response; None if more than sizes changed."""
        body = np.frombuffer(answer.body, np.uint8)
        if answer.version != self.version or len(body) != self.length:
            return None
        if _digest_without(body, self.sizes, self.lags) != self.fixed:
            return None
        sizes = body[self.sizes[:, None] + np.arange(_LONG)].view(">i8")[:, 0].astype(np.int64)
        return tuple(self._read(sizes))

    def _read(self, sizes: NDArray[np.int64]) -> Iterator[LogDir]:
        at = 0
        for each in self.dirs:
            count = len(each.order)
            of = np.maximum(sizes[at : at + count], 0)[each.order].tolist()
            total, usable = (
                None if value < 0 else value for value in sizes[at + count : at + count + 2].tolist()
            )
            at += count + 2
            yield LogDir(
                each.like.path,
                each.like.error,
                total,
                usable if usable is None or total is None else min(usable, total),
                each.like.cordoned,
                dict(zip(each.keys, of[: len(each.keys)], strict=True)),
                dict(zip(each.future_keys, of[len(each.keys) :], strict=True)),
            )


def read_with_layout(answer: RawAnswer, layout: Layout | None) -> tuple[tuple[LogDir, ...], Layout | None]:
    """The log dirs of a response, and the layout with which to read the next one; `AnswerMemo.read` calls it.

    Raises:
        KafkaError: the response has an error, or cannot be decoded.
    """
    found = layout.read(answer) if layout is not None else None
    if found is not None:
        return found, layout
    dirs = read_log_dirs(answer.decode())
    return dirs, find_layout(answer, dirs)


def find_layout(answer: RawAnswer, dirs: tuple[LogDir, ...]) -> Layout | None:
    """The layout of a response that was read as these dirs; None if it is not one that reads the same."""
    if answer.version not in _VERSIONS:
        return None
    try:
        sizes, lags, partitions = _walk(answer)
    except (IndexError, UnicodeDecodeError):
        return None
    if len(partitions) != len(dirs):
        return None
    if max(chain(sizes, lags), default=0) + _LONG > len(answer.body):
        return None
    at, lag_at = np.array(sizes, np.int32), np.array(lags, np.int32)
    fixed = _digest_without(np.frombuffer(answer.body, np.uint8), at, lag_at)
    layout = Layout(answer.version, len(answer.body), fixed, at, lag_at, tuple(map(_dir, dirs, partitions)))
    # The library's decoder is the judge: a layout that reads anything else is not used.
    return layout if layout.read(answer) == dirs else None


def _dir(like: LogDir, partitions: list[tuple[Key, bool]]) -> _Dir:
    current = [number for number, (_, future) in enumerate(partitions) if not future]
    futures = [number for number, (_, future) in enumerate(partitions) if future]
    # The keys that the dir has already: with a million replicas, a second copy of them is a hundred megabytes.
    held = {key: key for key in chain(like.replicas, like.futures)}
    return _Dir(
        LogDir(like.path, like.error, cordoned=like.cordoned),
        tuple(held.get(key, key) for key in (partitions[number][0] for number in current)),
        tuple(held.get(key, key) for key in (partitions[number][0] for number in futures)),
        np.array(current + futures, np.int32),
    )


def _digest_without(body: NDArray[np.uint8], sizes: NDArray[np.int32], lags: NDArray[np.int32]) -> bytes:
    """SHA-256 of a response with zeros in place of sizes and lags, which begin at these bytes."""
    fixed = body.copy()
    for byte in range(_LONG):
        fixed[sizes + byte] = fixed[lags + byte] = 0
    return sha256(fixed.data).digest()


def _walk(answer: RawAnswer) -> tuple[list[int], list[int], list[list[tuple[Key, bool]]]]:
    """Where sizes and lags begin, and each dir's partitions with whether each is a future replica. Source: DescribeLogDirsResponse.json."""
    body = answer.body
    sizes: list[int] = []
    lags: list[int] = []
    found: list[list[tuple[Key, bool]]] = []
    at = 4 + 2  # throttle time, error
    dirs, at = _length(body, at)
    for _ in range(dirs):
        partitions: list[tuple[Key, bool]] = []
        _, at = _text(body, at + 2)
        topics, at = _length(body, at)
        for _ in range(topics):
            name, at = _text(body, at)
            count, at = _length(body, at)
            for _ in range(count):
                partitions.append(
                    ((name, int.from_bytes(body[at : at + 4], "big", signed=True)), body[at + 20] != 0)
                )
                sizes.append(at + 4)
                lags.append(at + 4 + _LONG)
                at = _untagged(body, at + _PARTITION - 1)
            at = _untagged(body, at)
        sizes += [at, at + _LONG]
        at = _untagged(body, at + 2 * _LONG + (answer.version - _VERSIONS[0]))
        found.append(partitions)
    return sizes, lags, found


def _length(body: bytes, at: int) -> tuple[int, int]:
    """The length of a compact array or string, and where its content begins."""
    value = shift = 0
    while True:
        byte = body[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value - 1, at


def _text(body: bytes, at: int) -> tuple[str, int]:
    length, at = _length(body, at)
    return body[at : at + length].decode(), at + length


def _untagged(body: bytes, at: int) -> int:
    """Skip an empty set of tagged fields; one that is not empty raises IndexError, for nothing else is known of it."""
    if body[at]:
        raise IndexError("tagged fields")
    return at + 1
