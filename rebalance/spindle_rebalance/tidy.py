"""All records of one broker, decoded and put in order: poison aside, nothing twice, times as they must have been.

What is left out is counted and named. A sample is *doubled* if one for the same interval has come already: a producer that tried again,
or two agents that both believed the broker to be theirs. A *clock is off* where samples are dated otherwise than Kafka
stored them, for all that were sent together: samples that were kept while Kafka was away come late, but the last of them is fresh. Where
sending such samples was interrupted, it is not; so several samples that were sent together are dated by the clock of those after them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spindle.samples.codec import Poison, Sample, decode
from spindle.samples.schema import REPLICAS
from spindle_rebalance.findings import Poisoned

NAMED: Final = 20  # unusable records of one broker that are told one by one
CLOCK_OFF_S: Final = 300.0  # seconds that a date may differ from Kafka's before it is not believed
_TOGETHER: Final = 0.5  # of an interval: records that Kafka stored closer to each other were sent together
_FRESH: Final = 2  # intervals that samples span at least if some of them were kept before they were sent
_DOUBLED: Final = 0.6  # of an interval: samples closer to each other are for the same one
_MS: Final = 1000
_NONE: Final = pa.RecordBatch.from_pylist([], schema=REPLICAS)


@dataclass(frozen=True)
class Dated:
    """A sample, where its record lies, and when it was taken.

    Attributes:
        stored_ms: the time that Kafka has for it.
        at_ms: by its own date, or as put right.
        appended: log dir → bytes per second that its replicas in this record are appended to; NaN where nobody knows of any.
    """

    sample: Sample
    partition: int
    offset: int
    stored_ms: int
    at_ms: int
    appended: Mapping[str, float]


@dataclass
class CleanRecords:
    """What is left of the records of a broker, and what is not.

    Attributes:
        moments: its samples by time; all parts of one sample together.
        records, rows: read in all; samples of replicas in them.
        poisoned: unusable records, the first of which are in ``poison``.
        doubled: records that were left out because there was one for the same time.
        clock_s: by how much its clock was ahead of Kafka's, at its worst; negative for behind.
        clock_records: whose times were put right.
    """

    moments: list[list[Dated]] = field(default_factory=list)
    records: int = 0
    rows: int = 0
    poisoned: int = 0
    poison: list[Poisoned] = field(default_factory=list)
    doubled: int = 0
    clock_s: float = 0.0
    clock_records: int = 0


def clean_records(
    batches: Iterable[pa.RecordBatch], cluster_id: str | None, replicas_since_ms: int = 0
) -> CleanRecords:
    """Everything usable of the records of one broker.

    Args:
        batches: of `source.RECORDS`, all of one broker, in any order.
        cluster_id: of the cluster that is looked at: records of another one are poison here; None takes the first record's.
        replicas_since_ms: of samples that Kafka stored earlier only the disks are kept, and the sums of what was appended.
    """
    found = CleanRecords()
    usable: list[Dated] = []
    for partition, offset, stored_ms, broker, value in _rows(batches):
        found.records += 1
        try:
            sample = _decoded(value, broker, cluster_id)
        except Poison as error:
            found.poisoned += 1
            found.poison.append(Poisoned(partition, offset, f"{error.reason}: {error}"))
            continue
        cluster_id = cluster_id or sample.cluster_id
        found.rows += sample.replicas.num_rows
        appended = _appended(sample.replicas)
        if stored_ms < replicas_since_ms:
            sample = replace(sample, replicas=_NONE)
        usable.append(Dated(sample, partition, offset, stored_ms, sample.at_ms, appended))
    found.poison = sorted(found.poison, key=lambda each: (each.partition, each.offset))[:NAMED]
    usable.sort(key=lambda each: (each.partition, each.offset))
    found.moments = _once(found, _dated(found, usable))
    return found


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, int, int, Any]]:
    for batch in batches:
        partition, offset, stored, broker = (
            batch.column(name).to_numpy() for name in ("partition", "offset", "stored_ms", "broker")
        )
        values = batch.column("value")
        for k in range(batch.num_rows):
            yield int(partition[k]), int(offset[k]), int(stored[k]), int(broker[k]), values[k].as_py()


def _appended(replicas: pa.RecordBatch) -> dict[str, float]:
    """Log dir → bytes per second; replicas of which nobody knows count as still, but if they are all there is."""
    dirs, rates = replicas.column("dir"), replicas.column("append_rate").to_numpy(zero_copy_only=False)
    place = dirs.indices.to_numpy()
    known = ~np.isnan(rates)
    count = len(dirs.dictionary)
    sums = np.bincount(place[known], rates[known], count).astype(
        np.float64
    )  # of nothing they are whole numbers
    sums[np.bincount(place[known], minlength=count) == 0] = np.nan
    there = np.bincount(place, minlength=count) > 0
    names = dirs.dictionary.to_pylist()
    return {names[k]: float(sums[k]) for k in np.flatnonzero(there)}


def _decoded(value: bytes | None, broker: int, cluster_id: str | None) -> Sample:
    """The sample of a record.

    Raises:
        Poison: it has none, or one that does not belong here.
    """
    if value is None:
        raise Poison("Empty", "a record without a value")
    sample = decode(value)
    if sample.broker != broker:
        raise Poison("OtherBroker", f"its key says broker {broker}, the sample in it broker {sample.broker}")
    if cluster_id is not None and sample.cluster_id != cluster_id:
        raise Poison("OtherCluster", f"a sample of cluster {sample.cluster_id}, not of {cluster_id}")
    return sample


def _dated(found: CleanRecords, usable: list[Dated]) -> list[Dated]:
    """The same with times put right where a clock was off."""
    groups = list(_sent_together(usable))
    right: list[Dated] = []
    for together, late in zip(groups, _lateness(groups), strict=True):
        if abs(late) <= CLOCK_OFF_S:
            right += together
            continue
        found.clock_records += len(together)
        found.clock_s = max(found.clock_s, -late, key=abs)
        right += [replace(each, at_ms=each.at_ms + round(late * _MS)) for each in together]
    return right


def _lateness(groups: list[list[Dated]]) -> list[float]:
    """Seconds by which the dates of each group are behind Kafka's because of the clock; 0 where that is not known.

    Of what was sent together the last is fresh, unless more was kept and sending was interrupted. So the lateness of a group of several
    samples may be that of a backlog; the next group that cannot be one says what the clock was like.
    """
    made: list[float] = []
    after: float | None = None
    for together in reversed(groups):
        late = min(each.stored_ms - each.at_ms for each in together) / _MS
        if abs(late) <= CLOCK_OFF_S or not _backlog(together):
            after = late
            made.append(late)
        elif after is not None:
            made.append(after)
        else:
            made.append(min(late, 0.0))  # dated later than it was stored: no waiting explains that
    return made[::-1]


def _backlog(together: list[Dated]) -> bool:
    """Whether these are several samples, some of which must have waited."""
    dates = [each.at_ms for each in together]
    return max(dates) - min(dates) >= _FRESH * _MS * together[-1].sample.interval_s


def _sent_together(usable: list[Dated]) -> Iterator[list[Dated]]:
    together: list[Dated] = []
    for each in usable:
        if together and each.stored_ms - together[-1].stored_ms > _TOGETHER * _MS * each.sample.interval_s:
            yield together
            together = []
        together.append(each)
    if together:
        yield together


def _once(found: CleanRecords, dated: list[Dated]) -> list[list[Dated]]:
    """One sample per interval, by time; of records for the same part of the same sample the last."""
    by_time: dict[int, dict[int, Dated]] = {}
    for each in dated:
        parts = by_time.setdefault(each.at_ms, {})
        found.doubled += each.sample.part in parts
        parts[each.sample.part] = each
    moments: list[list[Dated]] = []
    last = None
    for at_ms in sorted(by_time):
        parts = by_time[at_ms]
        interval = next(iter(parts.values())).sample.interval_s * _MS
        if last is not None and at_ms - last < _DOUBLED * interval:
            found.doubled += len(parts)
            continue
        moments.append([parts[part] for part in sorted(parts)])
        last = at_ms
    return moments
