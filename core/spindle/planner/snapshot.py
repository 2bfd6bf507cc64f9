"""The planner's input: brokers, log dirs and replicas as numpy arrays, in one canonical order, checked.

Arrays instead of objects, because a million replicas must fit in memory: a replica takes about 40 bytes. The order is canonical
(brokers by id, dirs by broker and row, replicas by topic, partition and position), so that the same cluster gives the same plan in
whatever order it was read. :attr:`PlannerSnapshot.digest` is a hash of exactly these arrays. Every proposal records it, so that an
outdated plan is detected.

Notation used in all files of the planner: ``B`` brokers, ``D`` dirs, ``R`` replicas, ``P`` partitions; sizes and capacities
in bytes as float64, which is exact up to 2^53 (nine petabytes per sum).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

OTHER_FILES: Final = "(other files)"
"""Topic of the rows for bytes that belong to no replica: logs that never move. It is not a valid topic name."""

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class DirState(IntEnum):
    """State of a dir. ONLINE: replicas may move in and out; CORDONED: none may move in; DRAINING and OFFLINE: all must move out."""

    ONLINE = 0
    CORDONED = 1
    DRAINING = 2
    OFFLINE = 3


class SnapshotError(ValueError):
    """An inconsistent snapshot. ``problems`` holds one sentence per problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        more = f" … and {len(problems) - 5} more" if len(problems) > 5 else ""
        super().__init__("; ".join(problems[:5]) + more)
        self.problems = tuple(problems)


@dataclass(frozen=True, eq=False)
class PlannerSnapshot:
    """A validated snapshot of a cluster. Create it with :func:`build`, which sorts and validates.

    Attributes:
        broker: ids, int64[B], ascending.
        rack: index into ``rack_names``, int64[B].
        alive: bool[B]; the replicas of a broker that is not alive must be copied elsewhere.
        dir_broker: row of the broker, int64[D], ascending.
        dir_row: the dir's number within its broker, int64[D].
        dir_name: path or label per dir.
        capacity: bytes, float64[D].
        dir_state: :class:`DirState`, int64[D].
        topic_names: topic names; empty if topics are numbers.
        topic, partition, position: int64[R]; position 0 is the preferred leader.
        dir: row of the dir, int64[R].
        size: bytes now, float64[R].
        planned: bytes at the end of the move (a forecast, at least ``size``), float64[R]; all planning uses these.
        rate: produced bytes per second of the partition, float64[R].
        frozen: bool[R]; replicas of partitions that another client is reassigning. They stay ("no conflicting move", `docs/safety.md`, rule 6).
    """

    broker: IntArray
    rack: IntArray
    rack_names: tuple[str, ...]
    alive: BoolArray
    dir_broker: IntArray
    dir_row: IntArray
    dir_name: tuple[str, ...]
    capacity: FloatArray
    dir_state: IntArray
    topic_names: tuple[str, ...]
    topic: IntArray
    partition: IntArray
    position: IntArray
    dir: IntArray
    size: FloatArray
    planned: FloatArray
    rate: FloatArray
    frozen: BoolArray

    @cached_property
    def first_dir(self) -> IntArray:
        """First dir of each broker, then ``D``: int64[B + 1]."""
        return np.searchsorted(self.dir_broker, np.arange(len(self.broker) + 1))

    @cached_property
    def start(self) -> IntArray:
        """First replica of each partition, then ``R``: int64[P + 1]."""
        if not len(self.topic):
            return np.zeros(1, np.int64)
        new = (np.diff(self.topic) != 0) | (np.diff(self.partition) != 0)
        return np.concatenate([[0], np.flatnonzero(new) + 1, [len(self.topic)]])

    @cached_property
    def part(self) -> IntArray:
        """Partition of each replica, dense: int64[R]."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    @cached_property
    def used(self) -> FloatArray:
        """Planned bytes on each dir: float64[D]."""
        return np.bincount(self.dir, self.planned, len(self.capacity)).astype(np.float64)

    @cached_property
    def other(self) -> BoolArray:
        """Rows that are not replicas (`OTHER_FILES`): bool[R]."""
        number = self.topic_names.index(OTHER_FILES) if OTHER_FILES in self.topic_names else -1
        found: BoolArray = self.topic == number
        return found

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return len(self.topic) - int(self.other.sum())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that planning reads, in canonical order."""
        h = hashlib.sha256()
        for text in (self.rack_names, self.dir_name, self.topic_names):
            h.update("\0".join(text).encode() + b"\1")
        for a in (
            self.broker, self.rack, self.alive, self.dir_broker, self.dir_row, self.capacity, self.dir_state,
            self.topic, self.partition, self.position, self.dir, self.size, self.rate, self.frozen,
        ):  # fmt: skip
            # A view, not a copy: a million replicas are 60 MB.
            h.update(np.ascontiguousarray(a).view(np.uint8).data)
        if not np.array_equal(self.planned, self.size):
            h.update(np.ascontiguousarray(self.planned).view(np.uint8).data)
        return h.hexdigest()

    def topic_name(self, replica: int) -> str:
        """Name of a replica's topic, or its number."""
        t = int(self.topic[replica])
        return self.topic_names[t] if self.topic_names else str(t)

    def dir_label(self, d: int) -> str:
        """``broker 7 /data/d3``."""
        return f"broker {self.broker[self.dir_broker[d]]} {self.dir_name[d]}"

    def moved(
        self, replicas: IntArray, targets: IntArray, leaders: IntArray | None = None
    ) -> "PlannerSnapshot":
        """The snapshot after these replicas moved to these dirs and ``leaders`` became preferred leaders."""
        there = self.dir.copy()
        there[replicas] = targets
        if leaders is None or not len(leaders):
            return replace(self, dir=there)
        # The new and the old leader swap positions, so their rows swap in the canonical order, too.
        rows = np.arange(len(there))
        old = self.start[self.part[leaders]]
        rows[old], rows[leaders] = leaders, old
        return replace(
            self, dir=there[rows], size=self.size[rows], planned=self.planned[rows], rate=self.rate[rows],
            frozen=self.frozen[rows],
        )  # fmt: skip


