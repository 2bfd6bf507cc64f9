"""Progress of each copy between brokers with its time, from which a stalled copy is detected.

Bytes are recorded at most once a minute, because each record is a write of the journal; minutes need no more precision.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NOTED_EVERY: Final = 60.0  # seconds
STALLED_AFTER: Final = 300.0  # seconds without a byte


@dataclass(frozen=True)
class CopyProgress:
    """Recorded progress of the copy of one replica.

    Attributes:
        broker: target of the copy.
        copied: bytes on the target at the time of the record.
        since: time of the record in seconds since the epoch; a copy that progresses is recorded again after a minute.
    """

    topic: str
    partition: int
    broker: int
    copied: int
    since: float

    @property
    def id(self) -> tuple[str, int, int]:
        """(topic, partition, broker)."""
        return self.topic, self.partition, self.broker


def track_copies(
    before: Iterable[CopyProgress], copies: Iterable[tuple[str, int, int, int]], now: float
) -> tuple[CopyProgress, ...]:
    """The next record of all copies.

    Args:
        before: the previous record.
        copies: (topic, partition, broker, bytes on the target) of each running copy.
        now: seconds since the epoch; 0 if unknown, and then nothing is recorded.
    """
    known = {entry.id: entry for entry in before}
    found = [CopyProgress(*copy, since=now) for copy in copies] if now else []
    further = [
        entry for entry in found if (old := known.get(entry.id)) is not None and old.copied != entry.copied
    ]
    # Copies that progressed are recorded together: recording each by itself would write the journal in every reconciliation.
    due = {entry.id for entry in further if any(now - known[e.id].since >= NOTED_EVERY for e in further)}
    return tuple(
        entry if entry.id not in known or entry.id in due else known[entry.id]
        for entry in sorted(found, key=lambda entry: entry.id)
    )


def is_stalled(noted: CopyProgress, copied: int, now: float) -> bool:
    """Whether a copy has made no progress for so long that it must be reported to the user."""
    return noted.copied == copied and now - noted.since >= STALLED_AFTER


def write_copy_progress(entries: Iterable[CopyProgress]) -> list[list[Any]]:
    """The entries in the format of the journal."""
    return [[e.topic, e.partition, e.broker, e.copied, e.since] for e in entries]


def read_copy_progress(found: Iterable[Iterable[Any]]) -> tuple[CopyProgress, ...]:
    """Parse the output of `write_copy_progress`."""
    return tuple(
        CopyProgress(str(topic), int(index), int(broker), int(copied), float(since))
        for topic, index, broker, copied, since in found
    )
