"""Where a replica's log ends, read from files such as Kafka writes."""

import os
import struct
from pathlib import Path

import pytest

from spindle.disks.log_end import NO_EPOCH, LogEnd, Read, last_batch, last_entry, last_epoch
from spindle_agent.preflight.log_ends import find_log_end

BASE = 1000
_ENTRY = struct.Struct(">ii")


def batch(first: int, records: int, epoch: int, *, magic: int = 2, size: int = 100) -> bytes:
    head = struct.pack(">qiibIhi", first, size - 12, epoch, magic, 0, 0, records - 1)
    return head + bytes(size - len(head))


def segment(*batches: bytes) -> bytes:
    return b"".join(batches)


THREE = segment(batch(1000, 5, 3), batch(1005, 5, 3), batch(1010, 1, 4))


def reader(data: bytes) -> Read:
    return lambda at, count: data[at : at + count]


def ends(data: bytes, start: int = 0) -> tuple[int, int] | None:
    return last_batch(reader(data), len(data), BASE, start)


def test_a_log_ends_behind_its_last_batch() -> None:
    assert ends(THREE) == (4, 1011)
    assert ends(THREE, 200) == (4, 1011)
    assert ends(b"") == (NO_EPOCH, BASE)


@pytest.mark.parametrize(
    "tail",
    [
        batch(1011, 5, 4)[:70],  # cut short
        batch(1011, 5, 4)[:10],
        bytes(500),  # reserved room
        batch(900, 5, 4),  # not behind what stands before it
        batch(1011, 5, 4, magic=1),
    ],
)
def test_what_follows_and_is_no_batch_does_not_count(tail: bytes) -> None:
    assert ends(THREE + tail) == (4, 1011)


def test_where_no_batch_begins_nothing_is_known() -> None:
    assert ends(THREE, 50) is None
    assert ends(bytes(100)) is None


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_an_index_in_use_is_full_of_zeros_behind_its_entries(count: int) -> None:
    entries = b"".join(_ENTRY.pack(10 * n, 4096 * n) for n in range(1, count + 1))
    for data in (entries, entries + bytes(800)):
        assert last_entry(reader(data), len(data)) == 4096 * count


def test_the_last_epoch_of_a_checkpoint() -> None:
    assert last_epoch("0\n2\n3 0\n7 120\n") == 7
    assert last_epoch(None) == last_epoch("") == last_epoch("0\n0\n") == last_epoch("x") == NO_EPOCH


METADATA = b"version: 0\ntopic_id: Ag5vTgyrQ6yDqMkzvNWHnA"
OF = "Ag5vTgyrQ6yDqMkzvNWHnA"


def put(path: Path, files: dict[str, bytes]) -> LogEnd | None:
    for name, data in files.items():
        (path / name).write_bytes(data)
    sizes = {each.name: each.stat().st_size for each in path.iterdir()}
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return find_log_end(folder, sizes)
    finally:
        os.close(folder)


LOG, INDEX = f"{BASE:020d}.log", f"{BASE:020d}.index"


def test_a_folder_as_kafka_leaves_it(tmp_path: Path) -> None:
    before = {f"{0:020d}.log": batch(0, 1000, 2), f"{0:020d}.index": b""}
    whole = {
        LOG: THREE,
        INDEX: _ENTRY.pack(10, 200) + bytes(80),
        "leader-epoch-checkpoint": b"0\n1\n4 1010\n",
    }
    assert put(tmp_path, {**before, **whole, "partition.metadata": METADATA}) == LogEnd(OF, 4, 1011)


def test_an_index_that_leads_nowhere_is_not_believed(tmp_path: Path) -> None:
    assert put(tmp_path, {LOG: THREE, INDEX: _ENTRY.pack(10, 150), "partition.metadata": METADATA}) == LogEnd(
        OF, 4, 1011
    )


def test_an_empty_segment_has_its_epoch_from_the_checkpoint(tmp_path: Path) -> None:
    files = {LOG: b"", "partition.metadata": METADATA}
    assert put(tmp_path, files) is None
    assert put(tmp_path, {**files, "leader-epoch-checkpoint": b"0\n1\n4 900\n"}) == LogEnd(OF, 4, BASE)


def test_a_replica_that_was_just_made(tmp_path: Path) -> None:
    assert put(tmp_path, {f"{0:020d}.log": b"", "partition.metadata": METADATA}) == LogEnd(OF, NO_EPOCH, 0)


def test_what_cannot_be_read_is_not_known(tmp_path: Path) -> None:
    assert put(tmp_path, {LOG: THREE}) is None  # of which topic?
    assert put(tmp_path, {"partition.metadata": METADATA}) == LogEnd(OF, 4, 1011)
    (tmp_path / LOG).unlink()
    (tmp_path / LOG).symlink_to("/etc/hostname")
    assert put(tmp_path, {}) is None
