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
_HEADER_TYPE, _HEADER, _LENGTH = 1, 2, 3  # fields of Message
_DATA: Final = 1  # field of DictionaryBatch: a RecordBatch
_BUFFERS, _COMPRESSION = 2, 3  # fields of RecordBatch
_NOT_COMPRESSED: Final = -1  # instead of a buffer's length
_START: Final = struct.Struct("<Ii")  # before each message: a mark, and the length of its metadata
_MARK: Final = 0xFFFFFFFF
END: Final = _START.pack(_MARK, 0)  # of a stream


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


def before_batch(stream: bytes) -> int:
    """Position of a stream's first record batch: what is before it are the schema and the dictionaries.

    Raises:
        Poison: ``Malformed`` if there is none.
    """
    place = 0
    while True:
        kind, _, end = _message(stream, place)
        if kind == _BATCH:
            return place
        place = end


def batch_size(stream: bytes, place: int) -> int:
    """Bytes that the record batch at this position needs when it is read; nothing but the end of the stream may follow it.

    Raises:
        Poison: ``Malformed`` if something else is there.
    """
    kind, start, end = _message(stream, place)
    if kind != _BATCH or stream[end:] != END:
        raise Poison("Malformed", "the stream does not end after its record batch")
    metadata = stream[place + _START.size : start]
    _, table = _header(metadata)
    return _batch(metadata, table, memoryview(stream)[start:end])


def _message(stream: bytes, place: int) -> tuple[int, int, int]:
    """Kind of the message at this position, and where its body starts and ends."""
    try:
        mark, size = _START.unpack_from(stream, place)
        start = place + _START.size + size
        if mark != _MARK or size <= 0 or start > len(stream):
            raise Poison("Malformed", "no Arrow message where one should be")
        metadata = stream[place + _START.size : start]
        kind, _ = _header(metadata)
        field = _field(metadata, _unsigned(metadata, 0), _LENGTH)
        (length,) = struct.unpack_from("<q", metadata, field) if field else (0,)
    except (struct.error, IndexError) as error:
        raise Poison("Malformed", f"not an Arrow stream: {error}") from None
    if not 0 <= length <= len(stream) - start:
        raise Poison("Malformed", f"an Arrow message of {length} bytes")
    return kind, start, start + length


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
