"""What becomes of the records of one broker: features of replicas and disks, and what is told of the records."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spindle_rebalance import learn
from spindle_rebalance.pieces import Piece
from spindle_rebalance.study import FOUND, Study, exploded
from tests.unit.rebalance_samples import CLUSTER, at, disk, record, records, replica, sample

HOUR = 12  # samples
Row = dict[str, Any]


def growing() -> list[Row]:
    """Two brokers, an hour each: t-0 grows by 5 bytes a second on both, t-1 is on broker 1 only and stands still."""
    rows = []
    for step in range(HOUR + 1):
        size = 1000 + 5 * 300 * step
        rows += [
            record(sample(at(step), [replica("t", 0, size)], [disk(used=size)]), step),
            record(
                sample(
                    at(step),
                    [replica("t", 0, size, leader=False), replica("t", 1, 7, append_rate=float(step))],
                    [disk(used=size), disk("/d1", used=1)],
                    broker=1,
                ),
                step,
                broker=1,
                partition=1,
            ),
        ]
    return rows


def found(rows: list[Row], piece: Piece | None = None, **more: Any) -> pa.Table:
    def read(_: Piece) -> Iterator[pa.RecordBatch]:
        for start in range(0, len(rows), 5):
            yield records(rows[start : start + 5])

    each = Study(CLUSTER, 0.85).piece(piece or Piece({0: (0, len(rows))}), read, **more)
    return pa.Table.from_batches(list(each), schema=FOUND)


def told(table: pa.Table) -> str:
    """All of it; a latency that is not known is NaN, which is equal to nothing."""
    return repr(table.to_pylist())


def test_replicas_have_their_size_growth_and_rates() -> None:
    replicas = exploded(found(growing()), "replicas").to_pylist()

    size = 1000 + 5 * 300 * HOUR
    assert [tuple(each.values()) for each in replicas] == [
        (0, "t", 0, "/d0", size, 5.0, 10.0),
        (1, "t", 0, "/d0", size, 5.0, 10.0),
        (1, "t", 1, "/d0", 7, 0.0, pytest.approx(11.4)),
    ]


def test_disks_have_their_state_and_the_last_part_of_their_history() -> None:
    table = found(growing())

    disks = exploded(table, "disks").select(["broker", "dir", "used", "samples"]).to_pylist()
    assert [tuple(each.values()) for each in disks] == [
        (0, "/d0", 1000 + 5 * 300 * HOUR, HOUR + 1),
        (1, "/d0", 1000 + 5 * 300 * HOUR, HOUR + 1),
        (1, "/d1", 1, HOUR + 1),
    ]
    latest = exploded(table, "latest").to_pylist()
    assert [len(each["at_s"]) for each in latest] == [HOUR + 1] * 3
    short = Study(CLUSTER, 0.85, window=2).broker(0, iter([records(growing()[::2])]))
    (only,) = exploded(short, "latest").to_pylist()
    assert only["at_s"] == [at(HOUR - 1) / 1000, at(HOUR) / 1000]


def test_what_could_not_be_used_is_counted_and_named() -> None:
    rows = [
        record(sample(at(0), [replica("t", 0, 1)]), 0),
        record(sample(at(0), [replica("t", 0, 1)]), 1),
        record(b"junk", 2),
        record(b"junk", 9, broker=-1, partition=3),
        record(sample(at(3) + 3_600_000, [], broker=2), 4, broker=2, stored_ms=at(3)),
    ]
    read = learn.findings_of(found(rows), {}).read

    assert (read.records, read.rows, read.poisoned, read.doubled) == (5, 2, 2, 1)
    reason = "NotASample: 4 bytes that do not start with SPDL"
    assert [(each.partition, each.offset, each.reason) for each in read.poison] == [
        (0, 2, reason),
        (3, 9, reason),
    ]
    assert [(each.broker, each.seconds, each.records) for each in read.clocks] == [(2, 3600.0, 1)]


def test_what_does_not_fit_into_memory_is_written_and_gives_the_same(tmp_path: Path) -> None:
    rows = growing()
    assert told(found(rows, folder=tmp_path, in_memory=1)) == told(found(rows))
    assert list(tmp_path.iterdir()) == []


def test_the_shares_of_a_piece_have_each_broker_once() -> None:
    rows = [*growing(), record(b"junk", 99, broker=-1)]
    parts = [found(rows, Piece({0: (0, 99)}, share, 3)) for share in range(3)]

    assert [part.column("broker").to_pylist() for part in parts] == [[0], [1], [-1]]
    assert told(pa.concat_tables(parts).sort_by("broker")) == told(found(rows))


def test_no_records_are_no_findings() -> None:
    none = learn.findings_of(found([]), {})

    assert none.disks == ()
    assert none.replicas.num_rows == 0
    assert (none.read.records, none.read.rows, none.read.poisoned, none.read.doubled) == (0, 0, 0, 0)


@pytest.mark.parametrize("level", [0, 1.5, 85])
def test_a_level_is_a_share(level: float) -> None:
    with pytest.raises(ValueError, match="share of capacity"):
        Study(CLUSTER, level)
