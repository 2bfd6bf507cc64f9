"""Where the replicas of a new topic, or of new partitions, go: racks even, brokers even, leaders even, log dirs by room.

Each replica goes to the broker that holds the fewest of this topic, among the brokers of the racks that hold the fewest of this partition; among
those, to the broker with the fewest replicas and the least used space of all topics. `spindle.planner.assign` then makes the topic's own replicas as even as the racks allow.
A topic with very many partitions is striped by it from the start: there, the topic itself makes the brokers even.

Leaders are chosen afterwards: even within the topic first, then over all topics. Over a broker's log dirs, the topic is even first; of the dirs with as
many of its replicas, the one with the least used space and the fewest replicas gets the next.
The size of a new replica is not known; it counts as much as the average replica of the cluster.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.model.racks import PlacementError, alternate, rack_of
from spindle.planner.assign import assign, even_out

_FULLER: Final = 0.2  # share of its size by which a dir may be fuller than its broker's emptiest one and still get replicas
_SEARCHED: Final = 1_000_000  # partitions x replicas x brokers: beyond it a topic is striped


@dataclass
class DirRoom:
    """A log dir that accepts replicas.

    Attributes:
        used, total: bytes; ``used`` as it will be after the forecast's horizon, with everything that is on its way.
        limit: share of ``total`` up to which replicas are accepted.
    """

    path: str
    used: float
    total: float
    limit: float
    replicas: int = 0

    def takes(self, size: float) -> bool:
        """Whether a replica fits."""
        return self.used + size <= self.limit * self.total


@dataclass
class BrokerRoom:
    """A broker that accepts replicas, with what it holds of all topics."""

    id: int
    rack: str | None
    dirs: list[DirRoom] = field(default_factory=list)
    replicas: int = 0
    leaders: int = 0

    @property
    def fullness(self) -> float:
        """Used share of its dirs."""
        total = sum(each.total for each in self.dirs)
        return sum(each.used for each in self.dirs) / total if total else 0.0


@dataclass
class Rooms:
    """All brokers that accept replicas. Each placement of a pass adds its replicas, so that the next one counts them.

    Attributes:
        size: bytes that a new replica counts as.
    """

    brokers: dict[int, BrokerRoom]
    size: float = 1.0

    @property
    def racks(self) -> dict[int, str | None]:
        """Broker → rack."""
        return {broker.id: broker.rack for broker in self.brokers.values()}


@dataclass(frozen=True)
class Placement:
    """Where new partitions go.

    Attributes:
        rows: by partition, the brokers of its replicas, the preferred leader first.
        dirs: (broker, partition, path).
    """

    rows: tuple[tuple[int, ...], ...]
    dirs: tuple[tuple[int, int, str], ...]


def place(rooms: Rooms, partitions: int, replicas: int, before: Sequence[Sequence[int]] = ()) -> Placement:
    """Choose brokers and log dirs, and count them in ``rooms``.

    Args:
        rooms: the brokers.
        partitions: number of new partitions.
        replicas: of each.
        before: the topic's present partitions, whose replicas count as the topic's own.

    Raises:
        PlacementError: more replicas than brokers, or racks on some brokers only.
    """
    if replicas > len(rooms.brokers):
        raise PlacementError(
            f"{replicas} replicas need as many brokers, and {len(rooms.brokers)} accept replicas"
        )
    racks = rack_of(rooms.racks)
    if partitions * replicas * len(racks) > _SEARCHED:
        ring = alternate(rooms.racks)
        least = min(rooms.brokers.values(), key=lambda each: (each.leaders, each.id)).id
        rows = assign(rooms.racks, partitions, replicas, start=ring.index(least), first=len(before))
    else:
        rows = _spread(rooms, racks, partitions, replicas, before)
        if not before and _uneven(rows, racks):
            even_out(rows, rooms.racks, replicas)
    _lead(rooms, rows, before)
    for row in rows:
        rooms.brokers[row[0]].leaders += 1
        for broker in row:
            rooms.brokers[broker].replicas += 1
    return Placement(tuple(map(tuple, rows)), tuple(_dirs(rooms, rows, len(before))))


def _uneven(rows: Iterable[Sequence[int]], racks: Mapping[int, str]) -> bool:
    held = Counter(dict.fromkeys(racks, 0))
    held.update(broker for row in rows for broker in row)
    return max(held.values()) - min(held.values()) > 1


def _spread(
    rooms: Rooms, racks: Mapping[int, str], partitions: int, replicas: int, before: Iterable[Sequence[int]]
) -> list[list[int]]:
    """Rows with the brokers that hold the least."""
    mine = Counter(broker for row in before for broker in row)
    burden = Burden(rooms)
    rows = []
    for _ in range(partitions):
        row: list[int] = []
        for _ in range(replicas):
            in_rack = Counter(racks[broker] for broker in row)
            free = [broker for broker in racks if broker not in row]
            fewest = min(in_rack[racks[broker]] for broker in free)
            chosen = min(
                (broker for broker in free if in_rack[racks[broker]] == fewest),
                key=lambda broker: (mine[broker], burden.of(broker), broker),
            )
            row.append(chosen)
            mine[chosen] += 1
            burden.add(chosen)
        rows.append(row)
    return rows


class Burden:
    """What brokers hold of all topics, as one number: replicas and used space, each in relation to the average."""

    def __init__(self, rooms: Rooms) -> None:
        """Start from what the brokers hold now."""
        brokers = rooms.brokers.values()
        self._replicas = {each.id: each.replicas for each in brokers}
        self._full = {each.id: each.fullness for each in brokers}
        self._step = {
            each.id: rooms.size / total if (total := sum(d.total for d in each.dirs)) else 0.0
            for each in brokers
        }
        self._usual = (
            max(1.0, sum(self._replicas.values()) / max(1, len(self._replicas))),
            max(1e-9, sum(self._full.values()) / max(1, len(self._full))),
        )

    def of(self, broker: int) -> float:
        """What a broker holds; about 2 for the average one."""
        return self._replicas[broker] / self._usual[0] + self._full[broker] / self._usual[1]

    def add(self, broker: int) -> None:
        """Count one more replica of the usual size."""
        self._replicas[broker] += 1
        self._full[broker] += self._step[broker]


def _lead(rooms: Rooms, rows: list[list[int]], before: Iterable[Sequence[int]]) -> None:
    """Put the preferred leader of each row first: even within the topic, then over all topics."""
    topic = Counter(row[0] for row in before)
    everywhere = {each.id: each.leaders for each in rooms.brokers.values()}

    def turn(row: list[int], leader: int) -> None:
        row.remove(leader)
        row.insert(0, leader)

    for row in rows:
        leader = min(row, key=lambda broker: (topic[broker], everywhere[broker], broker))
        turn(row, leader)
        topic[leader] += 1
        everywhere[leader] += 1
    improved = True
    while improved:  # each turn lowers the sum of squares of one of the two, the topic's first
        improved = False
        for row in rows:
            now = row[0]
            for other in row[1:]:
                less = topic[now] - topic[other]
                if less > 1 or (less == 1 and everywhere[now] - everywhere[other] > 1):
                    turn(row, other)
                    for counts in (topic, everywhere):
                        counts[now] -= 1
                        counts[other] += 1
                    improved = True
                    break


def _dirs(rooms: Rooms, rows: Iterable[Sequence[int]], first: int) -> Iterable[tuple[int, int, str]]:
    """A log dir for each replica: one with the fewest of this topic; of those, the one with the least used space and the fewest replicas."""
    mine: Counter[tuple[int, str]] = Counter()
    for index, row in enumerate(rows, first):
        for broker in row:
            able = [each for each in rooms.brokers[broker].dirs if each.takes(rooms.size)]
            if not able:
                continue  # the last ones of a pass may not fit any more: the broker chooses
            chosen = emptiest(able, broker, rooms.size, mine)
            chosen.used += rooms.size
            chosen.replicas += 1
            mine[broker, chosen.path] += 1
            yield broker, index, chosen.path


def emptiest(
    able: Sequence[DirRoom], broker: int, size: float, mine: Mapping[tuple[int, str], int]
) -> DirRoom:
    """The dir that gets a replica: one with the fewest of its topic; of those, the one with the least used space and the fewest replicas.

    Args:
        able: dirs of the broker that take it; not empty.
        broker: the broker.
        size: of the replica, in bytes.
        mine: (broker, path) → replicas of the topic.
    """
    least = min(each.used / each.total for each in able)
    able = [each for each in able if each.used / each.total <= least + _FULLER]
    replicas = max(1.0, sum(each.replicas for each in able) / len(able))
    full = max(1e-9, sum(each.used / each.total for each in able) / len(able))
    return min(
        able,
        key=lambda each: (
            mine.get((broker, each.path), 0),
            (each.used + size) / each.total / full + each.replicas / replicas,
            each.path,
        ),
    )
