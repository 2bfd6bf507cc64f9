"""Converts findings to the planner's input, and runs the planner."""

import logging

import numpy as np
from numpy.typing import NDArray

from spindle.balance.history import DiskOutlook, ReplicaHistory
from spindle.balance.picture import Picture
from spindle.balance.propose import Result, propose
from spindle.balance.reading import Reading, read
from spindle_rebalance.findings import Findings

log = logging.getLogger(__name__)


def history_of(findings: Findings | None) -> ReplicaHistory:
    """Findings in the core's format; empty if there are none."""
    if findings is None:
        return ReplicaHistory()
    table = findings.replicas
    return ReplicaHistory(
        topic=table["topic"].to_pylist(),
        partition=table["partition"].to_numpy(),
        broker=table["broker"].to_numpy(),
        growth=_floats(table["growth_bytes_per_s"]),
        rate=_floats(table["append_p95"]),
        disks=tuple(
            DiskOutlook((d.broker, d.dir), d.level_per_s, d.full_in_s)
            if d.told
            else DiskOutlook((d.broker, d.dir))
            for d in sorted(findings.disks, key=lambda d: (d.broker, d.dir))
        ),
        slow=frozenset((d.broker, d.dir) for d in findings.disks if d.slow is not None),
    )


def _floats(column: object) -> NDArray[np.float64]:
    """A column as floats, null as NaN."""
    values: NDArray[np.float64] = column.to_numpy(zero_copy_only=False)  # type: ignore[attr-defined]  # pyarrow ships no types
    return values.astype(np.float64)


def plan(picture: Picture, findings: Findings | None) -> tuple[Reading, Result]:
    """Plan from a cluster's state and findings."""
    history = history_of(findings)
    reading = read(picture, history.slow)
    return reading, propose(picture, reading, history, lambda text: log.debug("%s", text))
