"""Bytes of the replicas of a log dir in sorted columns: a sixth of the memory of a dict.

A large cluster has a million replicas, so what each of them takes decides how much memory a view of Kafka takes: a key, a number and a place in a dict take 134 bytes,
a row of the columns 20.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Final, TypeVar, overload

Key = tuple[str, int]  # topic, partition

_Default = TypeVar("_Default")
_NUMBERS: Final = "i"  # of partitions: Kafka's int32
_BYTES: Final = "q"

if TYPE_CHECKING:  # without it, mypy does not know the type of their items
    Numbers = array[int]


class ReplicaKeys:
    """Keys of replicas, each once, in their order. Immutable; dirs share them where only sizes have changed."""

    __slots__ = ("numbers", "topics")

    def __init__(self, keys: Iterable[Key]) -> None:
        """Sort the keys."""
        ordered = sorted(set(keys))
        self.topics: tuple[str, ...] = tuple(topic for topic, _ in ordered)
        self.numbers: Numbers = array(_NUMBERS, (number for _, number in ordered))

    def __len__(self) -> int:
        """How many."""
        return len(self.topics)

    def __iter__(self) -> Iterator[Key]:
        """In their order."""
        return zip(self.topics, self.numbers, strict=True)

    def __eq__(self, other: object) -> bool:
        """Whether they are the same keys."""
        if not isinstance(other, ReplicaKeys):
            return NotImplemented
        return self is other or (self.numbers == other.numbers and self.topics == other.topics)

    __hash__ = None  # type: ignore[assignment]  # as of a dict

    def find(self, key: Key) -> int:
        """The place of a key; -1 if it is not one of these."""
        topic, number = key
        topics, numbers = self.topics, self.numbers
        at = bisect_left(topics, topic)
        if at == len(topics) or topics[at] != topic:
            return -1
        if numbers[at] == number:
            return at
        end = bisect_right(topics, topic, at)
        at = bisect_left(numbers, number, at, end)
        return at if at < end and numbers[at] == number else -1


class ReplicaSizes(Mapping[Key, int]):
    """Replicas of a log dir with their bytes, in the order of their keys. Immutable, and equal to a dict of the same content."""

    __slots__ = ("_keys", "_sizes")

    def __init__(self, keys: ReplicaKeys, sizes: "Numbers") -> None:
        """Of columns.

        Args:
            keys: of the replicas.
            sizes: their bytes, of type ``q``, in the same order. Nobody changes it any more.
        """
        if len(keys) != len(sizes):
            raise ValueError(f"{len(keys)} keys have {len(sizes)} sizes")
        self._keys = keys
        self._sizes = sizes

    @classmethod
    def of(cls, replicas: Mapping[Key, int]) -> "ReplicaSizes":
        """The same as columns."""
        if not replicas:
            return NONE
        keys = ReplicaKeys(replicas)
        return cls(keys, array(_BYTES, map(replicas.__getitem__, keys)))

    @property
    def columns(self) -> ReplicaKeys:
        """The keys."""
        return self._keys

    @property
    def sizes(self) -> "Numbers":
        """Bytes, in the order of the keys."""
        return self._sizes

    @property
    def total(self) -> int:
        """Bytes of all."""
        return sum(self._sizes)

    def __getitem__(self, key: Key) -> int:
        """Bytes of one replica. Raises KeyError."""
        at = self._keys.find(key)
        if at < 0:
            raise KeyError(key)
        return self._sizes[at]

    @overload
    def get(self, key: Key, /) -> int | None: ...
    @overload
    def get(self, key: Key, default: int | _Default, /) -> int | _Default: ...
    def get(self, key: Key, default: int | _Default | None = None, /) -> int | _Default | None:
        """Bytes of one replica, or the default."""
        at = self._keys.find(key)
        return default if at < 0 else self._sizes[at]

    def __contains__(self, key: object) -> bool:
        """Whether the dir has a replica."""
        try:
            return self._keys.find(key) >= 0  # type: ignore[arg-type]
        except (TypeError, ValueError):  # it is no key at all
            return False

    def __iter__(self) -> Iterator[Key]:
        """The keys, in their order."""
        return iter(self._keys)

    def __len__(self) -> int:
        """How many."""
        return len(self._sizes)

    def __eq__(self, other: object) -> bool:
        """Whether the other has the same content; it may be any mapping."""
        if isinstance(other, ReplicaSizes):
            return self._sizes == other._sizes and self._keys == other._keys
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as of a dict

    def __repr__(self) -> str:
        """As a dict has it."""
        return f"{type(self).__name__}({dict(self.items())})"

    def keys(self) -> KeysView[Key]:
        """The keys, in their order."""
        return _SizedKeys(self)

    def values(self) -> ValuesView[int]:
        """Bytes, in the order of the keys."""
        return _SizesOnly(self)

    def items(self) -> ItemsView[Key, int]:
        """Keys with bytes, in their order."""
        return _SizedItems(self)


# The views of `collections.abc` look each key up.


class _SizedKeys(KeysView[Key]):
    __slots__ = ()
    _mapping: ReplicaSizes

    def __iter__(self) -> Iterator[Key]:
        return iter(self._mapping)


class _SizesOnly(ValuesView[int]):
    __slots__ = ()
    _mapping: ReplicaSizes

    def __iter__(self) -> Iterator[int]:
        return iter(self._mapping._sizes)  # noqa: SLF001 - its own view


class _SizedItems(ItemsView[Key, int]):
    __slots__ = ()
    _mapping: ReplicaSizes

    def __iter__(self) -> Iterator[tuple[Key, int]]:
        return zip(self._mapping, self._mapping._sizes, strict=True)  # noqa: SLF001 - its own view


def total_bytes(replicas: Mapping[Key, int]) -> int:
    """Bytes of all replicas; each pass asks for those of each dir."""
    return replicas.total if type(replicas) is ReplicaSizes else sum(replicas.values())


def columns_of(
    replicas: Mapping[Key, int],
) -> tuple[Sequence[str], "Sequence[int] | Numbers", "Sequence[int] | Numbers"]:
    """Topics, numbers of partitions and bytes of replicas, in the same order."""
    if type(replicas) is ReplicaSizes:
        return replicas.columns.topics, replicas.columns.numbers, replicas.sizes
    return [topic for topic, _ in replicas], [number for _, number in replicas], list(replicas.values())


NONE: Final = ReplicaSizes(ReplicaKeys(()), array(_BYTES))
