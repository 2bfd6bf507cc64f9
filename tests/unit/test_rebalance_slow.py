"""Slow disks among their peers, from their histories."""

from typing import Any

import numpy as np
import pytest

from spindle_rebalance.slow import of_batches
from spindle_rebalance.study import Study, exploded
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, records, sample

BROKERS, EACH, STEPS = 4, 2, 40


def slow_disks(
    slow: dict[tuple[int, str], int], kind: str | None = "ssd-1T", window: int = STEPS
) -> list[dict[str, Any]]:
    """Disks that take 4 ms a write, those that are named ten times as long from a step on; brokers sample at times of their own."""
    rng = np.random.default_rng(1)
    study, latest = Study(CLUSTER, 1.0, window=window), []
    for broker in range(BROKERS):
        rows = []
        for step in range(STEPS):
            disks = []
            for name in (f"/d{k}" for k in range(EACH)):
                ill = step >= slow.get((broker, name), STEPS)
                ms = 4.0 * float(rng.lognormal(0, 0.1)) * (10 if ill else 1)
                disks.append(disk(name, kind=kind, reads_per_s=0.0, writes_per_s=20.0, write_ms=ms))
            rows.append(
                record(
                    sample(at(step + broker / 10), [], disks, broker=broker),
                    step,
                    broker=broker,
                    partition=broker,
                )
            )
        latest.append(exploded(study.broker(broker, iter([records(rows)])), "latest"))
    return list(of_batches(latest))


def test_a_slow_disk_is_found_and_explained() -> None:
    (found,) = slow_disks({(2, "/d1"): 25})

    assert (found["broker"], found["dir"], found["peers"]) == (2, "/d1", BROKERS * EACH - 1)
    assert found["times"] == pytest.approx(10, rel=0.5)
    assert found["peers_ms"] == pytest.approx(4, rel=0.3)
    assert abs(found["since_ms"] - at(27)) <= 300_000
    assert found["message"].startswith("d1 (ssd-1T): request latency is ")


def test_among_well_disks_none_is_slow() -> None:
    assert slow_disks({}) == []


def test_disks_of_unknown_kind_have_no_peers() -> None:
    assert slow_disks({(2, "/d1"): 25}, kind=None) == []


def test_only_the_window_counts() -> None:
    assert slow_disks({(2, "/d1"): 38}, window=2) == []


def test_no_disks_are_none_that_are_slow() -> None:
    assert list(of_batches([])) == []
