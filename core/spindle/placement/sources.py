"""Snapshots from tables (Arrow, Parquet cases, plain columns) and from what Kafka's admin API answered."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from spindle.cluster.view import Broker, KafkaView, Partition
from spindle.placement.snapshot import OTHER_FILES, DirState, PlannerSnapshot, SnapshotError, build

_DIR_STATES = {state.name.lower(): int(state) for state in DirState}
_BROKER_STATES = {"alive": True, "new": True, "dead": False}


def from_tables(brokers: Any, dirs: Any, replicas: Any) -> PlannerSnapshot:
    """Read three tables.

    Args:
        brokers: ``broker``, ``rack``, ``state`` (alive, new, dead).
        dirs: ``broker``, ``dir``, ``capacity``, ``state`` (online, cordoned, draining, offline).
        replicas: ``topic`` (number or name), ``partition``, ``broker``, ``dir`` (row within the broker's dirs), ``position``,
            ``size``, and optionally ``write_rate``, ``forecast`` (bytes when the move will have ended).

    Each is an Arrow table, or anything that maps a column's name to a sequence.

    Raises:
        SnapshotError: naming what is wrong.
    """
    problems: list[str] = []
    b_state = _states(brokers, _BROKER_STATES, "broker", problems)
    d_state = _states(dirs, _DIR_STATES, "dir", problems)
    if problems:
        raise SnapshotError(problems)
    columns = {k: _column(replicas, k) for k in ("partition", "broker", "dir", "position", "size")}
    topic = _column(replicas, "topic")
    names: list[str] = []
    if topic.dtype.kind in "OUST":
        found, topic = np.unique(topic.astype(str), return_inverse=True)
        names = found.tolist()
    for ours, theirs in (("rate", "write_rate"), ("planned", "forecast")):
        if _has(replicas, theirs):
            columns[ours] = _column(replicas, theirs)
    return build(
        {"broker": _column(brokers, "broker"), "rack": _list(brokers, "rack"), "alive": b_state},
        {
            "broker": _column(dirs, "broker"), "dir": _list(dirs, "dir"), "capacity": _column(dirs, "capacity"),
            "state": d_state,
        },
        {"topic": topic, **columns},
        names,
    )  # fmt: skip


def _has(table: Any, name: str) -> bool:
    return name in (table.column_names if hasattr(table, "column_names") else table)


def _column(table: Any, name: str) -> Any:
    if not _has(table, name):
        raise SnapshotError([f"a column is missing: {name}"])
    value = table[name]
    return value.to_numpy() if hasattr(value, "to_numpy") else np.asarray(value)


def _list(table: Any, name: str) -> list[Any]:
    if not _has(table, name):
        raise SnapshotError([f"a column is missing: {name}"])
    value = table[name]
    return value.to_pylist() if hasattr(value, "to_pylist") else list(value)


def _states(table: Any, known: Mapping[str, Any], what: str, problems: list[str]) -> list[Any]:
    found = _list(table, "state")
    strange = sorted({str(x) for x in found} - set(known))
    problems += [f"a {what} is in state {name}, which is none of {', '.join(known)}" for name in strange]
    return [known.get(str(x)) for x in found]


def from_view(
    view: KafkaView,
    *,
    dead: Collection[int] = (),
    draining: Collection[tuple[int, str]] = (),
    rates: Mapping[tuple[str, int], float] | None = None,
    frozen: Collection[tuple[str, int]] = (),
    reserved: Mapping[tuple[int, str], int] | None = None,
) -> PlannerSnapshot:
    """Read what Kafka's admin API answered.

    A replica on an offline dir is one that metadata assigns to the broker and that none of its live dirs shows. Replicas of
    partitions in motion are frozen.

    Args:
        view: brokers with log dirs, and partitions; both must be known.
        dead: brokers that are gone for good. What stands on them is sized by its other replicas.
        draining: (broker, dir path) to be emptied.
        rates: produced bytes per second of (topic, partition).
        frozen: further partitions that are to stay as they are.
        reserved: bytes on (broker, dir path) that are no replica's and count all the same; shown as a log that stays, of the
            topic `OTHER_FILES`.

    Raises:
        SnapshotError: where something is unknown (unknown is not absent), or Kafka's answers contradict each other.
    """
    if view.brokers is None or view.partitions is None:
        raise SnapshotError([view.error or "brokers or partitions are not known"])
    reader = _Reader(view.brokers, view.partitions, frozenset(dead), frozenset(draining), rates or {})
    reader.moving.update(frozen)
    return reader.snapshot(reserved or {})


class _Reader:
    def __init__(
        self,
        brokers: Mapping[int, Broker],
        partitions: tuple[Partition, ...],
        dead: frozenset[int],
        draining: frozenset[tuple[int, str]],
        rates: Mapping[tuple[str, int], float],
    ) -> None:
        self.brokers, self.partitions, self.dead, self.rates = brokers, partitions, dead, rates
        self.problems: list[str] = []
        self.dirs: list[tuple[int, str, float, int]] = []
        self.at: dict[
            tuple[int, str, int], tuple[int, int]
        ] = {}  # (broker, topic, partition) → (dir row, bytes)
        self.offline: dict[int, int] = {}  # broker → its first offline dir's row
        self.moving: set[tuple[str, int]] = set()
        for broker in sorted(set(brokers) | dead):
            self._read_dirs(broker, draining)

    def _read_dirs(self, broker: int, draining: frozenset[tuple[int, str]]) -> None:
        """One broker's dirs, and what stands on them."""
        known = self.brokers.get(broker)
        if broker in self.dead:
            # Where things stand on a dead broker does not matter: one dir for all, large enough for anything.
            self.offline[broker] = 0
            self.dirs.append((broker, "(gone)", float(2**60), DirState.OFFLINE))
            return
        if known is None or known.log_dirs is None:
            self.problems.append(
                f"broker {broker} could not be asked for its log dirs; wait, or say that it is dead"
            )
            return
        for row, log_dir in enumerate(known.log_dirs):
            state = DirState.ONLINE
            if log_dir.error:
                state = DirState.OFFLINE
                self.offline.setdefault(broker, row)
            elif (broker, log_dir.path) in draining:
                state = DirState.DRAINING
            elif log_dir.cordoned:
                state = DirState.CORDONED
            capacity = log_dir.total_bytes
            if capacity is None:
                if state != DirState.OFFLINE:
                    self.problems.append(f"broker {broker} does not say how large {log_dir.path} is")
                capacity = 2**60
            self.dirs.append((broker, log_dir.path, float(capacity), state))
            for (topic, index), size in log_dir.replicas.items():
                self.at[broker, topic, index] = row, size
            self.moving.update(log_dir.futures)

    def snapshot(self, reserved: Mapping[tuple[int, str], int]) -> PlannerSnapshot:
        """Everything together."""
        names = sorted({p.topic for p in self.partitions} | ({OTHER_FILES} if reserved else set()))
        number = {name: k for k, name in enumerate(names)}
        rows = [row for p in self.partitions for row in self._replicas(p, number[p.topic])]
        rows += self._others(reserved, number.get(OTHER_FILES, 0))
        if self.problems:
            raise SnapshotError(self.problems)
        columns = ("topic", "partition", "broker", "dir", "position", "size", "rate", "frozen")
        values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
        ids = sorted(set(self.brokers) | self.dead)
        racks = [self.brokers[b].rack if b in self.brokers else None for b in ids]
        if any(racks):
            # A dead broker that Kafka has forgotten has a rack of its own, which is no live broker's.
            racks = [
                r if r is not None or b in self.brokers else f"(rack of broker {b})"
                for b, r in zip(ids, racks, strict=True)
            ]
        return build(
            {"broker": ids, "rack": racks, "alive": [b not in self.dead for b in ids]},
            {k: [d[n] for d in self.dirs] for n, k in enumerate(("broker", "dir", "capacity", "state"))},
            dict(zip(columns, (np.array(v) for v in values), strict=True)),
            names,
        )

    def _others(self, reserved: Mapping[tuple[int, str], int], topic: int) -> list[tuple[Any, ...]]:
        """A row for each dir with bytes that are no replica's, numbered as dirs are."""
        found, rows = [], dict[int, int]()
        for k, (broker, path, _, _) in enumerate(self.dirs):
            row = rows[broker] = rows.get(broker, -1) + 1
            if size := reserved.get((broker, path)):
                found.append((topic, k, broker, row, 0, float(size), 0.0, True))
        return found

    def _replicas(self, p: Partition, topic: int) -> list[tuple[Any, ...]]:
        """Rows of one partition."""
        sizes = [self.at[b, p.topic, p.index][1] for b in p.replicas if (b, p.topic, p.index) in self.at]
        largest = max(sizes, default=0)
        frozen = bool(p.adding or p.removing) or (p.topic, p.index) in self.moving
        found = []
        for position, b in enumerate(p.replicas):
            place = self.at.get((b, p.topic, p.index))
            if place is None and b in self.offline:
                place = self.offline[b], largest
            if place is None:
                if not frozen and b in self.brokers:
                    self.problems.append(
                        f"{p.name} belongs on broker {b}, which shows no log of it and has no offline dir"
                    )
                elif b not in self.brokers:
                    self.problems.append(
                        f"{p.name} belongs on broker {b}, which Kafka does not know; say that it is dead"
                    )
                if b not in self.brokers or not frozen:
                    continue
                place = 0, 0  # being created by a reassignment of someone else's
            rate = self.rates.get((p.topic, p.index), 0.0)
            found.append((topic, p.index, b, place[0], position, float(place[1]), rate, frozen))
        return found
