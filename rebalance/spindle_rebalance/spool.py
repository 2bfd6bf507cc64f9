"""Keeps records by broker until all have been read: in memory up to a limit, the others in a temporary file."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import numpy as np
import pyarrow as pa

IN_MEMORY: Final = 64 * 1024 * 1024  # bytes


class Spool:
    """Records of many brokers. A context manager: it deletes its file."""

    def __init__(self, folder: Path | None = None, in_memory: int = IN_MEMORY) -> None:
        """Start empty.

        Args:
            folder: for the file; None for the system's temporary folder.
            in_memory: bytes that are not written to the file.
        """
        self._folder, self._in_memory = folder, in_memory
        self._held: dict[int, list[pa.RecordBatch]] = {}
        self._size = 0
        self._file: IO[bytes] | None = None
        self._written: dict[int, list[tuple[IO[bytes], int, int]]] = {}

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Delete the file."""
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep the records of a batch; its column ``broker`` says whose they are."""
        brokers = batch.column("broker").to_numpy()
        order = np.argsort(brokers, kind="stable")
        ordered = brokers[order]
        cuts = np.flatnonzero(np.diff(ordered)) + 1
        for rows in np.split(order, cuts) if len(order) else ():
            mine = batch.take(pa.array(rows))
            self._held.setdefault(int(brokers[rows[0]]), []).append(mine)
            self._size += mine.nbytes
        if self._size > self._in_memory:
            self._write()

    def brokers(self) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
        """Each broker and its records in the order in which they came; they can be taken once."""
        for broker in sorted(self._held.keys() | self._written.keys()):
            yield broker, self._records(broker)

    def _records(self, broker: int) -> Iterator[pa.RecordBatch]:
        for file, place, length in self._written.pop(broker, ()):
            with pa.ipc.open_stream(os.pread(file.fileno(), length, place)) as stream:
                yield stream.read_next_batch()
        held = self._held.pop(broker, ())
        if held:
            yield _one(held)

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed with this object
        for broker in sorted(self._held):
            batch = _one(self._held[broker])
            place = self._file.tell()
            with pa.ipc.new_stream(self._file, batch.schema) as stream:
                stream.write_batch(batch)
            self._written.setdefault(broker, []).append((self._file, place, self._file.tell() - place))
        self._file.flush()
        self._held, self._size = {}, 0


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """All of them as one."""
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
