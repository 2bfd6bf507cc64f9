"""Snapshots from tables (Arrow, Parquet, plain columns) and from responses of Kafka's admin API."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from spindle.model.view import KafkaView
from spindle.planner.snapshot import DirState, PlannerSnapshot, SnapshotError, build
from spindle.planner.view_reader import ViewReader

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
    reader = ViewReader(view.brokers, view.partitions, frozenset(dead), frozenset(draining))
    return reader.snapshot(rates or {}, frozen, reserved or {})