def build(
    brokers: Mapping[str, Any],
    dirs: Mapping[str, Any],
    replicas: Mapping[str, Any],
    topic_names: Sequence[str] = (),
) -> PlannerSnapshot:
    """Sort, check and freeze a snapshot.

    Args:
        brokers: columns ``broker`` (id), ``rack`` (name or None), ``alive``.
        dirs: columns ``broker``, ``dir`` (name), ``capacity``, ``state`` (:class:`DirState`); the n-th row of a broker is
            its dir n; brokers may come in any order.
        replicas: columns ``topic`` (number), ``partition``, ``broker``, ``dir`` (row within the broker), ``position``,
            ``size``, and optionally ``planned``, ``rate``, ``frozen``.
        topic_names: name of each topic number, if topics have names.

    Raises:
        SnapshotError: lists all problems, not only the first.
    """
    ids = np.asarray(brokers["broker"], np.int64)
    order = np.argsort(ids, kind="stable")
    names = [None if brokers["rack"][i] is None else str(brokers["rack"][i]) for i in order.tolist()]
    rack_names = sorted({r or "" for r in names})
    index = {r: i for i, r in enumerate(rack_names)}
    ids = ids[order]
    d_id = np.asarray(dirs["broker"], np.int64)
    d_order = np.argsort(d_id, kind="stable")
    d_id = d_id[d_order]
    d_broker = np.minimum(np.searchsorted(ids, d_id), max(len(ids) - 1, 0))
    first = np.searchsorted(d_id, d_id)
    r = {k: np.asarray(v) for k, v in replicas.items()}
    at = _order(r["topic"].astype(np.int64), r["partition"].astype(np.int64), r["position"].astype(np.int64))
    n = len(r["topic"])
    if at is not None:
        r = {k: v[at] for k, v in r.items()}
    r_id, r_row = r["broker"].astype(np.int64), r["dir"].astype(np.int64)
    size = r["size"].astype(np.float64)
    row = np.searchsorted(d_id, ids)[np.minimum(np.searchsorted(ids, r_id), max(len(ids) - 1, 0))] + r_row
    snapshot = PlannerSnapshot(
        broker=ids, rack=np.array([index[x or ""] for x in names], np.int64), rack_names=tuple(rack_names),
        alive=np.asarray(brokers["alive"], np.bool_)[order],
        dir_broker=d_broker, dir_row=np.arange(len(d_id)) - first,
        dir_name=tuple(str(dirs["dir"][i]) for i in d_order.tolist()),
        capacity=np.asarray(dirs["capacity"], np.float64)[d_order],
        dir_state=np.asarray(dirs["state"], np.int64)[d_order],
        topic_names=tuple(topic_names),
        topic=r["topic"].astype(np.int64), partition=r["partition"].astype(np.int64),
        position=r["position"].astype(np.int64), dir=np.clip(row, 0, max(len(d_id) - 1, 0)),
        size=size, planned=np.maximum(size, r["planned"].astype(np.float64)) if "planned" in r else size,
        rate=r["rate"].astype(np.float64) if "rate" in r else np.zeros(n),
        frozen=r["frozen"].astype(np.bool_) if "frozen" in r else np.zeros(n, np.bool_),
    )  # fmt: skip
    problems = _problems(snapshot, names, d_id, r_id, r_row)
    if problems:
        raise SnapshotError(problems)
    return snapshot


