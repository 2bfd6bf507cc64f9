"""Encodes a sample as the value of a Kafka record, and decodes it.

A record has three sections (`framing`): a head as JSON, its replicas, and its disks, the latter two as Arrow IPC streams
of one batch. The buffers of replicas are compressed with zstd; those of the few disks are not, because decompressing them would cost a reader as
much as a thousand replicas. Readers accept both. Additions of a newer minor version (keys, columns, sections) are ignored;
values missing in an older one are null. `decode` raises only `Poison`, whatever the bytes are.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import pyarrow as pa
from pyarrow import ipc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from spindle.samples.framing import Poison, Version, seal, unseal
from spindle.samples.messages import expanded
from spindle.samples.schema import TABLES, VERSION, Sample, check, check_head, check_rows
from spindle.samples.together import read_together

__all__ = ["LARGEST_CONTENT", "Poison", "Sample", "decode", "decode_all", "encode"]

LARGEST_CONTENT: Final = 128 * 1024 * 1024  # bytes of all columns: three times a million replicas
_SECTIONS: Final = 3
_LONGEST_HEAD: Final = 65536


class _Head(BaseModel):
    """The first section, the head."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    cluster_id: Annotated[str, Field(max_length=4096)]
    broker: int
    rack: str
    at_ms: int
    interval_s: float
    part: int = 0
    parts: int = 1


def encode(sample: Sample) -> bytes:
    """Encode a record's value in the current version, whatever version the sample came in.

    Raises:
        Poison: the sample is invalid; no reader would accept it.
    """
    check(sample)
    head = _Head(**{name: getattr(sample, name) for name in _Head.model_fields})
    return seal(VERSION, [head.model_dump_json().encode(), pack(sample.replicas), pack(sample.disks, None)])


def pack(batch: Any, compression: str | None = "zstd") -> bytes:
    """A batch of rows as one section; ``compression`` is Arrow's name of the codec."""
    sink = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def decode(value: bytes) -> Sample:
    """Decode a record's sample. Its columns are those of the schema, in that order.

    Raises:
        Poison: the record is unusable, with the reason and a description.
    """
    version, head, sections = _opened(value)
    left = LARGEST_CONTENT
    batches = []
    for (name, schema, most), section in zip(TABLES, sections, strict=True):
        # Uncompressed columns reference the stream; copy them so that they do not keep the whole record in memory.
        stream = pa.py_buffer(bytes(section))
        left -= expanded(stream, left)
        batches.append(_rows(name, stream, schema, most))
    sample = Sample(version=version, replicas=batches[0], disks=batches[1], **head.model_dump())
    check(sample)
    return sample


def decode_all(values: Sequence[bytes]) -> list[Sample | Poison]:
    """`decode` of each record, or what it raises; much faster for many records of the same broker."""
    found: list[Sample | Poison | None] = [None] * len(values)
    opened: dict[int, tuple[Version, _Head, list[memoryview]]] = {}
    for index, value in enumerate(values):
        try:
            opened[index] = _opened(value)
        except Poison as error:
            found[index] = error
    tables = [
        read_together(name, schema, most, [bytes(sections[place]) for _, _, sections in opened.values()])
        for place, (name, schema, most) in enumerate(TABLES)
    ]
    for (index, (version, head, _)), replicas, disks in zip(opened.items(), *tables, strict=True):
        try:
            if replicas is None or disks is None:
                found[index] = decode(values[index])
                continue
            sample = Sample(version=version, replicas=replicas, disks=disks, **vars(head))
            check_head(sample)
            found[index] = sample
        except Poison as error:
            found[index] = error
    return [each for each in found if each is not None]


def _opened(value: bytes) -> tuple[Version, _Head, list[memoryview]]:
    """Version, head, and the sections of the tables. Raises Poison."""
    version, sections = unseal(value, VERSION.major)
    if len(sections) < _SECTIONS:
        raise Poison("Malformed", f"{len(sections)} sections instead of {_SECTIONS}")
    return version, _head(sections[0]), sections[1:_SECTIONS]


def _head(section: memoryview) -> _Head:
    if len(section) > _LONGEST_HEAD:
        raise Poison("TooLarge", f"a head of {len(section)} bytes; the limit is {_LONGEST_HEAD}")
    try:
        return _Head.model_validate_json(bytes(section))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Poison("Invalid", f"head{'.' if where else ''}{where}: {first['msg']}") from None


def _rows(name: str, stream: Any, schema: Any, most: int) -> Any:
    """The known columns of a section, with nulls for missing ones."""
    options = ipc.IpcReadOptions(use_threads=False, ensure_alignment=ipc.Alignment.DataTypeSpecific)
    try:
        reader = ipc.open_stream(stream, options=options)
        found = {field.name: index for index, field in enumerate(reader.schema)}
        batch = reader.read_next_batch()
        check_rows(name, batch, most)  # before nulls are created for that many rows
        columns = [_column(name, batch, found.get(field.name), field) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except Poison:
        raise
    except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
        raise Poison("Malformed", f"{name}: {error}") from None


def _column(name: str, batch: Any, place: int | None, field: Any) -> Any:
    if place is not None:
        column = batch.column(place)
        if column.type != field.type:
            raise Poison("Invalid", f"{name}.{field.name} has type {column.type} instead of {field.type}")
        return column
    if not field.nullable:
        raise Poison("Invalid", f"{name} has no column {field.name}")
    return pa.nulls(batch.num_rows, field.type)
