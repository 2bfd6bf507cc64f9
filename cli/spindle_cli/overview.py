"""Prints a cluster: its racks, brokers, disks and log dirs, and what it waits for."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spindle.api import names
from spindle.api.broker import BrokerDiskStatus, DiskUsageStatus, KafkaBroker
from spindle.api.cluster import KafkaCluster, WaitingEntry
from spindle.api.common import Condition
from spindle.api.enums import DiskState
from spindle.api.thresholds import UsageLevel
from spindle.disks.lifecycle import MEANINGS
from spindle_cli.kube import ClusterView, Json

_GOOD: Final = frozenset({"Running", "Active", "Ready"})
_BAD: Final = frozenset({"Failed", "Evacuating", "Evacuated", "Unreachable", "Unknown"})
# Conditions whose healthy value is False; all others are healthy when True.
_GOOD_WHEN_FALSE: Final = frozenset({"DataAtRisk", "DiskPressure", "Reconciling", "Stalled"})
_NORMAL: Final = UsageLevel.NORMAL.label
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def overview(view: ClusterView, now: datetime) -> RenderableType:
    """Everything about one cluster."""
    parts: list[RenderableType] = [_title(view.cluster), "", brokers_table(view.brokers), ""]
    for broker in view.brokers:
        for disk in _disks(broker):
            parts += [_trouble(broker, disk)] if _remarkable(disk) else []
            parts += (
                [_usage(broker, disk, disk.usage, now)] if disk.usage and disk.usage.level != _NORMAL else []
            )
    status = view.cluster.status
    parts.append(_controllers(view.controllers, _parts(view.cluster)))
    parts += [_condition(each) for each in notable(view.cluster)]
    parts += [_waiting(each, now) for each in (status.waiting if status else ())]
    return Group(*parts)


def progress(view: ClusterView) -> list[str]:
    """The cluster's state as lines of plain text; a caller prints the lines that the previous call did not return."""
    status = view.cluster.status
    lines = [status.phase] if status and status.phase else []
    for pod in view.controllers:
        what = "ready" if _pod_ready(pod) else "starting" if pod["spec"].get("nodeName") else "no node yet"
        lines.append(f"  {pod['metadata']['name']}: {what}")
    lines += [
        f"  {broker.metadata.name}: {broker.status.state}. {broker.status.message or ''}".rstrip()
        for broker in view.brokers
        if broker.status and broker.status.state
    ]
    return lines + [f"  waits: {entry.message}" for entry in (status.waiting if status else ())]


def list_of(clusters: Sequence[KafkaCluster], *, wide: bool = False) -> RenderableType:
    """One line per cluster; ``wide`` adds columns."""
    more = ("Controllers", "Bootstrap") if wide else ()
    table = _table("Cluster", "Kafka", "Brokers", "Disks", "Racks", *more, "Phase")
    for cluster in clusters:
        status = cluster.status
        table.add_row(
            cluster.metadata.name,
            (status and status.version) or cluster.spec.version,
            f"{status.brokers.ready}/{status.brokers.total}" if status and status.brokers else "",
            f"{status.disks.healthy}/{status.disks.total}" if status and status.disks else "",
            str(len(status.racks)) if status else "",
            *((_controllers_ready(cluster), (status and status.bootstrap) or "") if wide else ()),
            (status and status.phase) or "not yet observed by the operator",
        )
    return table


def _controllers_ready(cluster: KafkaCluster) -> str:
    found = cluster.status.controllers if cluster.status else None
    return f"{found.ready}/{found.total}" if found else ""


def brokers_table(brokers: Sequence[KafkaBroker]) -> Table:
    """One row per disk; the broker's own columns are filled in its first row only."""
    table = _table("Broker", "Rack", "Node", "Disk", "Used", "Volume", "Log dir, volume path")
    for broker in brokers:
        rows = [_disk_cells(disk) for disk in _disks(broker)] or [
            (Text("no disks yet", style="dim"), Text(), "", Text())
        ]
        for number, row in enumerate(rows):
            last = number + 1 == len(rows)
            table.add_row(*(_broker_cells(broker) if number == 0 else ("", "", "")), *row, end_section=last)
    return table


def size(count: int) -> str:
    """Bytes with a binary unit: ``296 MiB``."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable: the last unit has no upper bound")


def age(since: str | None, now: datetime) -> str:
    """Time since a moment, in one unit; empty if the moment is not known."""
    if not since:
        return ""
    seconds = max(0, int((now - datetime.fromisoformat(since)).total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _title(cluster: KafkaCluster) -> Text:
    status = cluster.status
    text = Text()
    text.append(cluster.metadata.name, style="bold")
    text.append(f"  Kafka {(status and status.version) or cluster.spec.version}")
    if status and status.bootstrap:
        text.append(f"  {status.bootstrap}", style="dim")
    text.append("\n" + ((status and status.phase) or "The operator has not observed this cluster yet."))
    return text


def _broker_cells(broker: KafkaBroker) -> tuple[Text, str, str]:
    state = (broker.status and broker.status.state) or "Pending"
    return (
        Text(f"{broker.spec.id} ").append(state, style=_style(state)),
        broker.spec.rack or "-",
        broker.spec.node or "-",
    )


def _disks(broker: KafkaBroker) -> list[BrokerDiskStatus]:
    """The broker's disks, including those whose status is not known yet."""
    seen = {disk.name: disk for disk in (broker.status.disks if broker.status else ())}
    return [seen.get(each.name) or BrokerDiskStatus(name=each.name, pv=each.pv) for each in broker.spec.disks]


