"""When a find is believed: after a second read, a while later, of the very same files.

Kafka deletes segments, merges them when it compacts, cuts logs short, and swaps files by name, all while they are being read. Whoever
reads then sees what never was. What is wrong with a disk is still wrong half a minute later, in files that nobody has touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from spindle.scrub.segment_errors import SegmentError

CONFIRM_AFTER: Final = 30.0  # seconds between the two reads
AGAIN_AFTER: Final = 3600.0  # seconds after which a find that is believed is looked for again

SegmentIdentity = tuple[tuple[int, ...], ...]
"""Of each of a segment's files in turn: inode, size and time of the last write (ns); an empty one for a file that is not there."""


@dataclass(frozen=True, order=True)
class SegmentPlace:
    """A segment on one disk."""

    folder: str
    base: int


@dataclass(frozen=True)
class SegmentProblem:
    """A segment that is corrupt.

    Attributes:
        since: when that was first seen, in seconds since the epoch.
        last_seen: when it was last seen.
    """

    place: SegmentPlace
    identity: SegmentIdentity
    finds: tuple[SegmentError, ...]
    since: float
    last_seen: float


class Confirmations:
    """What was found on one disk: suspected first, believed after the second look."""

    def __init__(self, confirm_after: float = CONFIRM_AFTER) -> None:
        self._confirm_after = confirm_after
        self._suspects: dict[SegmentPlace, SegmentProblem] = {}
        self._troubles: dict[SegmentPlace, SegmentProblem] = {}

    @property
    def troubles(self) -> tuple[SegmentProblem, ...]:
        """What is believed, in order."""
        return tuple(self._troubles[place] for place in sorted(self._troubles))

    @property
    def suspects(self) -> tuple[SegmentProblem, ...]:
        """What was seen once, in order."""
        return tuple(self._suspects[place] for place in sorted(self._suspects))

    def recall(self, troubles: Sequence[SegmentProblem], suspects: Sequence[SegmentProblem] = ()) -> None:
        """What was believed, and suspected, before a restart; it is looked for again before long."""
        for trouble in troubles:
            self._troubles.setdefault(trouble.place, replace(trouble, last_seen=0.0))
        for suspect in suspects:
            if suspect.place not in self._troubles:
                self._suspects.setdefault(suspect.place, replace(suspect, last_seen=suspect.since))

    def settled(self, place: SegmentPlace) -> bool:
        """Whether nothing is open about a segment that was read: nothing was found, or what was found is believed."""
        return place not in self._suspects

    def saw(
        self, place: SegmentPlace, identity: SegmentIdentity, finds: Sequence[SegmentError], now: float
    ) -> bool:
        """A segment was read, of files that did not change meanwhile; returns whether what is believed has changed."""
        known = self._troubles.get(place)
        if known is not None:
            return self._looked_again(known, identity, finds, now)
        before = self._suspects.pop(place, None)
        if not finds:
            return False
        if (
            before is None or before.identity != identity or now < before.last_seen
        ):  # a clock that was set back
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
            return False
        if now - before.last_seen < self._confirm_after:
            self._suspects[place] = before
            return False
        both = _in_both(before.finds, finds)
        if not both:
            # Another thing each time: whatever it is, it is not on the disk for good.
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
            return False
        self._troubles[place] = SegmentProblem(place, identity, both, before.since, now)
        return True

    def gone(self, place: SegmentPlace) -> bool:
        """A segment is no more, or is active again; returns whether what is believed has changed."""
        self._suspects.pop(place, None)
        return self._troubles.pop(place, None) is not None

    def touched(self, place: SegmentPlace, identity: SegmentIdentity) -> bool:
        """Whether a segment's files are others than those that something was found in."""
        known = self._troubles.get(place) or self._suspects.get(place)
        return known is not None and known.identity != identity

    def about(self, folder: str) -> bool:
        """Whether anything in a partition's folder is believed, or suspected."""
        return any(place.folder == folder for place in (*self._troubles, *self._suspects))

    def due(self, now: float) -> list[SegmentPlace]:
        """What is to be read again now."""
        found = [p for p, t in self._suspects.items() if not 0 <= now - t.last_seen < self._confirm_after]
        found += [p for p, t in self._troubles.items() if not 0 <= now - t.last_seen < AGAIN_AFTER]
        return sorted(found)

    def _looked_again(
        self, known: SegmentProblem, identity: SegmentIdentity, finds: Sequence[SegmentError], now: float
    ) -> bool:
        place = known.place
        if finds and known.identity == identity:
            self._troubles[place] = replace(known, last_seen=now)
            return False
        del self._troubles[place]
        if finds:
            self._suspects[place] = SegmentProblem(place, identity, tuple(finds), now, now)
        return True


def _in_both(first: Sequence[SegmentError], second: Sequence[SegmentError]) -> tuple[SegmentError, ...]:
    seen = {(find.kind, find.file, find.position) for find in first}
    return tuple(find for find in second if (find.kind, find.file, find.position) in seen)
