"""A sample's bytes: what they cost, what older and newer ones mean, and what is refused."""

import dataclasses
import json
import struct
import zlib
from typing import Any

import pyarrow as pa
import pytest

from spindle.samples.codec import LARGEST_CONTENT, Poison, decode, encode, pack
from spindle.samples.framing import LARGEST, Version, seal, unseal
from spindle.samples.schema import DISKS, REPLICAS, VERSION
from tests.unit.sample_rows import disks, many, replicas, sample

HEAD = {"cluster_id": "id", "broker": 1, "rack": "", "at_ms": 5, "interval_s": 300.0}


def record(
    version: Version = VERSION, *, head: Any = HEAD, rows: Any = None, disk_rows: Any = None, more: Any = ()
) -> bytes:
    """A record put together by hand, sealed as it should be."""
    sections = [
        json.dumps(head).encode(),
        pack(rows if rows is not None else sample().replicas),
        pack(disk_rows if disk_rows is not None else sample().disks),
        *more,
    ]
    return seal(version, sections)


def poison(value: bytes) -> tuple[str, str]:
    with pytest.raises(Poison) as caught:
        decode(value)
    return caught.value.reason, str(caught.value)


def without(batch: Any, *columns: str) -> Any:
    return batch.select([name for name in batch.schema.names if name not in columns])


def test_what_is_encoded_is_decoded() -> None:
    assert decode(encode(sample())) == sample()


def test_a_broker_without_replicas_and_disks() -> None:
    empty = sample(replicas=replicas([]), disks=disks())

    assert decode(encode(empty)) == empty


def test_a_replica_of_a_large_broker_costs_about_ten_bytes() -> None:
    rows = many(20_000, topics=1_000)

    assert len(encode(sample(replicas=rows))) / 20_000 < 11


def test_an_older_record_lacks_columns_which_are_null_then() -> None:
    old = record(
        Version(1, 0),
        rows=without(sample().replicas, "leader", "append_rate"),
        disk_rows=without(sample().disks, "kind", "write_ms", "state"),
    )

    read = decode(old)

    assert read.replicas.schema.equals(REPLICAS)
    assert read.disks.schema.equals(DISKS)
    assert read.replicas["bytes"] == sample().replicas["bytes"]
    assert read.replicas["leader"].null_count == read.replicas["append_rate"].null_count == 3
    assert read.disks["kind"].to_pylist() == [None, None]


def test_a_newer_record_has_keys_columns_and_sections_that_are_overlooked() -> None:
    rows = sample().replicas.append_column("heat", pa.array(["warm", "cold", None]).dictionary_encode())
    rows = pa.RecordBatch.from_arrays(rows.columns[::-1], names=rows.schema.names[::-1])
    new = record(
        Version(1, 9),
        head=HEAD | {"mood": "good"},
        rows=rows,
        disk_rows=sample().disks.append_column("smart", pa.array([[1, 2], []])),
        more=[b"something else"],
    )

    read = decode(new)

    assert read.version == (1, 9)
    assert read.replicas == sample().replicas
    assert read.disks == sample().disks


def test_a_record_of_another_major_version_is_named() -> None:
    reason, message = poison(record(Version(2, 1)))

    assert reason == "UnknownVersion"
    assert "version 2.1" in message
    assert "1.x" in message


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        pytest.param(b"", "NotASample", id="nothing"),
        pytest.param(b"SPD", "Truncated", id="not even the mark"),
        pytest.param(b"PAR1" + encode(sample())[4:], "NotASample", id="another mark"),
        pytest.param(encode(sample())[:-1], "Truncated", id="cut at the end"),
        pytest.param(encode(sample())[:14], "Truncated", id="cut within the lengths"),
        pytest.param(encode(sample()) + b"\0", "Malformed", id="something after the end"),
        pytest.param(encode(sample())[:-9] + b"!" + encode(sample())[-8:], "Damaged", id="a byte changed"),
        pytest.param(b"SPDL" + bytes(LARGEST), "TooLarge", id="absurdly long"),
        pytest.param(seal(VERSION, [b"{}"] * 2), "Malformed", id="too few sections"),
        pytest.param(seal(VERSION, [b"{}"] * 3), "Invalid", id="an empty head"),
        pytest.param(seal(VERSION, [b"[" * 65000] * 3), "Invalid", id="a head of brackets"),
        pytest.param(seal(VERSION, [b" " * 70000] * 3), "TooLarge", id="a head without end"),
        pytest.param(seal(VERSION, [json.dumps(HEAD).encode(), b"", b""]), "Malformed", id="no tables"),
        pytest.param(record(head=HEAD | {"broker": "1"}), "Invalid", id="a broker in quotes"),
        pytest.param(record(head=HEAD | {"broker": -1}), "Invalid", id="a negative broker"),
        pytest.param(record(head=HEAD | {"at_ms": 10**18}), "Invalid", id="nanoseconds"),
        pytest.param(record(head=HEAD | {"interval_s": 0.0}), "Invalid", id="no interval"),
        pytest.param(record(head=HEAD | {"interval_s": float("nan")}), "Invalid", id="an interval of NaN"),
        pytest.param(record(head=HEAD | {"part": 3, "parts": 3}), "Invalid", id="part 3 of 3, from 0"),
        pytest.param(record(rows=without(sample().replicas, "bytes")), "Invalid", id="no sizes"),
        pytest.param(record(disk_rows=without(sample().disks, "dir")), "Invalid", id="disks without dirs"),
    ],
)
def test_what_cannot_be_read_is_poison(value: bytes, reason: str) -> None:
    assert poison(value)[0] == reason


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("bytes", -5, "replicas.bytes is -5"),
        ("partition", -1, "replicas.partition is -1"),
        ("append_rate", -0.5, "replicas.append_rate is -0.5"),
        ("append_rate", float("inf"), "replicas.append_rate is inf"),
        ("append_rate", float("nan"), "replicas.append_rate is NaN"),
        ("bytes", None, "replicas.bytes is missing "),
        ("topic", None, "replicas.topic is missing "),
        ("topic", "x" * 5000, "replicas.topic has a string of 5000 bytes"),
    ],
)
def test_values_that_cannot_be_are_refused_by_name_when_read_and_when_written(
    column: str, value: Any, words: str
) -> None:
    row = dict(zip(REPLICAS.names, ("orders", 1, "/d", 10, 1.0, True), strict=True))
    bad = replicas([tuple((row | {column: value}).values()), tuple(row.values())])

    reason, message = poison(record(rows=bad))
    assert (reason, message[: len(words)]) == ("Invalid", words)
    with pytest.raises(Poison, match=words.replace(".", r"\.")):
        encode(sample(replicas=bad))


