"""The queue of records to send; the oldest are dropped if there are too many."""

from collections import deque
from typing import Final

MOST_RECORDS: Final = 2016  # a week with one record in five minutes
MOST_BYTES: Final = 16 * 1024 * 1024


class Backlog:
    """Records in the order of their creation.

    Attributes:
        kept, bytes: current number of records and their size.
        dropped: number of records dropped since the start.
    """

    def __init__(self, most_records: int = MOST_RECORDS, most_bytes: int = MOST_BYTES) -> None:
        self._most_records = most_records
        self._most_bytes = most_bytes
        self._records: deque[tuple[int, bytes]] = deque()
        self.bytes = 0
        self.dropped = 0

    @property
    def kept(self) -> int:
        """Number of records."""
        return len(self._records)

    def add(self, at_ms: int, record: bytes) -> None:
        """Add a record. The oldest records are dropped to make space; a record that is too large by itself is dropped too."""
        self._records.append((at_ms, record))
        self.bytes += len(record)
        while self._records and (self.kept > self._most_records or self.bytes > self._most_bytes):
            self._drop()

    def first(self, most: int) -> list[tuple[int, bytes]]:
        """The oldest records as (creation time, value)."""
        return [self._records[index] for index in range(min(most, self.kept))]

    def sent(self, records: list[tuple[int, bytes]]) -> None:
        """Remove sent records; some may have been dropped in the meantime."""
        gone = {id(value) for _, value in records}
        while self._records and id(self._records[0][1]) in gone:
            self.bytes -= len(self._records.popleft()[1])

    def _drop(self) -> None:
        self.bytes -= len(self._records.popleft()[1])
        self.dropped += 1
