"""The lag of consumer groups, from their committed offsets and the ends of the partitions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.metrics import table
from spindle.metrics.cluster import MetricSample

Key = tuple[str, int]  # topic, partition

MAX_SERIES: Final = 10_000  # of one KafkaCluster


@dataclass
class GroupOffsets:
    """The committed offsets of groups, as far as they may be exported: a group as a whole or not at all, since a sum over a part of it would mislead.

    Attributes:
        most: partitions of all groups together.
        committed: group → partition → committed offset.
        count: partitions of the groups in ``committed``.
        left_out: groups that did not fit.
        unread: groups whose offsets could not be read.
    """

    most: int = MAX_SERIES
    committed: dict[str, Mapping[Key, int]] = field(default_factory=dict)
    count: int = 0
    left_out: int = 0
    unread: int = 0

    @property
    def full(self) -> bool:
        """Whether no further group fits."""
        return self.count >= self.most

    def add(self, group: str, offsets: Mapping[Key, int]) -> None:
        """Add a group if it fits."""
        if self.count + len(offsets) > self.most:
            self.left_out += 1
        else:
            self.committed[group] = offsets
            self.count += len(offsets)

    @property
    def partitions(self) -> frozenset[Key]:
        """The partitions whose ends are needed."""
        return frozenset(key for offsets in self.committed.values() for key in offsets)


def matching(groups: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """The groups that ``spec.metrics.consumerLag.groups`` selects, sorted; all without a pattern."""
    exact = {pattern for pattern in patterns if not pattern.endswith("*")}
    prefixes = tuple(pattern[:-1] for pattern in patterns if pattern.endswith("*"))
    return sorted(g for g in groups if not patterns or g in exact or (prefixes and g.startswith(prefixes)))


def lag_samples(
    cluster: tuple[str, str], offsets: GroupOffsets, ends: Mapping[Key, int]
) -> Iterator[MetricSample]:
    """Every gauge of the groups of one KafkaCluster.

    A partition whose end is not known has no sample. Nor has one whose end is below the committed offset, which was read before it: the topic was deleted and created
    again, or has lost records, and the group's offset means nothing there.

    Args:
        cluster: namespace and name.
        offsets: of its groups.
        ends: the offset after the last record of each partition, read after the committed offsets.
    """
    for group, committed in offsets.committed.items():
        for (topic, partition), offset in sorted(committed.items()):
            end = ends.get((topic, partition))
            if end is not None and end >= offset:
                yield MetricSample(table.CONSUMER_LAG, (*cluster, group, topic, str(partition)), end - offset)
    for outcome, count in (
        ("exported", len(offsets.committed)),
        ("left_out", offsets.left_out),
        ("unread", offsets.unread),
    ):
        yield MetricSample(table.LAG_GROUPS, (*cluster, outcome), count)
