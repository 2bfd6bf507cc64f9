"""What is found in a segment, and what is not."""

import struct
import tracemalloc
import zlib
from dataclasses import replace

import pytest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.batches import epoch_of
from spindle.scrub.catalog import Segment, file_name, inactive, partition_of
from spindle.scrub.indexes import Indexes
from tests.unit.scrub_logs import Log, batch, log

LOG = log([[b"a" * 300, b"b"], [b"c" * 9000], [b"d"], [b"e" * 20, b"f", b"g"]], base=500)


def flipped(data: bytes, byte: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[byte] ^= 1 << bit
    return bytes(changed)


def kinds(found: object) -> list[str]:
    return [find.kind.value for find in found]  # type: ignore[attr-defined]


def test_a_good_segment_has_no_finds_in_whatever_pieces_it_comes() -> None:
    for piece in (1, 7, 16, 17, 60, 61, 62, 4096, 1 << 20):
        assert LOG.check(piece=piece) == ()


def test_an_empty_segment_is_a_good_one() -> None:
    assert Log(7, 9, b"").check() == ()


def test_compressed_batches_are_checked_as_they_lie_there() -> None:
    packed = log([[b"a" * 300, b"b"], [b"c" * 900]], codec=DefaultRecordBatchBuilder.CODEC_GZIP)
    assert packed.check() == ()
    assert kinds(packed.check(flipped(packed.data, packed.starts[1] + 80))) == ["Crc"]


@pytest.mark.parametrize(
    ("byte", "kind"),
    [
        pytest.param(0, "Offset", id="base offset"),
        pytest.param(15, "Epoch", id="leader epoch"),
        pytest.param(16, "Magic", id="magic"),
        pytest.param(17, "Crc", id="crc"),
        pytest.param(61 + 4000, "Crc", id="payload"),
    ],
)
def test_each_part_of_a_batch_has_its_kind_of_find(byte: int, kind: str) -> None:
    at = LOG.starts[1]
    found = LOG.check(flipped(LOG.data, at + byte, 4))
    assert kind in kinds(found)
    assert found[0].file == "log"
    assert found[0].position in (at, LOG.starts[2])


def test_after_a_wrong_checksum_the_walk_goes_on() -> None:
    twice = flipped(flipped(LOG.data, LOG.starts[0] + 70), LOG.starts[2] + 65)
    found = LOG.check(twice)
    assert [(find.kind, find.position, find.offset) for find in found] == [
        (SegmentErrorKind.CRC, LOG.starts[0], 500),
        (SegmentErrorKind.CRC, LOG.starts[2], 503),
    ]


def test_a_length_that_is_too_small_ends_the_walk() -> None:
    changed = bytearray(LOG.data)
    struct.pack_into(">i", changed, LOG.starts[1] + 8, 20)
    assert kinds(LOG.check(bytes(changed))) == ["Length"]


def test_a_count_that_was_written_wrong_is_seen_though_the_checksum_is_right() -> None:
    made = bytearray(batch(0, [b"x"]))
    struct.pack_into(">i", made, 57, 9)
    import crc32c

    struct.pack_into(">I", made, 17, crc32c.crc32c(bytes(made[21:])))
    assert kinds(Log(0, 1, bytes(made)).check()) == ["Length"]


@pytest.mark.parametrize("cut", [1, 40, 61, 5000])
def test_a_tail_that_is_missing_is_found(cut: int) -> None:
    assert "Truncated" in kinds(LOG.check(LOG.data[:-cut])) or cut == 61
    assert LOG.check(LOG.data[:-cut]) != ()


def test_a_log_cut_between_two_batches_is_found_by_its_indexes() -> None:
    found = LOG.check(LOG.data[: LOG.starts[3]])
    assert {find.file for find in found} == {"index", "timeindex"}


def test_a_page_of_zeros_is_found_wherever_it_lies() -> None:
    long = log([[b"x" * 500] for _ in range(60)])
    for page in range(len(long.data) // 4096):
        changed = bytearray(long.data)
        changed[4096 * page : 4096 * (page + 1)] = bytes(4096)
        assert long.check(bytes(changed)) != (), page
    changed = bytearray(long.data)
    changed[long.starts[8] :] = bytes(len(long.data) - long.starts[8])
    assert kinds(long.check(bytes(changed)))[0] == "Zeroed"


def test_offsets_of_the_next_segment_do_not_belong_here() -> None:
    assert kinds(replace(LOG, end=LOG.end - 1).check()) == ["Offset"]


def test_gaps_as_compaction_leaves_them_are_none_of_our_business() -> None:
    gaps = batch(3, [b"a"]) + batch(90, [b"b"], epoch=2) + batch(200, [b"c"], epoch=2)
    assert Log(0, 300, gaps, times=struct.pack(">qi", 1000, 3)).check() == ()


def test_the_epochs_of_the_neighbours_bound_those_of_a_segment() -> None:
    risen = log([[b"a"], [b"b"]], epochs=[3, 4])
    assert replace(risen, epoch_before=3, epoch_after=4).check() == ()
    assert kinds(replace(risen, epoch_before=4).check()) == ["Epoch"]
    assert kinds(replace(risen, epoch_after=3).check()) == ["Epoch"]
    assert kinds(log([[b"a"]], epochs=[-2]).check()) == ["Epoch"]
    assert log([[b"a"]], epochs=[-1]).check() == ()  # as older brokers wrote it


def test_the_epoch_of_a_batch_is_read_from_its_first_bytes() -> None:
    assert epoch_of(batch(0, [b"x"], epoch=9)[:17]) == 9
    assert epoch_of(b"") is None
    assert epoch_of(bytes(17)) is None


def test_messages_of_former_formats_are_checked_too() -> None:
    for magic in (0, 1):
        data = bytearray()
        for offset in range(5):
            builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
            builder.append(0, 1000 + offset, None, b"v" * (offset * 40))
            made = bytearray(builder.build())
            struct.pack_into(">q", made, 0, offset)
            data += made
        times = struct.pack(">qi", 1004, 4) if magic else b""
        old = Log(0, 5, bytes(data), times=times)
        for piece in (1, 25, 26, 61, 4096):
            assert old.check(piece=piece) == ()
        assert kinds(old.check(flipped(old.data, len(old.data) - 1)))[0] == "Crc"
        assert zlib.crc32(old.data[16:26]) != 0


# Indexes


def test_an_index_that_is_missing_is_found() -> None:
    from spindle.scrub.indexes import Indexes

    assert [find.file for find in Indexes(0, 10, None, b"").finds] == ["index"]
    assert [find.file for find in Indexes(0, 10, b"", None).finds] == ["timeindex"]
    assert Indexes(0, 0, None, None).finds == []


def test_every_flipped_bit_of_an_index_of_whole_batches_is_found() -> None:
    long = log([[b"x" * 700] for _ in range(30)], base=1000)
    assert len(long.offsets) > 100
    for byte in range(len(long.offsets)):
        for bit in range(8):
            found = long.check(offsets=flipped(long.offsets, byte, bit))
            assert [f.file for f in found if f.file == "index"], (byte, bit)
    for byte in range(len(long.times)):
        for bit in range(8):
            found = long.check(times=flipped(long.times, byte, bit))
            assert [f.file for f in found if f.file == "timeindex"], (byte, bit)


def test_an_index_cut_short_or_with_a_tail_of_zeros_is_found() -> None:
    assert kinds(LOG.check(offsets=LOG.offsets[:-3])) == ["Index"]
    assert kinds(LOG.check(offsets=LOG.offsets + bytes(8))) == ["Index"]
    assert kinds(LOG.check(times=LOG.times + bytes(12))) == ["Index"]


def test_indexes_take_no_more_memory_than_they_have_bytes() -> None:
    count = 200_000
    offsets = b"".join(struct.pack(">ii", n, 5000 * n) for n in range(count))
    times = b"".join(struct.pack(">qi", n, n) for n in range(count))
    tracemalloc.start()
    try:
        made = Indexes(0, 5000 * count, offsets, times)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made.finds == []
    assert most < 64 * 1024  # beside the bytes that it was given


def test_an_entry_may_name_the_last_of_several_batches_that_came_together() -> None:
    """A follower before Kafka 4.2 indexes what one fetch brought: position of the first, last offset of all."""
    together = log([[b"x" * 700] for _ in range(6)])
    entry = struct.pack(">ii", 4, together.starts[2])
    assert together.check(offsets=entry) == ()
    assert kinds(together.check(offsets=struct.pack(">ii", 1, together.starts[2]))) == ["Index"]


def test_an_entry_of_a_compacted_batch_may_name_the_last_record_that_is_left() -> None:
    made = bytearray(batch(0, [b"a", b"b", b"c"]))
    struct.pack_into(">i", made, 23, 9)  # its last offset is still 9, of ten records three are left
    import crc32c

    struct.pack_into(">I", made, 17, crc32c.crc32c(bytes(made[21:])))
    data = batch(0, [b"x" * 5000]) + bytes(made).replace(made[:8], struct.pack(">q", 1), 1)
    left = Log(
        0, 20, data, offsets=struct.pack(">ii", 7, len(data) - len(made)), times=struct.pack(">qi", 1002, 10)
    )
    assert left.check() == ()


# Names


def test_partitions_are_told_by_their_folders() -> None:
    assert partition_of("orders-0") == ("orders", 0)
    assert partition_of("a-b.c_d-12") == ("a-b.c_d", 12)
    for other in (
        "orders-0.ab12-delete",
        "t-0.cc-future",
        "t-0.x-stray",
        "meta.properties",
        "__cluster_metadata-0",
        "-1",
    ):
        assert partition_of(other) is None, other


def test_the_last_segment_is_the_active_one() -> None:
    names = [file_name(base, "log") for base in (0, 700, 90)]
    others = [
        "00000000000000000000.index",
        "00000000000000000090.log.deleted",
        "00000000000000000800.log.swap",
    ]
    assert inactive([*names, *others]) == (Segment(0, 90), Segment(90, 700))
    assert inactive(names[:1]) == ()
