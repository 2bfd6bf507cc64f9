"""Partitions by topic and index, without a key for each: a dict of a cluster's 333,333 partitions takes 30 MiB, nearly all of it keys."""

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from itertools import chain
from typing import Any, Generic, Protocol, TypeVar, overload

from spindle.model.replica_sizes import Key


class _Keyed(Protocol):
    @property
    def index(self) -> int: ...


_One = TypeVar("_One", bound=_Keyed)
_Default = TypeVar("_Default")


class ByKey(Mapping[Key, _One], Generic[_One]):
    """What topics have, by topic and index, topic by topic. Equal to a dict of the same content."""

    def __init__(self, by_topic: Mapping[str, Sequence[_One]]) -> None:
        """Of what each topic has. Nobody changes it any more; of several with the same index the last one counts, as in a dict."""
        self._of = {topic: _rows(found) for topic, found in by_topic.items()}

    def __getitem__(self, key: Key) -> _One:
        """The one with this key. Raises KeyError."""
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: Key, /) -> _One | None: ...
    @overload
    def get(self, key: Key, default: _One | _Default, /) -> _One | _Default: ...
    def get(self, key: Key, default: Any = None, /) -> Any:
        """The one with this key, or the default."""
        topic, index = key
        rows = self._of.get(topic)
        if rows is None:
            return default
        if isinstance(rows, dict):
            return rows.get(index, default)
        return rows[index] if 0 <= index < len(rows) else default

    def __contains__(self, key: object) -> bool:
        """Whether there is one with this key."""
        try:
            return self.get(key) is not None  # type: ignore[call-overload]
        except (TypeError, ValueError):  # it is no key at all
            return False

    def __iter__(self) -> Iterator[Key]:
        """The keys."""
        return ((topic, one.index) for topic, rows in self._of.items() for one in _each(rows))

    def __len__(self) -> int:
        """How many."""
        return sum(map(len, self._of.values()))

    def values(self) -> ValuesView[_One]:
        """Each of them."""
        return _PartitionsOnly(self)

    def items(self) -> ItemsView[Key, _One]:
        """Each of them with its key."""
        return _KeyedPartitions(self)

    def all(self) -> Iterator[_One]:
        """Each of them."""
        return chain.from_iterable(map(_each, self._of.values()))


# The views of `collections.abc` look each key up.


class _PartitionsOnly(ValuesView[_One]):
    __slots__ = ()
    _mapping: ByKey[_One]

    def __iter__(self) -> Iterator[_One]:
        return self._mapping.all()


class _KeyedPartitions(ItemsView[Key, _One]):
    __slots__ = ()
    _mapping: ByKey[_One]

    def __iter__(self) -> Iterator[tuple[Key, _One]]:
        return zip(self._mapping, self._mapping.all(), strict=True)


def _rows(found: Sequence[_One]) -> Sequence[_One] | dict[int, _One]:
    """As they are, if each is in the place of its index: Kafka numbers the partitions of a topic from 0 on, without gaps."""
    if all(one.index == at for at, one in enumerate(found)):
        return found
    return {one.index: one for one in found}


def _each(rows: Sequence[_One] | dict[int, _One]) -> Iterator[_One]:
    return iter(rows.values() if isinstance(rows, dict) else rows)
