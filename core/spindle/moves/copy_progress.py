"""How far each copy between brokers was, and since when: what a copy that stands still is told by.

Bytes are noted at most once a minute, since each note is a write of the journal; that is exact enough for minutes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

NOTED_EVERY: Final = 60.0  # seconds
STALLED_AFTER: Final = 300.0  # seconds without a byte


@dataclass(frozen=True)
class CopyProgress:
    """What was copied of one replica.

    Attributes:
        broker: that it is copied to.
        copied: bytes that stood there when that was noted.
        since: when it was noted, in seconds since the epoch; a copy that gets on is noted again after a minute.
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
    """What is on record about copies from now on.

    Args:
        before: what was on record.
        copies: (topic, partition, broker, bytes that stand there) of each copy that is under way.
        now: seconds since the epoch; 0 where nobody knows, and then nothing is noted.
    """
    known = {entry.id: entry for entry in before}
    found = [CopyProgress(*copy, since=now) for copy in copies] if now else []
    further = [
        entry for entry in found if (old := known.get(entry.id)) is not None and old.copied != entry.copied
    ]
    # Those that got on are noted together: a write for each would be a write in every pass.
    due = {entry.id for entry in further if any(now - known[e.id].since >= NOTED_EVERY for e in further)}
    return tuple(
        entry if entry.id not in known or entry.id in due else known[entry.id]
        for entry in sorted(found, key=lambda entry: entry.id)
    )


def is_stalled(noted: CopyProgress, copied: int, now: float) -> bool:
    """Whether a copy has not got on for so long that a person should look."""
    return noted.copied == copied and now - noted.since >= STALLED_AFTER


def write_copy_progress(entries: Iterable[CopyProgress]) -> list[list[Any]]:
    """As the journal has them."""
    return [[e.topic, e.partition, e.broker, e.copied, e.since] for e in entries]


def read_copy_progress(found: Iterable[Iterable[Any]]) -> tuple[CopyProgress, ...]:
    """Read what `write_copy_progress` wrote."""
    return tuple(
        CopyProgress(str(topic), int(index), int(broker), int(copied), float(since))
        for topic, index, broker, copied, since in found
    )
