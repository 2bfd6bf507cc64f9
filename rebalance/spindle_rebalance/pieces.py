"""Divides the topic of samples into the pieces that Spark's tasks read.

Agents write all records of a broker to one partition. A task that reads whole partitions has all records of their brokers, so it can make their
results itself, and no record passes through Spark. With fewer partitions than cores, several tasks read
the same partitions, and each uses the records of its own brokers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

_TASKS: Final = 3  # per core, so that cores finish at about the same time
_LEAST: Final = 2048  # records: a task with fewer takes longer to start than to work


@dataclass(frozen=True)
class Piece:
    """What one task reads.

    Attributes:
        ranges: partition → first offset and last offset + 1.
        share, shares: it uses only records of brokers whose id leaves the remainder ``share`` when divided by ``shares``.
    """

    ranges: Mapping[int, tuple[int, int]]
    share: int = 0
    shares: int = 1


Read = Callable[[Piece], Iterator[pa.RecordBatch]]
"""Reads the records of a piece, all shares of it, with the columns of `source.RECORDS`."""


def pieces(ranges: Mapping[int, tuple[int, int]], cores: int) -> list[Piece]:
    """The pieces of all tasks, the largest first; none is empty, and every record that has a broker is in exactly one.

    Args:
        ranges: partition → first offset and last offset + 1.
        cores: tasks that run at the same time.
    """
    counts = {place: end - first for place, (first, end) in ranges.items() if end > first}
    each = max(_LEAST, -(-sum(counts.values()) // max(1, _TASKS * cores)))
    groups: list[dict[int, tuple[int, int]]] = []
    sizes: list[int] = []
    for place in sorted(counts, key=lambda number: (-counts[number], number)):
        if groups and sizes[-1] + counts[place] <= each:
            groups[-1][place] = ranges[place]
            sizes[-1] += counts[place]
        else:
            groups.append({place: ranges[place]})
            sizes.append(counts[place])
    found = []
    for group, size in zip(groups, sizes, strict=True):
        shares = max(1, min(-(-cores // len(groups)), size // _LEAST))
        found += [Piece(group, share, shares) for share in range(shares)]
    return found
