"""When a finding is confirmed: after a second read of the same unchanged files, some time later.

Kafka deletes segments, merges them during compaction, truncates logs and renames files, all while they are being read, so a single read can
show a state that never existed. A disk fault is still there half a minute later, in files that have not been changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spindle.scrub.segment_errors import SegmentError

CONFIRM_AFTER: Final = 30.0  # seconds between the two reads
AGAIN_AFTER: Final = 3600.0  # seconds after which a confirmed finding is checked again

SegmentIdentity = tuple[tuple[int, ...], ...]
"""For each of a segment's files: inode, size and time of the last write (ns); an empty one for a missing file."""


@dataclass(frozen=True, order=True)
class SegmentPlace:
    """A segment on one disk."""

    folder: str
    base: int


@dataclass(frozen=True)
class SegmentProblem:
    """A corrupt segment.

    Attributes:
        since: when the corruption was first found, in seconds since the epoch.
        looked: when it was last found.
    """

    place: SegmentPlace
    identity: SegmentIdentity
    finds: tuple[SegmentError, ...]
    since: float
    replica_index: float


class Confirmations:
    """Findings of one disk: suspected after the first read, confirmed after the second."""

    def __init__(self, confirm_after: float = CONFIRM_AFTER) -> None:
        self._confirm_after = confirm_after
        self._suspects: dict[SegmentPlace, SegmentProblem] = {}
        self._troubles: dict[SegmentPlace, SegmentProblem] = {}

    @property
    def troubles(self) -> tuple[SegmentProblem, ...]:
        """Confirmed findings, sorted."""
        return tuple(self._troubles[place] for place in sorted(self._troubles))

    @property
    def suspects(self) -> tuple[SegmentProblem, ...]:
        """Findings of a single read, sorted."""
        return tuple(self._suspects[place] for place in sorted(self._suspects))

    def recall(self, troubles: Sequence[SegmentProblem], suspects: Sequence[SegmentProblem] = ()) -> None:
        """Restore the findings from before a restart; they are checked again soon."""
        for trouble in troubles:
            self._troubles.setdefault(trouble.place, replace(trouble, replica_index=0.0))
        for suspect in suspects:
            if suspect.place not in self._troubles:
                self._suspects.setdefault(suspect.place, replace(suspect, replica_index=suspect.since))

    def settled(self, place: SegmentPlace) -> bool:
        """Whether nothing is pending about a segment that was read: it has no finding, or a confirmed one."""
        return place not in self._suspects

    def saw(
        self, place: SegmentPlace, identity: SegmentIdentity, finds: Sequence[SegmentError], now: float
    ) -> bool:
        """Record a read of a segment whose files did not change meanwhile; returns whether the confirmed findings changed."""
        known = self._troubles.get(place)
        if known is not None:
            return self._looked_again(known, identity, finds, now)
        before = self._suspects.pop(place, None)
        if not finds:
            return False
        if (
            before is None or before.identity != identity or now < before.replica_index
        ):  # the clock was set back
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
            return False
        if now - before.replica_index < self._confirm_after:
            self._suspects[place] = before
            return False
        both = _in_both(before.finds, finds)
        if not both:
            # A different finding each time: not a permanent fault of the disk.
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
            return False
        self._troubles[place] = SegmentProblem(place, identity, both, before.since, now)
        return True

    def gone(self, place: SegmentPlace) -> bool:
        """Forget a segment that was deleted or is active again; returns whether the confirmed findings changed."""
        self._suspects.pop(place, None)
        return self._troubles.pop(place, None) is not None

    def touched(self, place: SegmentPlace, identity: SegmentIdentity) -> bool:
        """Whether a segment's files have changed since a finding in them."""
        known = self._troubles.get(place) or self._suspects.get(place)
        return known is not None and known.identity != identity

    def about(self, folder: str) -> bool:
        """Whether a partition's directory has any finding, confirmed or suspected."""
        return any(place.folder == folder for place in (*self._troubles, *self._suspects))

    def due(self, now: float) -> list[SegmentPlace]:
        """The segments to read again now."""
        found = [p for p, t in self._suspects.items() if not 0 <= now - t.replica_index < self._confirm_after]
        found += [p for p, t in self._troubles.items() if not 0 <= now - t.replica_index < AGAIN_AFTER]
        return sorted(found)

    def _looked_again(
        self, known: SegmentProblem, identity: SegmentIdentity, finds: Sequence[SegmentError], now: float
    ) -> bool:
        place = known.place
        if finds and known.identity == identity:
            self._troubles[place] = replace(known, replica_index=now)
            return False
        del self._troubles[place]
        if finds:
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
        return True


def _in_both(first: Sequence[SegmentError], second: Sequence[SegmentError]) -> tuple[SegmentError, ...]:
    seen = {(find.kind, find.file, find.position) for find in first}
    return tuple(find for find in second if (find.kind, find.file, find.position) in seen)
