"""Reads what Kafka's admin API answered into the planner's columns; see `spindle.planner.sources.from_view`."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, repeat
from typing import Any, Final

import numpy as np

from spindle.model.replica_sizes import Key, columns_of
from spindle.model.view import Broker, Partition
from spindle.planner.snapshot import (
    OTHER_FILES,
    BoolArray,
    DirState,
    FloatArray,
    IntArray,
    PlannerSnapshot,
    SnapshotError,
    build,
)

_MOST: Final = 2**32  # numbers of partitions are Kafka's int32
_NO_NUMBERS: Final = np.zeros(0, np.int64)


class ViewReader:
    """Reads a view into columns, which takes a fraction of the time of a row of Python objects for each replica.

    ``P`` partitions in the order of the view, ``R`` replicas in the order of their assignments.
    """

    def __init__(
        self,
        brokers: Mapping[int, Broker],
        partitions: tuple[Partition, ...],
        dead: frozenset[int],
        draining: frozenset[tuple[int, str]],
    ) -> None:
        self.brokers, self.partitions, self.dead = brokers, partitions, dead
        self.ids = np.array(sorted(set(brokers) | dead), np.int64)
        self.rows = _PartitionRows(partitions)
        self.problems: list[str] = []
        self.dirs: list[tuple[int, str, float, int]] = []
        # Row of the broker and of its dir, and replicas.
        self.reports: list[tuple[int, int, Mapping[Key, int]]] = []
        # The first offline dir of each broker; at last that of unknown ones, which have none.
        self.offline = np.full(len(self.ids) + 1, -1)
        self.moving: set[tuple[str, int]] = set()
        for number, broker in enumerate(self.ids.tolist()):
            self._read_dirs(number, broker, draining)

    def _read_dirs(self, number: int, broker: int, draining: frozenset[tuple[int, str]]) -> None:
        """Add the dirs of one broker and the replicas on them."""
        known = self.brokers.get(broker)
        if broker in self.dead:
            # The dirs of a dead broker do not matter: one dir holds all its replicas, with unlimited capacity.
            self.offline[number] = 0
            self.dirs.append((broker, "(gone)", float(2**60), DirState.OFFLINE))
            return
        if known is None or known.log_dirs is None:
            self.problems.append(f"broker {broker} did not report its log dirs; wait, or declare it dead")
            return
        for row, log_dir in enumerate(known.log_dirs):
            state = DirState.ONLINE
            if log_dir.error:
                state = DirState.OFFLINE
                if self.offline[number] < 0:
                    self.offline[number] = row
            elif (broker, log_dir.path) in draining:
                state = DirState.DRAINING
            elif log_dir.cordoned:
                state = DirState.CORDONED
            capacity = log_dir.total_bytes
            if capacity is None:
                if state != DirState.OFFLINE:
                    self.problems.append(f"broker {broker} does not report the size of {log_dir.path}")
                capacity = 2**60
            self.dirs.append((broker, log_dir.path, float(capacity), state))
            self.reports.append((number, row, log_dir.replicas))
            self.moving.update(log_dir.futures)

    def _key(self, partition: IntArray, broker: IntArray) -> IntArray:
        """One number for each partition and broker, both given by their rows."""
        return broker * len(self.partitions) + partition

    def snapshot(
        self,
        rates: Mapping[tuple[str, int], float],
        frozen: Collection[tuple[str, int]],
        reserved: Mapping[tuple[int, str], int],
    ) -> PlannerSnapshot:
        """Build the snapshot."""
        names = sorted({p.topic for p in self.partitions} | ({OTHER_FILES} if reserved else set()))
        columns = self._replicas({name: k for k, name in enumerate(names)}, rates, frozen)
        if self.problems:
            raise SnapshotError(self.problems)
        if reserved:
            others = self._others(reserved, names.index(OTHER_FILES))
            columns = {name: np.concatenate([column, others[name]]) for name, column in columns.items()}
        ids = self.ids.tolist()
        racks = [self.brokers[b].rack if b in self.brokers else None for b in ids]
        if any(racks):
            # A dead broker that is no longer registered gets a rack of its own, different from those of all live brokers.
            racks = [
                r if r is not None or b in self.brokers else f"(rack of broker {b})"
                for b, r in zip(ids, racks, strict=True)
            ]
        return build(
            {"broker": ids, "rack": racks, "alive": [b not in self.dead for b in ids]},
            {k: [d[n] for d in self.dirs] for n, k in enumerate(("broker", "dir", "capacity", "state"))},
            columns,
            names,
        )

    def _replicas(
        self,
        numbers: Mapping[str, int],
        rates: Mapping[tuple[str, int], float],
        frozen: Collection[tuple[str, int]],
    ) -> dict[str, Any]:
        """The columns of all replicas, each of R at most."""
        parts = self.partitions
        count = _integers((len(p.replicas) for p in parts), len(parts))
        part = np.repeat(np.arange(len(parts)), count)
        broker = _integers(chain.from_iterable(p.replicas for p in parts), len(part))
        fixed = self._frozen(frozen)[part]
        row, size, there = self._places(part, broker, fixed)
        rate = np.zeros(len(parts) + 1)  # at last that of unknown partitions
        rate[self.rows.of(rates)] = list(rates.values())
        columns = {
            "topic": _integers((numbers[p.topic] for p in parts), len(parts))[part],
            "partition": _integers((p.index for p in parts), len(parts))[part],
            "broker": broker,
            "dir": row,
            "position": np.arange(len(part)) - np.repeat(np.cumsum(count) - count, count),
            "size": size,
            "rate": rate[part],
            "frozen": fixed,
        }
        return columns if there.all() else {name: column[there] for name, column in columns.items()}

    def _frozen(self, frozen: Collection[tuple[str, int]]) -> BoolArray:
        """Whether each partition must not move: bool[P]."""
        found = np.fromiter((bool(p.adding or p.removing) for p in self.partitions), np.bool_)
        rows = self.rows.of([*self.moving, *frozen])
        found[rows[rows >= 0]] = True
        return found

    def _places(
        self, part: IntArray, broker: IntArray, fixed: BoolArray
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Row of the dir within the broker and bytes of each replica, and whether it has a place at all."""
        at = np.where(np.isin(broker, self.ids), np.searchsorted(self.ids, broker), len(self.ids))
        row, size, found = self._reported(self._key(part, at))
        largest = np.zeros(len(self.partitions))
        np.maximum.at(largest, part[found], size[found])
        offline = self.offline[at]
        dead = ~found & (offline >= 0)
        nowhere = ~(found | dead)
        registered = np.isin(broker, list(self.brokers))
        self._report_missing(part, broker, nowhere & ~registered, nowhere & registered & ~fixed)
        row = np.where(dead, offline, np.where(found, row, 0))
        size = np.where(dead, largest[part], np.where(found, size, 0.0))
        # One without a place of a partition that does not move is being created by another client's reassignment.
        return row, size, ~nowhere | (registered & fixed)

    def _reported(self, keys: IntArray) -> tuple[IntArray, FloatArray, BoolArray]:
        """Dir row and bytes by `_key`, and whether any dir reports it; of several dirs of one broker, the last counts."""
        count = [len(replicas) for _, _, replicas in self.reports]
        broker = np.repeat(_joined([[number] for number, _, _ in self.reports]), count)
        row = np.repeat(_joined([[row] for _, row, _ in self.reports]), count)
        columns = [columns_of(replicas) for _, _, replicas in self.reports]
        topics = chain.from_iterable(topics for topics, _, _ in columns)
        partition = self.rows.find(topics, _joined(numbers for _, numbers, _ in columns))
        size = _joined(sizes for _, _, sizes in columns).astype(np.float64)
        held = np.where(partition >= 0, self._key(partition, broker), -1)
        last = _last(held, keys)
        found = last >= 0
        return np.append(row, 0)[last], np.append(size, 0.0)[last], found

    def _report_missing(
        self, part: IntArray, broker: IntArray, unregistered: BoolArray, lost: BoolArray
    ) -> None:
        for i in np.flatnonzero(unregistered | lost).tolist():
            said = f"{self.partitions[part[i]].name} is assigned to broker {broker[i]}"
            self.problems.append(
                f"{said}, which is not registered in Kafka; declare it dead"
                if unregistered[i]
                else f"{said}, which has no log of it and no offline dir"
            )

    def _others(self, reserved: Mapping[tuple[int, str], int], topic: int) -> dict[str, Any]:
        """A row for each dir with reserved bytes; its partition number is the number of the dir."""
        found, rows = [], dict[int, int]()
        for k, (broker, path, _, _) in enumerate(self.dirs):
            row = rows[broker] = rows.get(broker, -1) + 1
            if size := reserved.get((broker, path)):
                found.append((topic, k, broker, row, 0, float(size), 0.0, True))
        columns = ("topic", "partition", "broker", "dir", "position", "size", "rate", "frozen")
        values = list(zip(*found, strict=True)) if found else [()] * len(columns)
        return {
            name: np.array(value, np.bool_ if name == "frozen" else None)
            for name, value in zip(columns, values, strict=True)
        }


