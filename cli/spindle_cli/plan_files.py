"""Case folders and plan files. Only this module imports pyarrow."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from spindle.planner.planner import PlacementPlan
from spindle.planner.snapshot import PlannerSnapshot
from spindle.planner.sources import from_tables

TABLES = ("brokers", "dirs", "replicas")


def _arrow() -> tuple[Any, Any]:
    """``pyarrow`` and ``pyarrow.parquet``, imported on first use: the import takes a quarter of a second, which `--help` does not need.

    As Any, because pyarrow ships no types.
    """
    return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")


def read_case(folder: Path) -> PlannerSnapshot:
    """Read ``brokers.parquet``, ``dirs.parquet`` and ``replicas.parquet``.

    Raises:
        FileNotFoundError: naming the file that is missing.
        SnapshotError: naming what is wrong with the case.
    """
    _, pq = _arrow()
    for name in TABLES:
        if not (folder / f"{name}.parquet").is_file():
            raise FileNotFoundError(
                f"{folder / name}.parquet does not exist: a case has {', '.join(TABLES)}.parquet"
            )
    tables: list[Any] = [pq.read_table(folder / f"{name}.parquet") for name in TABLES]
    return from_tables(*tables)


def write_plan(plan: PlacementPlan, path: Path) -> None:
    """Write moves in order of execution, one row each, and the changes of preferred leaders, if any, to a second file.

    Columns: ``wave, topic, partition, src_broker, src_dir, dst_broker, dst_dir`` (dirs by row within their broker), then
    ``bytes, reason``. The file's metadata holds the hash of the snapshot. Leaders go to ``<name>.leaders.parquet``:
    ``topic, partition, broker``.
    """
    pa, pq = _arrow()
    s, r = plan.problem.snapshot, plan.replica
    table = pa.table(
        {
            "wave": pa.array(plan.wave, pa.int32()),
            "topic": _topics(pa, s, r),
            "partition": pa.array(s.partition[r], pa.int32()),
            "src_broker": pa.array(s.broker[s.dir_broker[plan.source]], pa.int32()),
            "src_dir": pa.array(s.dir_row[plan.source], pa.int16()),
            "dst_broker": pa.array(s.broker[s.dir_broker[plan.target]], pa.int32()),
            "dst_dir": pa.array(s.dir_row[plan.target], pa.int16()),
            "bytes": pa.array(plan.bytes.astype(np.int64), pa.int64()),
            "reason": pa.array(plan.reason, pa.int8()),
        }
    )
    pq.write_table(table.replace_schema_metadata({"snapshot": plan.digest}), path)
    leaders = path.with_suffix(".leaders.parquet")
    if not len(plan.leader):
        leaders.unlink(missing_ok=True)
        return
    where = s.dir.copy()
    where[r] = plan.target
    pq.write_table(
        pa.table(
            {
                "topic": _topics(pa, s, plan.leader),
                "partition": pa.array(s.partition[plan.leader], pa.int32()),
                "broker": pa.array(s.broker[s.dir_broker[where[plan.leader]]], pa.int32()),
            }
        ),
        leaders,
    )


def _topics(pa: Any, s: PlannerSnapshot, rows: Any) -> Any:
    """Topic names if the case has them, else topic numbers."""
    if s.topic_names:
        return pa.array([s.topic_names[t] for t in s.topic[rows].tolist()], pa.string())
    return pa.array(s.topic[rows], pa.int32())