def _order(topic: IntArray, partition: IntArray, position: IntArray) -> IntArray | None:
    """Row numbers in canonical order; None if the rows are sorted already, which saves sorting a million rows."""
    if len(topic) < 2:
        return None
    t, p, q = np.diff(topic), np.diff(partition), np.diff(position)
    if bool(np.all((t > 0) | ((t == 0) & ((p > 0) | ((p == 0) & (q > 0)))))):
        return None
    return np.lexsort((position, partition, topic))


def _named(what: IntArray | Sequence[Any], words: str) -> list[str]:
    """At most three sentences of one kind, then the number of further ones."""
    items = list(what[:3])
    return [words.format(x) for x in items] + ([f"({len(what) - 3} more like this)"] if len(what) > 3 else [])


def _problems(
    s: PlannerSnapshot, racks: Sequence[str | None], d_id: IntArray, r_id: IntArray, r_row: IntArray
) -> list[str]:
    """All problems of a snapshot, one sentence each."""
    found: list[str] = []
    if not len(s.broker):
        return ["there is no broker"]
    if not len(s.capacity):
        return ["there is no log dir"]
    if None in racks and any(x is not None for x in racks):
        without = [int(b) for b, x in zip(s.broker, racks, strict=True) if x is None]
        found += _named(without, "broker {} has no rack while others have one")
    found += _named(s.broker[1:][np.diff(s.broker) == 0], "broker {} is listed twice")
    found += _named(
        np.unique(d_id[~np.isin(d_id, s.broker)]), "a dir refers to broker {}, which does not exist"
    )
    bad = ~(np.isfinite(s.capacity) & (s.capacity > 0))
    found += _named(
        [s.dir_label(d) for d in np.flatnonzero(bad).tolist()], "{}: the capacity is not a positive number"
    )
    bad = ~np.isin(s.dir_state, [x.value for x in DirState])
    found += _named([s.dir_label(d) for d in np.flatnonzero(bad).tolist()], "{}: unknown state")
    if not len(s.topic):
        return found
    at = np.minimum(np.searchsorted(s.broker, r_id), len(s.broker) - 1)
    unknown = s.broker[at] != r_id
    found += _named(np.unique(r_id[unknown]), "a replica refers to broker {}, which does not exist")
    n_dirs = np.diff(s.first_dir)[at]
    bad = ~unknown & ((r_row < 0) | (r_row >= n_dirs))
    found += _named(
        [f"{_replica(s, i)} on broker {r_id[i]}: dir {r_row[i]}" for i in np.flatnonzero(bad).tolist()],
        "{} does not exist",
    )
    for value, words in ((s.size, "size"), (s.rate, "write rate"), (s.planned, "forecast size")):
        bad = ~(np.isfinite(value) & (value >= 0))
        found += _named(
            [f"{_replica(s, i)}: {words} {value[i]}" for i in np.flatnonzero(bad).tolist()],
            "{} is not a valid number of bytes",
        )
    if found:
        return found
    twice = _twice(s)
    found += _named(
        [
            f"{_replica(s, i)} has two replicas on broker {s.broker[s.dir_broker[s.dir[i]]]}"
            for i in twice.tolist()
        ],
        "{}",
    )
    used = np.bincount(s.dir, s.size, len(s.capacity))
    found += _named(
        [
            f"{s.dir_label(d)} holds {used[d]:.0f} of {s.capacity[d]:.0f} bytes"
            for d in np.flatnonzero(used > s.capacity).tolist()
        ],
        "{}, more than its capacity",
    )
    return found


def _twice(s: PlannerSnapshot) -> IntArray:
    """Replicas on the same broker as another replica of their partition."""
    broker = s.dir_broker[s.dir]
    found = np.zeros(len(broker), np.bool_)
    # Replicas of a partition are adjacent rows, so comparing with the next few rows is faster than sorting a million keys.
    for k in range(1, int(np.diff(s.start).max(initial=1))):
        found[k:] |= (broker[k:] == broker[:-k]) & (s.part[k:] == s.part[:-k])
    return np.flatnonzero(found)


def group(keys: IntArray, n: int) -> IntArray:
    """Stable sort order of rows by integer keys below ``n``; 16-bit keys use a radix sort, which is ten times as fast."""
    order: IntArray = np.argsort(keys.astype(np.int16) if n < 2**15 else keys, kind="stable")
    return order


def _replica(s: PlannerSnapshot, i: int) -> str:
    return f"{s.topic_name(i)}-{s.partition[i]}"
