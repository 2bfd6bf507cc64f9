"""Segments as Kafka writes them, made with kafka-python's own builder of batches."""

import struct
from dataclasses import dataclass, field

import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from spindle.scrub.batches import SegmentBounds
from spindle.scrub.segment import SegmentCheck
from spindle.scrub.segment_errors import SegmentError

HEAD = 61


@dataclass
class Log:
    """One segment with its indexes; ``starts`` are the positions of its batches."""

    base: int
    end: int
    data: bytes
    offsets: bytes = b""
    times: bytes = b""
    starts: list[int] = field(default_factory=list)
    epoch_before: int | None = None
    epoch_after: int | None = None

    def check(
        self,
        data: bytes | None = None,
        offsets: bytes | None = None,
        times: bytes | None = None,
        piece: int = 4096,
    ) -> tuple[SegmentError, ...]:
        """What is found if one of the files is this instead."""
        log = self.data if data is None else data
        bounds = SegmentBounds(self.base, self.end, len(log), self.epoch_before, self.epoch_after)
        check = SegmentCheck(
            bounds,
            self.offsets if offsets is None else offsets,
            self.times if times is None else times,
            crc32c.crc32c,
        )
        for at in range(0, len(log), piece):
            check.feed(memoryview(log)[at : at + piece])
        return check.finish()


def batch(base: int, values: list[bytes], *, epoch: int = 0, time: int = 1000, codec: int = 0) -> bytes:
    """A batch as it lies on a broker's disk: with its first offset and the leader's epoch."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24)
    for number, value in enumerate(values):
        assert builder.append(number, time + number, b"key", value, []) is not None
    made = bytearray(builder.build())
    struct.pack_into(">q", made, 0, base)
    struct.pack_into(">i", made, 12, epoch)
    return bytes(made)


def log(
    batches: list[list[bytes]],
    *,
    base: int = 0,
    epochs: list[int] | None = None,
    interval: int = 0,
    codec: int = 0,
) -> Log:
    """A segment of contiguous batches, indexed as ``LogSegment.append`` does it (KAFKA 4.3)."""
    data, offsets, times = bytearray(), bytearray(), bytearray()
    starts: list[int] = []
    offset, since, latest, latest_at = base, 0, -1, base
    for number, values in enumerate(batches):
        time = 1000 + 10 * offset
        made = batch(offset, values, epoch=epochs[number] if epochs else 0, time=time, codec=codec)
        last = offset + len(values) - 1
        if time + len(values) - 1 > latest:
            latest, latest_at = time + len(values) - 1, last
        if since > interval:
            offsets += struct.pack(">ii", last - base, len(data))
            if not times or struct.unpack_from(">q", times, len(times) - 12)[0] < latest:
                times += struct.pack(">qi", latest, latest_at - base)
            since = 0
        starts.append(len(data))
        data += made
        since += len(made)
        offset = last + 1
    if latest >= 0 and (not times or struct.unpack_from(">q", times, len(times) - 12)[0] < latest):
        times += struct.pack(">qi", latest, latest_at - base)
    return Log(base, offset, bytes(data), bytes(offsets), bytes(times), starts)
