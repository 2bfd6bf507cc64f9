"""What the map shows of one disk: pure functions."""

import re
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from spindle.api.broker import (
    BrokerDiskStatus,
    DiskForecast,
    DiskSpec,
    KafkaBroker,
    ObservedDisk,
    ThresholdTime,
)
from spindle.api.names import log_dir
from spindle_cli.copied import in_namespace
from spindle_cli.disk_map.model import LEVELS, Json, disk_cell, moves_within
from spindle_cli.overview import size

_EVENTS: Final = 40
_IN_USE: Final = frozenset({"Active", "Cordoned", "Backfilling"})


def disk_detail(broker: KafkaBroker, name: str, events: Sequence[Mapping[str, Any]]) -> Json | None:
    """Everything about one disk; None if the broker has no such disk.

    Args:
        events: Kubernetes events that regard the broker, raw.
    """
    spec = next((each for each in broker.spec.disks if each.name == name), None)
    if spec is None:
        return None
    status = broker.status
    disk = _named(status.disks if status else (), name) or BrokerDiskStatus(name=name)
    observed = _named(status.observed.disks if status and status.observed else (), name)
    where = f"{broker.spec.id} {name}"
    return {
        "broker": broker.metadata.name,
        "title": f"Broker {broker.spec.id} {name}",
        "cell": disk_cell(disk, observed),
        "message": disk.message or "",
        "facts": _facts(broker, spec, disk, observed),
        "forecast": _forecast(observed.forecast if observed else None),
        "moves": [each for each in moves_within(broker) if where in (each["from"], each["to"])],
        "history": history(disk, observed, events),
        "commands": commands(broker, disk),
    }


def _named(found: Iterable[Any], name: str) -> Any:
    return next((each for each in found if each.name == name), None)


def _facts(
    broker: KafkaBroker, spec: DiskSpec, disk: BrokerDiskStatus, seen: ObservedDisk | None
) -> list[list[str]]:
    """Rows of a label and a value; what is not known is omitted."""
    used = ""
    if disk.used_bytes is not None and disk.capacity_bytes:
        share = 100 * disk.used_bytes / disk.capacity_bytes
        used = f"{size(disk.used_bytes)} of {size(disk.capacity_bytes)} ({share:.1f} %)"
    verdict = ""
    if seen is not None:
        verdict = f"{seen.verdict}: {seen.message}" if seen.message else seen.verdict
    rows = [
        ("State", " ".join(filter(None, (disk.state or "Unknown", disk.reason and f"({disk.reason})")))),
        ("Agent's verdict", verdict),
        ("Used", used),
        ("Usage level", f"{disk.usage.level}: {disk.usage.message or ''}".rstrip(": ") if disk.usage else ""),
        ("Replicas", "" if disk.replicas is None else str(disk.replicas)),
        ("Node", disk.node or broker.spec.node or ""),
        ("Rack", broker.spec.rack or ""),
        ("Device", disk.device or (seen.device if seen else "") or ""),
        ("Path on the node", disk.path or ""),
        ("Log dir", disk.log_dir or log_dir(disk.name)),
        ("PersistentVolume", disk.pv or spec.pv or ""),
        ("PersistentVolumeClaim", spec.claim),
        ("Directory id", spec.directory_id),
        ("Request latency", f"{seen.latency_ms} ms" if seen and seen.latency_ms is not None else ""),
        ("Corrupt segments", str(len(seen.corrupt)) if seen and seen.corrupt else ""),
    ]
    return [[label, value] for label, value in rows if value]


def _forecast(found: DiskForecast | None) -> Json | None:
    if found is None:
        return None
    times = [(level, getattr(found, field)) for level, field in LEVELS]
    return {
        "bytesPerSecond": found.bytes_per_second,
        "times": [_time(level, time) for level, time in times if time is not None],
    }


def _time(level: str, time: ThresholdTime) -> Json:
    return {"level": level, "at": time.at, "low": time.low, "high": time.high}


def history(
    disk: BrokerDiskStatus, observed: ObservedDisk | None, events: Iterable[Mapping[str, Any]]
) -> list[Json]:
    """What happened to the disk, the latest first: events that name it, and since when its present states hold."""
    found = [_happened(each) for each in events if names_disk(str(each.get("message") or ""), disk.name)]
    found += [_since(disk.since, disk.state, disk.message)] if disk.since and disk.state else []
    if observed is not None and observed.since:
        found.append(_since(observed.since, f"Verdict {observed.verdict}", observed.message))
    if disk.usage is not None and disk.usage.since:
        found.append(_since(disk.usage.since, f"Usage level {disk.usage.level}", disk.usage.message))
    found.sort(key=lambda each: str(each["at"]), reverse=True)
    return found[:_EVENTS]


def names_disk(message: str, disk: str) -> bool:
    """Whether a message is about the disk: ``disk1`` is not in ``disk10``."""
    return re.search(rf"\b{re.escape(disk)}\b", message) is not None


def _happened(event: Mapping[str, Any]) -> Json:
    at = event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp")
    return {
        "at": at or "",
        "what": str(event.get("reason") or ""),
        "message": str(event.get("message") or ""),
        "warning": event.get("type") == "Warning",
    }


def _since(at: str, what: str | None, message: str | None) -> Json:
    return {"at": at, "what": what or "", "message": message or "", "warning": False}


def commands(broker: KafkaBroker, disk: BrokerDiskStatus) -> list[Json]:
    """Commands to copy; the map itself changes nothing."""
    name, namespace = quote(broker.metadata.name), broker.metadata.namespace or "default"
    found = [
        ("Everything about the broker", in_namespace(f"kubectl get skb {name} -o yaml", namespace)),
        ("Its events", in_namespace(f"kubectl events --for kafkabroker/{name}", namespace)),
    ]
    if disk.reason:
        found.append(("What the reason means", f"spindle explain {quote(disk.reason)}"))
    if disk.device:
        found.append(
            (f"The device, on node {disk.node or broker.spec.node}", f"lsblk -O {quote(disk.device)}")
        )
    for label, verb in _maintenance(disk.state):
        found.append((label, in_namespace(f"spindle disk {verb} {name} {quote(disk.name)}", namespace)))
    found.append(("Stop the broker when it is safe", in_namespace(f"spindle broker stop {name}", namespace)))
    return [{"label": label, "command": command} for label, command in found]


def _maintenance(state: str | None) -> list[tuple[str, str]]:
    """Maintenance that a user may ask for in a state: its description and the verb of ``spindle disk``."""
    if state in _IN_USE:
        return [
            ("Place no new replica on it", "cordon"),
            ("Move all replicas off it and remove it from the broker", "drain"),
        ]
    return [("Use it again", "release")] if state in ("Draining", "Drained") else []
