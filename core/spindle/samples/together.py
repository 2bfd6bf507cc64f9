"""Reads sections of many records at once: those of one broker mostly have the same schema and the same dictionaries.

To open a stream and to check its columns costs as much as its thousand rows. Sections that begin with the same bytes up to their record batch are
one stream if their batches are put behind each other; it is opened and checked once. What is not exactly as
Spindle's agents write it is left to `codec.decode`, which reads each record alone and says what is wrong with it.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyarrow import ipc

from spindle.samples.framing import Poison
from spindle.samples.messages import END, batch_size, before_batch, expanded
from spindle.samples.schema import check_rows, check_table

_AT_ONCE: Final = 64 * 1024 * 1024  # bytes of all columns that are read at once


class _Alike:
    """Sections with the same beginning."""

    def __init__(self, beginning: bytes, size: int) -> None:
        self.beginning, self.size = beginning, size  # size: bytes of its dictionaries when they are read
        self.left = _AT_ONCE - size
        self.members: list[int] = []
        self.batches: list[bytes] = []

    def add(self, index: int, section: bytes) -> bool:
        """Add a section; False if it does not fit any more. Raises Poison if it is not one of these."""
        place = len(self.beginning)
        need = batch_size(section, place)
        if need > self.left:
            return False
        self.left -= need
        self.members.append(index)
        self.batches.append(section[place : -len(END)])
        return True


def read_together(table: str, schema: Any, most: int, sections: Sequence[bytes]) -> list[Any]:
    """The batches of sections, checked; None for those that have to be read alone.

    Args:
        table: name of the table, for messages.
        schema: its columns.
        most: maximum rows of one section.
        sections: Arrow streams.
    """
    found: list[Any] = [None] * len(sections)
    for alike in _groups(sections):
        if len(alike.members) > 1:
            batches = _read(table, schema, most, alike)
            for index, batch in zip(alike.members, batches, strict=False):  # none if one of them is unusable
                found[index] = batch
    return found


def _groups(sections: Sequence[bytes]) -> Iterator[_Alike]:
    latest: dict[bytes, _Alike] = {}
    done: list[_Alike] = []
    last = b""
    for index, section in enumerate(sections):
        try:
            if not last or not section.startswith(last):
                last = section[: before_batch(section)]
            if last not in latest:
                latest[last] = _Alike(
                    last, expanded(pa.py_buffer(section), _AT_ONCE) - batch_size(section, len(last))
                )
            if not latest[last].add(index, section):
                done.append(latest[last])
                latest[last] = _Alike(last, latest[last].size)
                latest[last].add(index, section)
        except (Poison, struct.error, IndexError):
            continue
    yield from done
    yield from latest.values()


def _read(table: str, schema: Any, most: int, alike: _Alike) -> list[Any]:
    """Its batches; none if one of them is unusable."""
    options = ipc.IpcReadOptions(use_threads=False, ensure_alignment=ipc.Alignment.DataTypeSpecific)
    stream = pa.py_buffer(b"".join((alike.beginning, *alike.batches, END)))
    try:
        reader = ipc.open_stream(stream, options=options)
        if [reader.schema.field(name).type for name in schema.names] != schema.types:
            return []
        own = reader.schema.names == schema.names
        found = []
        for _ in alike.members:
            batch = reader.read_next_batch()
            check_rows(table, batch, most)
            columns = batch.columns if own else [batch.column(name) for name in schema.names]
            found.append(pa.RecordBatch.from_arrays(columns, schema=schema))
        check_table(table, pa.Table.from_batches(found), schema, most * len(found))
    except (pa.ArrowException, OSError, ValueError, KeyError, StopIteration):  # a Poison is a ValueError
        return []
    return found