def test_a_column_of_another_type_is_refused_by_name() -> None:
    rows = sample().replicas
    rows = rows.set_column(3, "bytes", rows["bytes"].cast(pa.float64()))

    assert poison(record(rows=rows)) == ("Invalid", "replicas.bytes has type double instead of int64")


def _swollen(section: bytes, plain: int) -> bytes:
    """The same section, its largest compressed buffer saying that it becomes so many bytes."""
    sizes = [struct.unpack_from("<q", section, at)[0] for at in range(0, len(section) - 8, 8)]
    frames = [at for at in range(8, len(section) - 12) if section[at : at + 4] == b"\x28\xb5\x2f\xfd"]
    at = max((each for each in frames if each % 8 == 0), key=lambda each: sizes[each // 8 - 1]) - 8
    return section[:at] + struct.pack("<q", plain) + section[at + 8 :]


@pytest.mark.parametrize("plain", [LARGEST_CONTENT + 1, 2**40, 2**62])
def test_a_buffer_that_says_it_becomes_huge_is_never_made(plain: int) -> None:
    section = _swollen(pack(many(2_000, topics=10)), plain)
    value = seal(VERSION, [json.dumps(HEAD).encode(), section, pack(sample().disks)])

    before = pa.total_allocated_bytes()
    assert poison(value) == ("TooLarge", f"its content needs more than {LARGEST_CONTENT} bytes")
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_few_bytes_that_become_many_are_not_read() -> None:
    zeros = pa.record_batch({"zeros": pa.array([b"\0" * (LARGEST_CONTENT + 1)])})
    section = pack(zeros)
    assert len(section) < 100_000

    value = seal(VERSION, [json.dumps(HEAD).encode(), section, pack(sample().disks)])
    assert poison(value)[0] == "TooLarge"


def test_rows_without_content_are_not_filled_with_nulls() -> None:
    rows = pa.record_batch({"other": pa.Array.from_buffers(pa.null(), 2**31 - 1, [None])})

    assert poison(record(rows=rows))[0] == "TooLarge"


def test_the_checksum_covers_the_lengths() -> None:
    value = bytearray(encode(sample()))
    length = int.from_bytes(value[12:16], "little")
    assert length % 8
    value[12:16] = (length + 1).to_bytes(4, "little")  # the padding hides it
    assert poison(bytes(value))[0] == "Damaged"

    value[8:12] = zlib.crc32(value[12:]).to_bytes(4, "little")
    assert poison(bytes(value))[0] == "Invalid"


def test_sections_begin_where_arrow_wants_them() -> None:
    sections = [b"a" * size for size in (0, 1, 7, 8, 9)]
    version, found = unseal(seal(Version(1, 2), sections), 1)

    assert version == (1, 2)
    assert [bytes(each) for each in found] == sections
    value = seal(Version(1, 2), sections)
    assert [value.index(b"a" * 8) % 8, value.rindex(b"a" * 9) % 8, len(value) % 8] == [0, 0, 0]


def test_parts_of_one_sample_are_told_apart() -> None:
    part = dataclasses.replace(sample(), part=1, parts=3, disks=disks())

    assert decode(encode(part)) == part
