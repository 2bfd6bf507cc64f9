"""What the map shows, as JSON: pure functions of Spindle's objects."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from shlex import quote
from typing import Any, Final

from spindle.api import names
from spindle.api.broker import BrokerDiskStatus, DiskForecast, KafkaBroker, ObservedDisk, ObservedMove
from spindle.api.cluster import KafkaCluster
from spindle.api.enums import DirMoveState, DiskVerdict
from spindle.api.rebalance import KafkaRebalance
from spindle.model.times import stamp
from spindle.moves.journal import Journal, Move
from spindle_cli.copied import in_namespace
from spindle_cli.overview import is_notable
from spindle_cli.proposals import is_over, phase_of

Json = dict[str, Any]
CopyId = tuple[str, int, int]  # topic, partition, target broker
Place = tuple[float, int]  # seconds since the epoch, bytes copied at that time

# How far ahead the mark of a disk lies.
AHEAD: Final = timedelta(days=7)
_ENDED_SHOWN: Final = 3
# Thresholds of a forecast, in the order in which they are reached.
LEVELS: Final = (
    ("Warn", "warn_at"),
    ("Move", "move_at"),
    ("Cordon", "cordon_at"),
    ("BlockProducers", "block_producers_at"),
)


def cluster_head(cluster: KafkaCluster) -> Json:
    """The cluster itself: its phase, conditions that are not healthy, and what it waits for."""
    status = cluster.status
    return {
        "name": cluster.metadata.name,
        "namespace": cluster.metadata.namespace or "",
        "version": (status and status.version) or cluster.spec.version,
        "phase": (status and status.phase)
        or "The operator has not observed this cluster yet; if that lasts, see: spindle doctor",
        "paused": bool(cluster.spec.paused),
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in (cluster.status.conditions if cluster.status else ())
            if is_notable(each.type, each.status)
        ],
        "waiting": [
            {
                "action": each.action,
                "object": each.object,
                "reason": each.reason,
                "message": each.message,
                "since": each.since,
                "unblockedBy": each.unblocked_by,
            }
            for each in (status.waiting if status else ())
        ],
    }


def broker_card(broker: KafkaBroker) -> Json:
    """One broker with a cell for each of its disks."""
    status = broker.status
    seen = {each.name: each for each in (status.disks if status else ())}
    observed = {each.name: each for each in (status.observed.disks if status and status.observed else ())}
    return {
        "name": broker.metadata.name,
        "id": broker.spec.id,
        "rack": broker.spec.rack or "",
        "node": broker.spec.node or "",
        "state": (status and status.state) or "Pending",
        "message": (status and status.message) or "",
        "disks": [
            disk_cell(seen.get(each.name) or BrokerDiskStatus(name=each.name), observed.get(each.name))
            for each in broker.spec.disks
        ],
    }


def disk_cell(disk: BrokerDiskStatus, observed: ObservedDisk | None = None) -> Json:
    """One disk; fields that are not known are omitted."""
    cell: Json = {"name": disk.name, "state": disk.state or "Unknown"}
    if (percent := used_percent(disk)) is not None:
        cell["percent"] = percent
    if disk.capacity_bytes:
        cell["capacity"] = disk.capacity_bytes
    if disk.usage and disk.usage.level != "Normal":
        cell["level"] = disk.usage.level
    if observed and observed.verdict != DiskVerdict.HEALTHY:
        cell["verdict"] = observed.verdict
    if observed and observed.forecast:
        cell.update(_expected(disk, observed.forecast))
    return cell


def used_percent(disk: BrokerDiskStatus) -> float | None:
    """Used space of a disk in per cent; None if it is not known."""
    if not disk.capacity_bytes or disk.used_bytes is None:
        return None
    return round(100 * disk.used_bytes / disk.capacity_bytes, 1)


def _expected(disk: BrokerDiskStatus, forecast: DiskForecast) -> Json:
    """Usage after `AHEAD` at the present growth, and the next threshold with its time."""
    found: Json = {}
    if disk.capacity_bytes and disk.used_bytes is not None:
        then = disk.used_bytes + forecast.bytes_per_second * AHEAD.total_seconds()
        found["expected"] = round(min(100.0, max(0.0, 100 * then / disk.capacity_bytes)), 1)
    for level, field in LEVELS:
        time = getattr(forecast, field)
        if time is not None:
            return {**found, "next": {"level": level, "at": time.at}}
    return found


def proposal(each: KafkaRebalance) -> Json:
    """One proposal: its phase and progress, its cost and its gain."""
    status, spec = each.status, each.spec
    return {
        "name": each.metadata.name,
        "created": each.metadata.creation_timestamp,
        "phase": phase_of(each),
        "over": is_over(each),
        "message": (status and status.message) or "",
        "expires": spec.expires,
        "moves": len(spec.moves),
        "bytes": sum(move.bytes for move in spec.moves),
        "minutes": spec.estimated_minutes,
        "progress": status.progress if status else None,
        "movedBytes": status.moved_bytes if status else None,
        "eta": status.eta if status else None,
        "gain": _gain(each),
        "approve": in_namespace(
            f"spindle rebalance approve {quote(each.metadata.name)}", each.metadata.namespace
        ),
    }


def _gain(each: KafkaRebalance) -> list[Json]:
    gain = each.spec.gain
    figures = (
        ("fullest disk", "%", gain.fullest_percent_before, gain.fullest_percent_after),
        ("disks out of band", "", gain.disks_out_of_band_before, gain.disks_out_of_band_after),
        ("brokers out of band", "", gain.brokers_out_of_band_before, gain.brokers_out_of_band_after),
        ("partitions on too few racks", "", gain.rack_violations_before, gain.rack_violations_after),
    )
    return [
        {"what": what, "unit": unit, "before": before, "after": after}
        for what, unit, before, after in figures
        if before is not None and after is not None
    ]


def shown_proposals(found: Iterable[Json]) -> list[Json]:
    """Those that have not ended, then the latest ones that have; the newest first."""
    ordered = sorted(found, key=lambda each: (each["created"] or "", each["name"]), reverse=True)
    ended = [each for each in ordered if each["over"]]
    return [each for each in ordered if not each["over"]] + ended[:_ENDED_SHOWN]


def moves_within(broker: KafkaBroker) -> list[Json]:
    """Moves between the disks of one broker that its agent has not finished."""
    observed = broker.status.observed if broker.status else None
    return [
        _move_within(broker, each)
        for each in (observed.moves if observed else ())
        if each.state != DirMoveState.DONE
    ]


def _move_within(broker: KafkaBroker, each: ObservedMove) -> Json:
    return {
        "replica": f"{each.topic}-{each.partition}",
        "from": f"{broker.spec.id} {disk_of(each.from_dir)}",
        "to": f"{broker.spec.id} {disk_of(each.to_dir)}",
        "state": each.state,
        "bytes": each.bytes,
        "copied": each.copied,
        "rate": each.bytes_per_second,
        "eta": each.eta,
        "message": each.message or "",
    }


def moves_between(journal: Journal, rates: Mapping[CopyId, int]) -> list[Json]:
    """Moves of the journal between brokers, and restored replicas."""
    copied = {entry.id: entry for entry in journal.pace}
    found = []
    for move in journal.moves:
        if not move.within:
            entry = copied.get((move.topic, move.partition, move.target))
            place = (entry.since, entry.copied) if entry else None
            found.append(_move_between(move, place, rates.get((move.topic, move.partition, move.target))))
    return found


def _move_between(move: Move, place: Place | None, rate: int | None) -> Json:
    source = "" if move.source is None else f"{move.source} {disk_of(move.from_dir or '')}".strip()
    return {
        "replica": move.name,
        "from": source,
        "to": f"{move.target} {disk_of(move.to_dir)}",
        "state": "Copying" if place else "Queued",
        "bytes": move.bytes,
        "copied": place[1] if place else None,
        "rate": rate,
        "eta": _eta(move.bytes, place, rate),
        "message": move.reason,
    }


def _eta(size: int, place: Place | None, rate: int | None) -> str | None:
    if place is None or not rate or size < place[1]:
        return None
    return stamp(place[0] + (size - place[1]) / rate)


def copy_rates(
    before: Mapping[CopyId, Place], journal: Journal, known: Mapping[CopyId, int]
) -> dict[CopyId, int]:
    """Bytes per second of each copy between brokers.

    Args:
        before: place of each copy in the journal's previous version.
        known: rates that were computed before; a rate stays until the journal has a later place.
    """
    rates: dict[CopyId, int] = {}
    for entry in journal.pace:
        old = before.get(entry.id)
        if old is not None and entry.since > old[0]:
            rates[entry.id] = max(0, round((entry.copied - old[1]) / (entry.since - old[0])))
        elif entry.id in known:
            rates[entry.id] = known[entry.id]
    return rates


def places(journal: Journal) -> dict[CopyId, Place]:
    """Place of each copy between brokers: when, and how many bytes."""
    return {entry.id: (entry.since, entry.copied) for entry in journal.pace}


def disk_of(path: str) -> str:
    """Name of the disk that a log dir is on: ``disk0``."""
    prefix, suffix = f"{names.DISKS_ROOT}/", f"/{names.LOG_SUBDIR}"
    return path.removeprefix(prefix).removesuffix(suffix)
