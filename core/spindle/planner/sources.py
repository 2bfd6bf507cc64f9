"""Snapshots from tables (Arrow, Parquet, plain columns) and from responses of Kafka's admin API."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from spindle.model.view import Broker, KafkaView, Partition
from spindle.planner.snapshot import OTHER_FILES, DirState, PlannerSnapshot, SnapshotError, build

_DIR_STATES = {state.name.lower(): int(state) for state in DirState}
_BROKER_STATES = {"alive": True, "new": True, "dead": False}


def from_tables(brokers: Any, dirs: Any, replicas: Any) -> PlannerSnapshot:
    """Build a snapshot from three tables.

    Args:
        brokers: ``broker``, ``rack``, ``state`` (alive, new, dead).
        dirs: ``broker``, ``dir``, ``capacity``, ``state`` (online, cordoned, draining, offline).
        replicas: ``topic`` (number or name), ``partition``, ``broker``, ``dir`` (row within the broker's dirs), ``position``,
            ``size``, and optionally ``write_rate``, ``forecast`` (bytes at the end of the move).

    Each is an Arrow table or a mapping from column name to sequence.

    Raises:
        SnapshotError: with all problems.
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
    problems += [f"a {what} has the unknown state {name}; known are {', '.join(known)}" for name in strange]
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
    """Build a snapshot from responses of Kafka's admin API.

    A replica is on an offline dir if the metadata assigns it to the broker and none of the broker's live dirs lists it. Replicas of
    partitions that are being reassigned are frozen.

    Args:
        view: brokers with log dirs, and partitions; both must be known.
        dead: lost brokers. Their replicas get the size of the partition's other replicas.
        draining: (broker, dir path) to be emptied.
        rates: produced bytes per second of (topic, partition).
        frozen: further partitions that must not move.
        reserved: bytes on (broker, dir path) that belong to no replica but use space; the snapshot has them as a log of the
            topic `OTHER_FILES` that never moves.

    Raises:
        SnapshotError: if something is unknown ("unknown is not absent", `docs/safety.md`, rule 8), or if the responses are inconsistent.
    """
    if view.brokers is None or view.partitions is None:
        raise SnapshotError([view.error or "the brokers or partitions are unknown"])
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
        """Add the dirs of one broker and the replicas on them."""
        known = self.brokers.get(broker)
        if broker in self.dead:
            # The dirs of a dead broker do not matter: one dir holds all its replicas, with unlimited capacity.
            self.offline[broker] = 0
            self.dirs.append((broker, "(gone)", float(2**60), DirState.OFFLINE))
            return
        if known is None or known.log_dirs is None:
            self.problems.append(f"broker {broker} did not report its log dirs; wait, or declare it dead")
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
                    self.problems.append(f"broker {broker} does not report the size of {log_dir.path}")
                capacity = 2**60
            self.dirs.append((broker, log_dir.path, float(capacity), state))
            for (topic, index), size in log_dir.replicas.items():
                self.at[broker, topic, index] = row, size
            self.moving.update(log_dir.futures)

    def snapshot(self, reserved: Mapping[tuple[int, str], int]) -> PlannerSnapshot:
        """Build the snapshot."""
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
            # A dead broker that is no longer registered gets a rack of its own, different from those of all live brokers.
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
        """A row for each dir with reserved bytes; its partition number is the number of the dir."""
        found, rows = [], dict[int, int]()
        for k, (broker, path, _, _) in enumerate(self.dirs):
            row = rows[broker] = rows.get(broker, -1) + 1
            if size := reserved.get((broker, path)):
                found.append((topic, k, broker, row, 0, float(size), 0.0, True))
        return found

    def _replicas(self, p: Partition, topic: int) -> list[tuple[Any, ...]]:
        """Add the rows of one partition."""
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
                        f"{p.name} is assigned to broker {b}, which has no log of it and no offline dir"
                    )
                elif b not in self.brokers:
                    self.problems.append(
                        f"{p.name} is assigned to broker {b}, which is not registered in Kafka; declare it dead"
                    )
                if b not in self.brokers or not frozen:
                    continue
                place = 0, 0  # being created by another client's reassignment
            rate = self.rates.get((p.topic, p.index), 0.0)
            found.append((topic, p.index, b, place[0], position, float(place[1]), rate, frozen))
        return found
