"""Reads a DescribeLogDirs response in which only sizes changed: in one step, not field by field.

Every replica that is written to changes its size between two observations, so nearly every response differs from the one before, in nothing but
sizes. Where they are is found once (`find_layout`), and used for as long as all other bytes stay the same.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import numpy as np
from numpy.typing import NDArray

from spindle.model.replica_sizes import NONE, Key, ReplicaKeys, ReplicaSizes
from spindle.model.view import LogDir
from spindle_operator.answers import read_log_dirs
from spindle_operator.raw_answers import RawAnswer

_VERSIONS: Final = (4, 5)  # DescribeLogDirsResponse: with the sizes of volumes; 5 with cordons
_LONG: Final = 8
_PARTITION: Final = (
    4 + 2 * _LONG + 1 + 1
)  # index, size, offset lag, whether it is a future replica, tagged fields
# What changes comes in pairs: a replica's size and lag, a volume's total and usable bytes.
_PAIR: Final = 2 * _LONG


@dataclass(frozen=True)
class _Dir:
    """One log dir of a layout.

    Attributes:
        like: the dir as it was read, without its replicas; its sizes are out of date.
        keys, future_keys: of its replicas.
    """

    like: LogDir
    keys: ReplicaKeys
    future_keys: ReplicaKeys


@dataclass(frozen=True)
class Layout:
    """Where a response has its sizes.

    Attributes:
        version: of the response.
        length: bytes of the response.
        fixed: SHA-256 of the response with zeros in place of the pairs.
        pairs: first byte of each pair: for each dir those of its replicas and of its future replicas, in the order of their keys, then the volume's; at last those
            that a dir has for a replica besides.
        dirs: the log dirs.
    """

    version: int
    length: int
    fixed: bytes
    pairs: NDArray[np.int32]
    dirs: tuple[_Dir, ...]

    def read(self, answer: RawAnswer) -> tuple[LogDir, ...] | None:
        """The log dirs of a response; None if more than sizes changed."""
        body = np.frombuffer(answer.body, np.uint8)
        if answer.version != self.version or len(body) != self.length:
            return None
        if _digest_without(body, self.pairs) != self.fixed:
            return None
        return tuple(self._read(body[self.pairs[:, None] + np.arange(_PAIR)].view(">i8").astype(np.int64)))

    def _read(self, pairs: NDArray[np.int64]) -> Iterator[LogDir]:
        sizes = np.maximum(pairs[:, 0], 0).data.cast("B")
        at = 0
        for each in self.dirs:
            futures_at = at + len(each.keys)
            volume_at = futures_at + len(each.future_keys)
            total, usable = (None if value < 0 else value for value in pairs[volume_at].tolist())
            yield LogDir(
                each.like.path,
                each.like.error,
                total,
                usable if usable is None or total is None else min(usable, total),
                each.like.cordoned,
                _with_sizes(each.keys, sizes[at * _LONG : futures_at * _LONG]),
                _with_sizes(each.future_keys, sizes[futures_at * _LONG : volume_at * _LONG]),
            )
            at = volume_at + 1


def _with_sizes(keys: ReplicaKeys, sizes: memoryview) -> ReplicaSizes:
    if not keys:
        return NONE
    column = array("q")
    column.frombytes(sizes)
    return ReplicaSizes(keys, column)


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
        found, others = _walk(answer)
    except (IndexError, UnicodeDecodeError):
        return None
    if len(found) != len(dirs):
        return None
    known = tuple(map(_dir, dirs))
    pairs: list[int] = []
    for each, (current, futures, volume) in zip(known, found, strict=True):
        if len(current) != len(each.keys) or len(futures) != len(each.future_keys):
            return None
        pairs += (
            places[key]
            for keys, places in ((each.keys, current), (each.future_keys, futures))
            for key in keys
        )
        pairs.append(volume)
    pairs += others
    if pairs and max(pairs) + _PAIR > len(answer.body):
        return None
    at = np.array(pairs, np.int32)
    fixed = _digest_without(np.frombuffer(answer.body, np.uint8), at)
    layout = Layout(answer.version, len(answer.body), fixed, at, known)
    # The library's decoder is the judge: a layout that reads anything else is not used.
    return layout if layout.read(answer) == dirs else None


def _dir(like: LogDir) -> _Dir:
    return _Dir(
        LogDir(like.path, like.error, cordoned=like.cordoned, replicas=NONE, futures=NONE),
        _keys(like.replicas),
        _keys(like.futures),
    )


def _keys(replicas: Mapping[Key, int]) -> ReplicaKeys:
    return replicas.columns if isinstance(replicas, ReplicaSizes) else ReplicaKeys(replicas)


def _digest_without(body: NDArray[np.uint8], pairs: NDArray[np.int32]) -> bytes:
    """SHA-256 of a response with zeros in place of the pairs that begin at these bytes."""
    fixed = body.copy()
    for byte in range(_PAIR):
        fixed[pairs + byte] = 0
    return sha256(fixed.data).digest()


Places = dict[Key, int]  # first byte of a replica's pair


def _walk(answer: RawAnswer) -> tuple[list[tuple[Places, Places, int]], list[int]]:
    """Of each dir where the pairs of its replicas, of its future replicas and of its volume begin; and where further ones of the same replicas do.

    Source: DescribeLogDirsResponse.json.
    """
    body = answer.body
    others: list[int] = []
    found: list[tuple[Places, Places, int]] = []
    at = 4 + 2  # throttle time, error
    dirs, at = _length(body, at)
    for _ in range(dirs):
        current: Places = {}
        futures: Places = {}
        _, at = _text(body, at + 2)
        topics, at = _length(body, at)
        for _ in range(topics):
            name, at = _text(body, at)
            count, at = _length(body, at)
            for _ in range(count):
                key = (name, int.from_bytes(body[at : at + 4], "big", signed=True))
                places = futures if body[at + 4 + _PAIR] else current
                if (
                    key in places
                ):  # no broker reports a replica twice; the last one counts, as in a dict of them
                    others.append(places[key])
                places[key] = at + 4
                at = _untagged(body, at + _PARTITION - 1)
            at = _untagged(body, at)
        found.append((current, futures, at))
        at = _untagged(body, at + _PAIR + (answer.version - _VERSIONS[0]))
    return found, others


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