class _PartitionRows:
    """Rows of partitions by topic and index, for many keys at once."""

    def __init__(self, partitions: tuple[Partition, ...]) -> None:
        self._topics: dict[str, int] = {}
        count, number = len(partitions), self._topics.setdefault
        topic = _integers((number(p.topic, len(self._topics)) for p in partitions), count)
        self._keys = topic * _MOST + _integers((p.index for p in partitions), count)

    def find(self, topics: Iterable[str], numbers: IntArray) -> IntArray:
        """The row of each partition, of several with one key the last; -1 for those that are unknown."""
        topic = _integers(map(self._topics.get, topics, repeat(-1)), len(numbers))
        return _last(self._keys, topic * _MOST + numbers)

    def of(self, keys: Collection[Key]) -> IntArray:
        """The same of keys."""
        return self.find((topic for topic, _ in keys), _integers((number for _, number in keys), len(keys)))


def _last(places: IntArray, wanted: IntArray) -> IntArray:
    """The last index of each wanted value in an array; -1 for those that it does not have."""
    if not len(places):
        return np.full(len(wanted), -1)
    order = np.argsort(places, kind="stable")
    at = order[np.searchsorted(places[order], wanted, side="right") - 1]
    return np.where(places[at] == wanted, at, -1)


def _joined(columns: Iterable[Any]) -> IntArray:
    return np.concatenate([_NO_NUMBERS, *(np.asarray(column, np.int64) for column in columns)])


def _integers(values: Iterable[int], count: int) -> IntArray:
    return np.fromiter(values, np.int64, count)
