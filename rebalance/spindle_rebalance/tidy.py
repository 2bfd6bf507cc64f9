"""Decodes and cleans all records of one broker: removes unusable records and duplicates, and corrects times.

Records that are left out are counted and listed. A sample is *doubled* if there is already one for the same interval, because a producer retried,
or two agents served the broker at the same time. A *clock is off* if the times of all samples sent together differ from
Kafka's timestamps: samples that were queued while Kafka was unreachable come late, but the last of them is current. If
sending such samples was interrupted, it is not; then the clock of the following samples is used for samples that were sent together.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from spindle.samples.codec import Poison, Sample, decode_all
from spindle.samples.schema import REPLICAS
from spindle_rebalance.findings import Poisoned

NAMED: Final = 20  # unusable records of one broker that are listed
CLOCK_OFF_S: Final = (
    300.0  # maximum seconds between a sample's time and Kafka's timestamp before it is corrected
)
_TOGETHER: Final = 0.5  # share of an interval: records that Kafka stored closer together were sent together
_FRESH: Final = 2  # minimum number of intervals of samples sent together, if some of them were queued
_DOUBLED: Final = 0.6  # share of an interval: samples closer together belong to the same interval
_MS: Final = 1000
_AT_ONCE: Final = 16 * 1024 * 1024  # bytes of records that are decoded together
_EMPTY: Final = Poison("Empty", "a record without a value")
_NONE: Final = pa.RecordBatch.from_pylist([], schema=REPLICAS)


@dataclass(frozen=True)
class Dated:
    """A sample with the position of its record and its time.

    Attributes:
        stored_ms: Kafka's timestamp.
        at_ms: the sample's time, corrected if necessary.
        appended: log dir → append rate of its replicas in this record in bytes per second; NaN if no rate is known.
    """

    sample: Sample
    partition: int
    offset: int
    stored_ms: int
    at_ms: int
    appended: Mapping[str, float]


@dataclass
class CleanRecords:
    """The usable records of a broker, and the counts of those left out.

    Attributes:
        moments: samples by time; all parts of one sample together.
        records, rows: all records read, and the replica samples in them.
        poisoned: number of unusable records; ``poison`` lists the first ones.
        doubled: records left out as duplicates.
        clock_s: largest difference of its clock from Kafka's; positive if it was ahead.
        clock_records: number of records with corrected times.
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
    """Clean the records of one broker.

    Args:
        batches: all records of one broker, with the columns `source.RECORDS`, in any order.
        cluster_id: id of the cluster; records of another cluster are poison. None uses the id in the first record.
        replicas_since_ms: for samples that Kafka stored earlier, only the disks and the sums of appended bytes are kept.
    """
    found = CleanRecords()
    usable: list[Dated] = []
    for partition, offset, stored_ms, broker, decoded in _rows(batches):
        found.records += 1
        sample = _of(decoded, broker, cluster_id)
        if isinstance(sample, Poison):
            found.poisoned += 1
            found.poison.append(Poisoned(partition, offset, f"{sample.reason}: {sample}"))
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


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, int, int, Sample | Poison]]:
    for whole in batches:
        step = max(1, _AT_ONCE * whole.num_rows // max(1, whole.nbytes))
        for start in range(0, whole.num_rows, step):
            batch = whole.slice(start, step)
            partition, offset, stored, broker = (
                batch.column(name).to_numpy() for name in ("partition", "offset", "stored_ms", "broker")
            )
            values = batch.column("value").to_pylist()
            decoded = iter(decode_all([value for value in values if value is not None]))
            for k, value in enumerate(values):
                sample = _EMPTY if value is None else next(decoded)
                yield int(partition[k]), int(offset[k]), int(stored[k]), int(broker[k]), sample


def _appended(replicas: pa.RecordBatch) -> dict[str, float]:
    """Log dir → bytes per second; replicas with unknown rates count as 0, unless all are unknown."""
    dirs, rates = replicas.column("dir"), replicas.column("append_rate").to_numpy(zero_copy_only=False)
    place = dirs.indices.to_numpy()
    count = len(dirs.dictionary)
    each = np.bincount(place, minlength=count)
    known = ~np.isnan(rates)
    if known.all():
        sums = np.bincount(place, rates, count)
    else:
        sums = np.bincount(place[known], rates[known], count).astype(
            np.float64
        )  # integers if nothing is known
        sums[np.bincount(place[known], minlength=count) == 0] = np.nan
    there = each > 0
    names = dirs.dictionary.to_pylist()
    return {names[k]: float(sums[k]) for k in np.flatnonzero(there)}


def _of(sample: Sample | Poison, broker: int, cluster_id: str | None) -> Sample | Poison:
    """The sample, or why it is not one of this broker and cluster."""
    if isinstance(sample, Poison):
        return sample
    if sample.broker != broker:
        return Poison(
            "OtherBroker", f"its key names broker {broker}, but its sample is of broker {sample.broker}"
        )
    if cluster_id is not None and sample.cluster_id != cluster_id:
        return Poison("OtherCluster", f"a sample of cluster {sample.cluster_id}, not of {cluster_id}")
    return sample


def _dated(found: CleanRecords, usable: list[Dated]) -> list[Dated]:
    """The samples with corrected times where a clock was off."""
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
    """Seconds by which the times of each group are behind Kafka's because of the clock; 0 if unknown.

    The last sample of a group is current, unless more samples were queued and sending was interrupted. So the lateness of a group of several
    samples may come from a backlog; the next group that cannot be a backlog shows the state of the clock.
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
            made.append(
                min(late, 0.0)
            )  # its time is later than Kafka's timestamp, which queueing cannot explain
    return made[::-1]


def _backlog(together: list[Dated]) -> bool:
    """Whether these are several samples of which some must have been queued."""
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
    """One sample per interval, by time; of duplicates of a part of a sample the last one."""
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
