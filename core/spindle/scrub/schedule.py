"""Which segment is next, and how much of a disk is checked: what was checked when, by partition and range of offsets.

Runs of segments that were checked at about the same time are kept as one entry, so that a disk with a hundred thousand segments needs
a few entries for each partition; those that were rolled since all was checked last have one each.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spindle.scrub.catalog import Segment

SETTLED: Final = 120.0  # seconds without a change after which a segment may be read: what was written last is on the disk then
_DAY: Final = 86400.0
_TOGETHER: Final = 1 / 48  # of the days within which all is to be checked: times that near count as the same


@dataclass(frozen=True, slots=True)
class Run:
    """Segments, one after the other, that were checked.

    Attributes:
        first: base offset of the first of them.
        end: where the last of them ended, which is the next one's base offset.
        at: when the one that was checked first was, in seconds since the epoch.
    """

    first: int
    end: int
    at: float


@dataclass(frozen=True, slots=True)
class Known:
    """A segment as it lies on the disk.

    Attributes:
        folder: of its partition.
        size: bytes of its log.
        written: when it was last written to, in seconds since the epoch.
    """

    folder: str
    segment: Segment
    size: int
    written: float


@dataclass(frozen=True, slots=True)
class Figures:
    """How far a disk is.

    Attributes:
        segments, bytes: inactive ones, and the size of their logs.
        checked: bytes of those that were checked within the days that were asked for.
        oldest: since when the one that waits longest has been unchecked (its last check, or its last write), in seconds since the epoch;
            None if there is none.
    """

    segments: int = 0
    bytes: int = 0
    checked: int = 0
    oldest: float | None = None


Runs = Mapping[str, Sequence[Run]]


def checked_at(runs: Iterable[Run], base: int) -> float | None:
    """When a segment was checked last; None if it never was."""
    return next((run.at for run in runs if run.first <= base < run.end), None)


def unchecked(runs: Iterable[Run], base: int) -> tuple[Run, ...]:
    """The runs without the one that a segment is in: it, and those that were checked together with it, are due again."""
    return tuple(run for run in runs if not run.first <= base < run.end)


def without(runs: Iterable[Run], segment: Segment) -> tuple[Run, ...]:
    """The runs of a partition without one segment, which is due then; the others stay."""
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
    """The runs of a partition after one more of its segments was checked.

    It joins a neighbour that was checked a little earlier, and takes that time, but for one that was checked before the segment was
    written to last: by that time it would be due again at once.

    Args:
        runs: of the partition.
        segment: what was checked.
        now: when.
        every_days: within which each segment is to be checked again.
        written: when it was last written to, in seconds since the epoch.
    """
    kept = without(runs, segment)
    earliest = max(written, now - every_days * _DAY * _TOGETHER)
    beside = [run.at for run in kept if segment.base == run.end or segment.end == run.first]
    at = next((time for time in beside if earliest <= time <= now), now)
    return _joined([*kept, Run(segment.base, segment.end, at)])


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Neighbours of the same time become one. The others stay: when their segments were written is not known any more."""
    found: list[Run] = []
    for run in sorted(runs, key=lambda r: r.first):
        before = found[-1] if found else None
        if before is not None and before.end == run.first and before.at == run.at:
            found[-1] = Run(before.first, run.end, run.at)
        else:
            found.append(run)
    return tuple(found)


def forget(runs: Runs, known: Iterable[Known]) -> dict[str, tuple[Run, ...]]:
    """Only what is still there: runs of partitions that have gone, and of offsets before a partition's first segment, are dropped."""
    first: dict[str, int] = {}
    for each in known:
        first[each.folder] = min(each.segment.base, first.get(each.folder, each.segment.base))
    return {
        folder: kept
        for folder, mine in runs.items()
        if folder in first and (kept := tuple(run for run in mine if run.end > first[folder]))
    }


def due(known: Iterable[Known], runs: Runs, now: float, every_days: float) -> list[Known]:
    """The segments to be checked, that which has waited longest first.

    One that was never checked is due as soon as what was written last is sure to be on the disk; one that was, when the days are over.
    """
    found: list[tuple[float, str, int, Known]] = []
    for each in known:
        at = _checked(runs, each)
        ripe = now - each.written >= SETTLED if at is None else not 0 <= now - at < every_days * _DAY
        if ripe:
            found.append((each.written if at is None else at, each.folder, each.segment.base, each))
    return [entry[3] for entry in sorted(found, key=lambda entry: entry[:3])]


def _checked(runs: Runs, known: Known) -> float | None:
    """When a segment was checked last; None if it was written anew since, as one of a replica that came back is."""
    at = checked_at(runs.get(known.folder, ()), known.segment.base)
    return None if at is None or at < known.written else at


def sound(
    folder: str, known: Iterable[Known], seen: float, runs: Runs, now: float, every_days: float
) -> bool:
    """Whether all of a partition that was at rest when it was looked for was checked.

    What came to rest since is none of it: where segments are rolled all the time, there always is one that is not read yet. Where none was
    checked that is said of nothing.

    Args:
        folder: of the partition.
        known: the segments.
        seen: when these were looked for, in seconds since the epoch.
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
