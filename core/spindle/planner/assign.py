"""Rack-aware assignment of a new topic's replicas (KIP-36), with an even number of replicas per rack and broker.

**Striping.** Brokers form a ring in the order of :func:`spindle.model.racks.alternate`. The broker at ``start + p``
leads partition ``p``. Its other replicas are on the brokers at the distances ``1 + (shift·R + k) mod (n - 1)`` after the
leader, ``k = 0, 1, …``; a broker is skipped if it holds a replica of ``p``, or if its rack does while another rack does
not. ``shift`` grows by one with each round of the ring, so that the followers of a leader are not always the same. With racks of
equal size and a whole number of rounds, the result is even and the same as that of Kafka's own tools, so both can be compared.

**Levelling.** With uneven racks, more replicas than racks, or an incomplete last round, striping is not even. Levelling then
restores two properties, in this order of priority:

1. each partition's replicas per rack are as even as the racks allow (:func:`spindle.model.racks.even_counts`);
2. replicas per broker are as even as 1 allows.

The sets of brokers that satisfy 1 are the bases of a matroid (a partition matroid with lower and upper bounds), and the
loads of all brokers under any choice of bases are the bases of an integral polymatroid. There, the load vector with the
least sum of squares is also the most even one, and a vector is optimal unless a *path of exchanges* leads from
a broker with load ``x`` to one with load ``≤ x - 2``: broker a gives one of its partitions to b, b one of its to c, ….
:func:`_level` searches for shortest such paths until there is none. An assignment that is even already is not changed.
A leader moves only if no follower can move instead.

The result is deterministic: the start is an argument, not random.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spindle.model.racks import PlacementError, alternate, even_counts, rack_of


def assign(
    brokers: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    start: int = 0,
    shift: int = 0,
    *,
    first: int = 0,
) -> list[list[int]]:
    """Choose brokers for the replicas of a topic's partitions.

    Args:
        brokers: broker id → rack, or None for every broker of a cluster without racks. Ids need not be contiguous.
        partitions: number of partitions to place.
        replication_factor: replicas of each, the preferred leader included.
        start: position of the first partition's leader on the ring of brokers; should differ between topics.
        shift: initial distance between leader and second replica; should differ between topics, too.
        first: number of the first partition, for a topic that grows.

    Returns:
        One list of broker ids per partition, the preferred leader first.

    Raises:
        PlacementError: no partitions, no replicas, more replicas than brokers, or racks on some brokers only.
    """
    if partitions <= 0:
        raise PlacementError(f"Invalid number of partitions {partitions}: there must be at least one.")
    if replication_factor <= 0:
        raise PlacementError(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if replication_factor > len(brokers):
        raise PlacementError(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{len(brokers)} broker(s) are registered."
        )
    rule = _rule(rack_of(brokers), replication_factor)
    ring = alternate(brokers)
    n, first = len(ring), max(first, 0)
    rounds_before = (max(first, 1) - 1) // n
    rows = [
        _stripe(ring, rule.racks, (p + start) % n, shift + p // n - rounds_before, replication_factor)
        for p in range(first, first + partitions)
    ]
    _level(rows, rule)
    return rows


def even_out(rows: list[list[int]], brokers: Mapping[int, str | None], replication_factor: int) -> None:
    """Make rows that were chosen otherwise as even as those of `assign`, in place: the racks within each row, then the brokers over all rows.

    Args:
        rows: at least one; each with ``replication_factor`` different brokers of ``brokers``.
        brokers, replication_factor: as for `assign`.

    Raises:
        PlacementError: racks on some brokers only.
    """
    _level(rows, _rule(rack_of(brokers), replication_factor))


@dataclass(frozen=True)
class _Rule:
    """Constraints of a row: broker → rack, rack → brokers, and the minimum and maximum number of its replicas per rack."""

    racks: Mapping[int, str]
    by_rack: Mapping[str, list[int]]
    least: Mapping[str, int]
    most: Mapping[str, int]


def _rule(racks: Mapping[int, str], rf: int) -> _Rule:
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    least, most = even_counts(rf, [len(v) for v in by_rack.values()])
    return _Rule(
        racks, by_rack, dict(zip(by_rack, least, strict=True)), dict(zip(by_rack, most, strict=True))
    )


def _stripe(ring: list[int], racks: Mapping[int, str], leader: int, shift: int, rf: int) -> list[int]:
    """One row of the striping described above; ``leader`` is a position on the ring."""
    n, n_racks = len(ring), len(set(racks.values()))
    row = [ring[leader]]
    seen = {racks[ring[leader]]}
    k = 0
    while len(row) < rf:
        broker = ring[(leader + 1 + (shift * n_racks + k) % (n - 1)) % n]
        k += 1
        if broker not in row and (racks[broker] not in seen or len(seen) == n_racks):
            row.append(broker)
            seen.add(racks[broker])
    return row


def _level(rows: list[list[int]], rule: _Rule) -> None:
    """Make rows as even as possible, in place: first the racks within each row, then the brokers over all rows."""
    load = Counter(b for row in rows for b in row)
    for row in rows:
        _level_racks(row, rule, load)
    level = _Levels(rows, rule, load)
    improved = True
    while improved:
        improved = False
        settled: set[int] = set()
        for broker in sorted(rule.racks, key=lambda b: (-load[b], b)):
            while broker not in settled:
                path, reached = level.path_down(broker)
                if path:
                    level.exchange(path)
                    improved = True
                    continue
                # If no path starts here, none starts at a broker on the way with the same or a lower load.
                settled |= {b for b in reached if load[b] <= load[broker]}


def _level_racks(row: list[int], rule: _Rule, load: Counter[int]) -> None:
    """Move followers of one row from racks with too many replicas to racks with too few."""
    racks, least, most = rule.racks, rule.least, rule.most
    while True:
        count = Counter(racks[b] for b in row)
        over = [r for r in least if count[r] > most[r]]
        under = [r for r in least if count[r] < least[r]]
        if not over and not under:
            return
        donors = over or [r for r in least if count[r] > least[r]]
        takers = under or [r for r in least if count[r] < most[r]]
        give = max((b for b in row[1:] if racks[b] in donors), key=lambda b: (load[b], -b))
        take = min((b for r in takers for b in rule.by_rack[r] if b not in row), key=lambda b: (load[b], b))
        row[row.index(give)] = take
        load[give] -= 1
        load[take] += 1


class _Levels:
    """Exchanges between brokers that keep the racks of every partition even."""

    def __init__(self, rows: list[list[int]], rule: _Rule, load: Counter[int]) -> None:
        self.rows, self.rule, self.racks, self.load = rows, rule, rule.racks, load
        # Rows of each broker, followers first, so that leaders move only if no follower can.
        self.held: dict[int, dict[int, None]] = {b: {} for b in self.racks}
        for p, row in enumerate(rows):
            for broker in row:
                self.held[broker][p] = None

    def path_down(self, start: int) -> tuple[list[tuple[int, int, int]], set[int]]:
        """Shortest path of exchanges (row, from, to) that ends at a broker with at least two replicas fewer.

        Returns:
            The path, empty if there is none; and the brokers that exchanges can reach from ``start``, including itself.
        """
        came: dict[int, tuple[int, int, int]] = {}
        queue = deque([start])
        seen = {start}
        if min(self.load[b] for b in self.racks) > self.load[start] - 2:
            return [], seen
        while queue:
            broker = queue.popleft()
            for exchange in self._exchanges(broker, seen):
                taker = exchange[2]
                seen.add(taker)
                came[taker] = exchange
                if self.load[taker] <= self.load[start] - 2:
                    path = [came[taker]]
                    while path[-1][1] != start:
                        path.append(came[path[-1][1]])
                    return path[::-1], seen
                queue.append(taker)
        return [], seen

    def _exchanges(self, broker: int, seen: set[int]) -> Iterator[tuple[int, int, int]]:
        """Every broker outside ``seen`` that could take a replica from this one, once each, lowest load first."""
        left = set(self.racks) - seen
        rows = sorted(self.held[broker], key=lambda p: (self.rows[p][0] == broker, p))
        for p in rows:
            if not left:
                return
            row = self.rows[p]
            count = Counter(self.racks[b] for b in row)
            mine = self.racks[broker]
            # Always within the rack; to another rack only if this one may lose a replica and that one may gain one.
            open_racks = [mine]
            if count[mine] > self.rule.least[mine]:
                open_racks += [r for r in self.rule.by_rack if r != mine and count[r] < self.rule.most[r]]
            takers = [b for r in open_racks for b in self.rule.by_rack[r] if b in left and b not in row]
            for taker in sorted(takers, key=lambda b: (self.load[b], b)):
                left.discard(taker)
                yield p, broker, taker

    def exchange(self, path: list[tuple[int, int, int]]) -> None:
        """Apply a path. A shortest path has no shortcut, so its exchanges do not interfere with each other."""
        for p, giver, taker in path:
            row = self.rows[p]
            row[row.index(giver)] = taker
            del self.held[giver][p]
            self.held[taker][p] = None
        self.load[path[0][1]] -= 1
        self.load[path[-1][2]] += 1
