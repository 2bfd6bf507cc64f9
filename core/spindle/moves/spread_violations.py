"""A partition that healing left on fewer racks than it found it on, as the journal keeps it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SpreadViolation:
    """A partition that is to be spread again.

    Attributes:
        racks: on how many racks it stood before.
        brokers: where it stands by our own moves, sorted; once it stands elsewhere by somebody else's, it is theirs.
    """

    topic: str
    partition: int
    racks: int
    brokers: tuple[int, ...]

    @property
    def key(self) -> tuple[str, int]:
        """(topic, partition)."""
        return self.topic, self.partition


def write_spread_violations(entries: Iterable[SpreadViolation]) -> dict[str, list[list[Any]]]:
    """As the journal has them, by topic: each a partition, its racks, and its brokers."""
    found: dict[str, list[list[Any]]] = defaultdict(list)
    for entry in entries:
        found[entry.topic].append([entry.partition, entry.racks, *entry.brokers])
    return dict(found)


def read_spread_violations(found: Mapping[str, Iterable[Iterable[Any]]]) -> tuple[SpreadViolation, ...]:
    """Read what `write_spread_violations` wrote."""
    return tuple(
        SpreadViolation(str(topic), int(index), racks=int(racks), brokers=tuple(int(b) for b in brokers))
        for topic, entries in found.items()
        for index, racks, *brokers in entries
    )
