"""Which segment is checked next, and how much of a disk was checked: times of checks by partition and range of offsets.

Consecutive segments that were checked at about the same time form one entry (a run), so that a disk with a hundred thousand segments needs
a few entries per partition; segments that were rolled since the last complete check have one entry each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spindle.scrub.catalog import Segment

SETTLED: Final = 120.0  # seconds without a write after which a segment may be checked: by then its last writes are on the disk
_DAY: Final = 86400.0
_TOGETHER: Final = 1 / 48  # share of the interval between checks: times that differ by less count as the same


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive segments that were checked.

    Attributes:
        first: base offset of the first of them.
        end: end of the last of them, which is the base offset of the next segment.
        at: time of the earliest check among them, in seconds since the epoch.
    """

    first: int
    end: int
    at: float


@dataclass(frozen=True, slots=True)
class Known:
    """A segment on the disk.

    Attributes:
        folder: directory of its partition.
        size: bytes of its log.
        written: time of its last write, in seconds since the epoch.
    """

    folder: str
    segment: Segment
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Progress on a disk.

    Attributes:
        segments, bytes: number of inactive segments, and the size of their logs.
        checked: bytes of those that were checked within the configured interval.
        oldest: time since which the longest waiting one has been unchecked (its last check, or its last write), in seconds since the epoch;
            None if there is none.
    """

    segments: int = 0
    bytes: int = 0
    checked: int = 0
    oldest: float | None = None


Runs = Mapping[str, Sequence[Run]]


def checked_at(runs: Iterable[Run], base: int) -> float | None:
    """Time of a segment's last check; None if it was never checked."""
    return next((run.at for run in runs if run.first <= base < run.end), None)


def unchecked(runs: Iterable[Run], base: int) -> tuple[Run, ...]:
    """The runs without the run of one segment: all segments of that run are due again."""
    return tuple(run for run in runs if not run.first <= base < run.end)


def without(runs: Iterable[Run], segment: Segment) -> tuple[Run, ...]:
    """The runs of a partition without one segment, which is then due; the others stay."""
    kept: list[Run] = []
    for run in runs:
        if run.first < segment.base:
            kept.append(Run(run.first, min(run.end, segment.base), run.at))
        if run.end > segment.end:
            kept.append(Run(max(run.first, segment.end), run.end, run.at))
    return tuple(kept)


def record(
    runs: Iterable[Run], segment: Segment, now: float, every_days: float, written: float
) -> tuple[Run, ...]:
    """The runs of a partition after the check of one more segment.

    The segment joins a neighbouring run that was checked a little earlier and gets its time, unless that run was checked before the segment's
    last write: with that time it would be due again at once.

    Args:
        runs: runs of the partition.
        segment: the checked segment.
        now: time of the check.
        every_days: interval between checks of a segment.
        written: time of its last write, in seconds since the epoch.
    """
    kept = without(runs, segment)
    earliest = max(written, now - every_days * _DAY * _TOGETHER)
    beside = [run.at for run in kept if segment.base == run.end or segment.end == run.first]
    at = next((time for time in beside if earliest <= time <= now), now)
    return _joined([*kept, Run(segment.base, segment.end, at)])


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Neighbours with the same time become one run. Others stay separate, because the last writes of their segments are not known any more."""
    found: list[Run] = []
    for run in sorted(runs, key=lambda r: r.first):
        before = found[-1] if found else None
        if before is not None and before.end == run.first and before.at == run.at:
            found[-1] = Run(before.first, run.end, run.at)
        else:
            found.append(run)
    return tuple(found)


def forget(runs: Runs, known: Iterable[Known]) -> dict[str, tuple[Run, ...]]:
    """Only what still exists: runs of deleted partitions, and of offsets before a partition's first segment, are dropped."""
    first: dict[str, int] = {}
    for each in known:
        first[each.folder] = min(each.segment.base, first.get(each.folder, each.segment.base))
    return {
        folder: kept
        for folder, mine in runs.items()
        if folder in first and (kept := tuple(run for run in mine if run.end > first[folder]))
    }


def due(known: Iterable[Known], runs: Runs, now: float, every_days: float) -> list[Known]:
    """The segments to check, the longest waiting first.

    A segment that was never checked is due as soon as its last writes are certainly on the disk; others when their interval has passed.
    """
    found: list[tuple[float, str, int, Known]] = []
    for each in known:
        at = _checked(runs, each)
        ripe = now - each.written >= SETTLED if at is None else not 0 <= now - at < every_days * _DAY
        if ripe:
            found.append((each.written if at is None else at, each.folder, each.segment.base, each))
    return [entry[3] for entry in sorted(found, key=lambda entry: entry[:3])]


def _checked(runs: Runs, known: Known) -> float | None:
    """Time of a segment's last check; None if it was rewritten since, like the segments of a replica that was re-replicated."""
    at = checked_at(runs.get(known.folder, ()), known.segment.base)
    return None if at is None or at < known.written else at


def sound(
    folder: str, known: Iterable[Known], seen: float, runs: Runs, now: float, every_days: float
) -> bool:
    """Whether all segments of a partition that were inactive at the listing were checked.

    Segments that became inactive since do not count: where segments are rolled all the time, one is always unchecked. False if none was
    checked.

    Args:
        folder: directory of the partition.
        known: the segments.
        seen: time of the listing, in seconds since the epoch.
        runs, now, every_days: as for `due`.
    """
    times = [(each, _checked(runs, each)) for each in known if each.folder == folder]
    at_rest = [at for each, at in times if at is not None or seen - each.written >= SETTLED]
    return bool(at_rest) and all(at is not None and 0 <= now - at < every_days * _DAY for at in at_rest)


def figures(known: Iterable[Known], runs: Runs, now: float, every_days: float) -> Figures:
    """Count."""
    count = size = checked = 0
    oldest: float | None = None
    for each in known:
        at = _checked(runs, each)
        count, size = count + 1, size + each.size
        if at is not None and now - at <= every_days * _DAY:
            checked += each.size
        waits = each.written if at is None else at
        oldest = waits if oldest is None else min(oldest, waits)
    return Figures(count, size, checked, oldest)