def _disk_cells(disk: BrokerDiskStatus) -> tuple[Text, Text, str, Text]:
    state = disk.state or "Unknown"
    where = "\n".join(part for part in (disk.pv or "none yet", disk.device) if part)
    place = Text(disk.log_dir or names.log_dir(disk.name))
    if disk.path:
        place.append(f"\non {disk.node}: {disk.path}" if disk.node else f"\n{disk.path}", style="dim")
    return Text(f"{disk.name}\n").append(state, style=_style(state)), _used(disk), where, place


def _used(disk: BrokerDiskStatus) -> Text:
    if disk.capacity_bytes is None or disk.used_bytes is None:
        return Text("-")
    share = 100 * disk.used_bytes / disk.capacity_bytes if disk.capacity_bytes else 0
    text = Text(f"{share:.0f} % of {size(disk.capacity_bytes)}")
    text.append(f"\n{disk.replicas} replicas" if disk.replicas else "")
    if disk.usage and disk.usage.level != _NORMAL:
        text.append("\n").append(disk.usage.level, style="yellow")
    return text


def _remarkable(disk: BrokerDiskStatus) -> bool:
    return bool(disk.message) and disk.message != MEANINGS[DiskState.ACTIVE]


def _trouble(broker: KafkaBroker, disk: BrokerDiskStatus) -> Text:
    """State of a disk that is not plainly in use, and why."""
    state = disk.state or "Unknown"
    text = Text(f"Broker {broker.spec.id} {disk.name} ").append(state, style=_style(state))
    return text.append(f": {disk.message}")


def _usage(broker: KafkaBroker, disk: BrokerDiskStatus, usage: DiskUsageStatus, now: datetime) -> Text:
    """Usage level of a disk, and what Spindle does about it."""
    text = Text(f"Broker {broker.spec.id} {disk.name} ").append(usage.level, style="yellow")
    since = age(usage.since, now)
    return text.append(f": {usage.message or usage.reason or ''}" + (f" (for {since})" if since else ""))


def _controllers(pods: Sequence[Json], parts: Mapping[str, Sequence[str]]) -> Text:
    text = Text("Controllers: ")
    if not pods:
        return text.append("none yet", style="yellow")
    for number, pod in enumerate(pods):
        ready = _pod_ready(pod)
        text.append(", " if number else "")
        text.append(pod["metadata"]["name"], style="green" if ready else "yellow")
        text.append(f" on {pod['spec'].get('nodeName') or 'no node yet'}")
        said = (*parts.get(pod["metadata"]["name"], ()), *(() if ready else ("not ready",)))
        text.append(f" ({', '.join(said)})" if said else "")
    return text


def _parts(cluster: KafkaCluster) -> dict[str, tuple[str, ...]]:
    """Notable facts about each controller's role in the quorum, by pod name."""
    quorum = cluster.status.quorum if cluster.status else None
    if quorum is None:
        return {}
    parts: dict[str, tuple[str, ...]] = {}
    for member in (*quorum.observers, *quorum.voters):
        lag = () if member.caught_up or member.lag is None else (f"{member.lag} records behind",)
        voter = member in quorum.voters
        role = ("active",) if voter and member.id == quorum.leader else () if voter else ("not a voter",)
        parts[names.controller_pod(cluster.metadata.name, member.id)] = (*role, *lag)
    return parts


def _pod_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def notable(cluster: KafkaCluster) -> list[Condition]:
    """Conditions that do not have their healthy value."""
    conditions = cluster.status.conditions if cluster.status else []
    return [
        each for each in conditions if each.status != ("False" if each.type in _GOOD_WHEN_FALSE else "True")
    ]


def _condition(condition: Condition) -> Text:
    style = "yellow" if condition.type == "Reconciling" else "red"
    text = Text(f"{condition.type}={condition.status}", style=style)
    return text.append(f" {condition.reason}: {condition.message}", style="default")


def _waiting(entry: WaitingEntry, now: datetime) -> Text:
    text = Text("Waiting: ", style="yellow")
    what = f"{entry.action} {entry.object}".strip()
    since = age(entry.since, now)
    text.append(f"{what}: {entry.message}" + (f" (for {since})" if since else ""), style="default")
    if entry.unblocked_by:
        text.append(f"\n         to resolve: {entry.unblocked_by}", style="default")
    return text


def _style(state: str) -> str:
    return "green" if state in _GOOD else "red" if state in _BAD else "yellow"


def _table(*columns: str) -> Table:
    """A table without frame; if the terminal is too narrow, the last column wraps."""
    table = Table(
        box=box.HORIZONTALS,
        show_edge=False,
        header_style="bold",
        border_style="dim",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column != columns[-1])
    return table
