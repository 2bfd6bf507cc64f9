"""Computes how much memory an Arrow stream needs when it is read, from its bytes and before decoding.

pyarrow allocates the size that a compressed buffer claims, and zstd can expand some kilobytes to gigabytes.
So the sizes are read first, from the flatbuffers before each body. Their layout is in Arrow's
``format/Message.fbs``; a field of a table is found through the table's *vtable*.
"""

import struct
from typing import Any, Final

from pyarrow import ArrowException
from pyarrow.ipc import MessageReader

from spindle.samples.framing import Poison

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3  # MessageHeader, a union
_HEADER_TYPE, _HEADER = 1, 2  # fields of Message
_DATA: Final = 1  # field of DictionaryBatch: a RecordBatch
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_NOT_COMPRESSED: Final = -1  # instead of a buffer's length


def expanded(stream: Any, most: int) -> int:
    """Bytes that the bodies of a stream with one batch need when they are read.

    Args:
        stream: a pyarrow Buffer.
        most: maximum bytes.

    Raises:
        Poison: ``TooLarge`` if it needs more; ``Malformed`` if it cannot be parsed, or has more than one batch.
    """
    total, batches = 0, 0
    try:
        reader = MessageReader.open_stream(stream)
        while (message := _next(reader)) is not None:
            metadata, body = bytes(message.metadata), memoryview(message.body or b"")
            kind, table = _header(metadata)
            if kind == _DICTIONARY:
                table = _child(metadata, table, _DATA)
            elif kind == _BATCH:
                batches += 1
            elif kind != _SCHEMA:
                raise Poison("Malformed", f"an unexpected Arrow message of kind {kind}")
            total += len(body) if kind == _SCHEMA else _batch(metadata, table, body)
            if total > most:
                raise Poison("TooLarge", f"its content needs more than {most} bytes")
    except (struct.error, IndexError, ArrowException, OSError, ValueError) as error:
        raise (
            error if isinstance(error, Poison) else Poison("Malformed", f"not an Arrow stream: {error}")
        ) from None
    if batches != 1:
        raise Poison("Malformed", f"{batches} record batches in a section that must have one")
    return total


def _next(reader: Any) -> Any:
    try:
        return reader.read_next_message()
    except StopIteration:
        return None


def _header(metadata: bytes) -> tuple[int, int]:
    """The kind of a message, and the position of its header."""
    root = _unsigned(metadata, 0)
    place = _field(metadata, root, _HEADER_TYPE)
    return metadata[place] if place else 0, _child(metadata, root, _HEADER)


def _batch(metadata: bytes, table: int, body: memoryview) -> int:
    """Bytes of all buffers of a RecordBatch."""
    if not _field(metadata, table, _COMPRESSION):
        return len(body)
    vector = _child(metadata, table, _BUFFERS)
    total = 0
    for index in range(_unsigned(metadata, vector)):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * index)
        if not 0 <= offset <= offset + length <= len(body):
            raise Poison("Malformed", "a buffer is outside its message")
        if length:
            (plain,) = struct.unpack_from("<q", body, offset)
            if plain < _NOT_COMPRESSED:
                raise Poison("Malformed", f"a buffer of {plain} bytes")
            total += length if plain == _NOT_COMPRESSED else plain
    return total


def _child(data: bytes, table: int, field: int) -> int:
    """Position of the table or vector that a field refers to."""
    place = _field(data, table, field)
    if not place:
        raise Poison("Malformed", "an Arrow message without its content")
    return place + _unsigned(data, place)


def _field(data: bytes, table: int, field: int) -> int:
    """Position of a table's field; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    index = table - back
    if index < 0:
        raise Poison("Malformed", "an invalid offset")
    (size,) = struct.unpack_from("<H", data, index)
    entry = 4 + 2 * field
    if entry + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, index + entry)
    return table + offset if offset else 0


def _unsigned(data: bytes, place: int) -> int:
    (value,) = struct.unpack_from("<I", data, place)
    return int(value)
