"""Prints a cluster: its racks, brokers, disks and log dirs, and what it waits for.

It reads the objects as the API server sends them: to parse them with the models would take longer than the whole command.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from spindle.api import names
from spindle_cli.kube import ClusterView, Json

_GOOD: Final = frozenset({"Running", "Active", "Ready"})
_BAD: Final = frozenset({"Failed", "Evacuating", "Evacuated", "Unreachable", "Unknown"})
# Conditions whose healthy value is False; all others are healthy when True.
_GOOD_WHEN_FALSE: Final = frozenset({"DataAtRisk", "DiskPressure", "Reconciling", "Stalled"})
_NORMAL: Final = "Normal"  # label of the usage level
_IN_USE: Final = "Kafka uses it."  # message of a disk about which nothing is to be said
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def overview(view: ClusterView, now: datetime) -> RenderableType:
    """Everything about one cluster."""
    parts: list[RenderableType] = [_title(view.cluster), "", brokers_table(view.brokers), ""]
    for broker in view.brokers:
        for disk in _disks(broker):
            parts += [_trouble(broker, disk)] if _remarkable(disk) else []
            if (usage := disk.get("usage")) and usage["level"] != _NORMAL:
                parts.append(_usage(broker, disk, usage, now))
    status = status_of(view.cluster)
    parts.append(_controllers(view.controllers, _parts(view.cluster)))
    if topics := status.get("topics"):
        parts.append(_topics(topics["total"], topics["ready"]))
    parts += [_condition(each) for each in notable(view.cluster)]
    parts += [_waiting(each, now) for each in status.get("waiting") or ()]
    return Group(*parts)


def progress(view: ClusterView) -> list[str]:
    """The cluster's state as lines of plain text; a caller prints the lines that the previous call did not return."""
    status = status_of(view.cluster)
    lines = [str(status["phase"])] if status.get("phase") else []
    for pod in view.controllers:
        what = "ready" if _pod_ready(pod) else "starting" if pod["spec"].get("nodeName") else "no node yet"
        lines.append(f"  {pod['metadata']['name']}: {what}")
    lines += [
        f"  {broker['metadata']['name']}: {said['state']}. {said.get('message') or ''}".rstrip()
        for broker in view.brokers
        if (said := status_of(broker)).get("state")
    ]
    return lines + [f"  waits: {entry['message']}" for entry in status.get("waiting") or ()]


def status_of(obj: Json) -> Json:
    """The status of an object; empty if it has none."""
    return obj.get("status") or {}


def is_observed(cluster: Json) -> bool:
    """Whether the status of a KafkaCluster is about its current generation."""
    return bool(status_of(cluster).get("observedGeneration") == cluster["metadata"].get("generation"))


def list_of(clusters: Sequence[Json], *, wide: bool = False) -> RenderableType:
    """One line per cluster; ``wide`` adds columns."""
    more = ("Controllers", "Bootstrap") if wide else ()
    table = _table("Cluster", "Kafka", "Brokers", "Disks", "Racks", *more, "Phase")
    for cluster in clusters:
        status = status_of(cluster)
        table.add_row(
            cluster["metadata"]["name"],
            status.get("version") or cluster["spec"]["version"],
            _count(status.get("brokers"), "ready"),
            _count(status.get("disks"), "healthy"),
            str(len(status.get("racks") or ())) if status else "",
            *((_count(status.get("controllers"), "ready"), status.get("bootstrap") or "") if wide else ()),
            status.get("phase") or "not yet observed by the operator",
        )
    return table


def _count(found: Json | None, part: str) -> str:
    return f"{found.get(part, 0)}/{found.get('total', 0)}" if found else ""


def brokers_table(brokers: Sequence[Json]) -> Table:
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


def _title(cluster: Json) -> Text:
    status = status_of(cluster)
    text = Text()
    text.append(cluster["metadata"]["name"], style="bold")
    text.append(f"  Kafka {status.get('version') or cluster['spec']['version']}")
    if status.get("bootstrap"):
        text.append(f"  {status['bootstrap']}", style="dim")
    text.append(
        "\n"
        + (
            status.get("phase")
            or "The operator has not observed this cluster yet; if that lasts, see: spindle doctor"
        )
    )
    return text


def _broker_cells(broker: Json) -> tuple[Text, str, str]:
    state, spec = status_of(broker).get("state") or "Pending", broker["spec"]
    return (
        Text(f"{spec['id']} ").append(state, style=_style(state)),
        spec.get("rack") or "-",
        spec.get("node") or "-",
    )


def _disks(broker: Json) -> list[Json]:
    """The broker's disks, including those whose status is not known yet."""
    seen = {disk["name"]: disk for disk in status_of(broker).get("disks") or ()}
    return [seen.get(each["name"]) or each for each in broker["spec"].get("disks") or ()]


def _disk_cells(disk: Json) -> tuple[Text, Text, str, Text]:
    state, path = disk.get("state") or "Unknown", disk.get("path")
    where = "\n".join(part for part in (disk.get("pv") or "none yet", disk.get("device")) if part)
    place = Text(disk.get("logDir") or names.log_dir(disk["name"]))
    if path:
        place.append(f"\non {disk['node']}: {path}" if disk.get("node") else f"\n{path}", style="dim")
    return Text(f"{disk['name']}\n").append(state, style=_style(state)), _used(disk), where, place


def _used(disk: Json) -> Text:
    capacity, used, usage = disk.get("capacityBytes"), disk.get("usedBytes"), disk.get("usage")
    if capacity is None or used is None:
        return Text("-")
    text = Text(f"{100 * used / capacity if capacity else 0:.0f} % of {size(capacity)}")
    text.append(f"\n{disk['replicas']} replicas" if disk.get("replicas") else "")
    if usage and usage["level"] != _NORMAL:
        text.append("\n").append(usage["level"], style="yellow")
    return text


def _remarkable(disk: Json) -> bool:
    return bool(disk.get("message")) and disk["message"] != _IN_USE


def _trouble(broker: Json, disk: Json) -> Text:
    """State of a disk that is not plainly in use, and why."""
    state = disk.get("state") or "Unknown"
    text = Text(f"Broker {broker['spec']['id']} {disk['name']} ").append(state, style=_style(state))
    return text.append(f": {disk['message']}")


def _usage(broker: Json, disk: Json, usage: Json, now: datetime) -> Text:
    """Usage level of a disk, and what Spindle does about it."""
    text = Text(f"Broker {broker['spec']['id']} {disk['name']} ").append(usage["level"], style="yellow")
    said, since = usage.get("message") or usage.get("reason") or "", age(usage.get("since"), now)
    return text.append(f": {said}" + (f" (for {since})" if since else ""))


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


def _topics(total: int, ready: int) -> Text:
    text = Text(f"Topics: {total} managed")
    return text.append(f", {total - ready} not ready", style="yellow") if ready < total else text


def _parts(cluster: Json) -> dict[str, tuple[str, ...]]:
    """Notable facts about each controller's role in the quorum, by pod name."""
    quorum = status_of(cluster).get("quorum") or {}
    parts: dict[str, tuple[str, ...]] = {}
    for role in ("observers", "voters"):
        for member in quorum.get(role) or ():
            caught_up, lag = member.get("caughtUp"), member.get("lag")
            behind = () if caught_up or lag is None else (f"{lag} records behind",)
            active = ("active",) if member["id"] == quorum.get("leader") else ()
            said = active if role == "voters" else ("not a voter",)
            parts[names.controller_pod(cluster["metadata"]["name"], member["id"])] = (*said, *behind)
    return parts


def _pod_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def notable(cluster: Json) -> list[Json]:
    """Conditions that do not have their healthy value."""
    conditions = status_of(cluster).get("conditions") or ()
    return [each for each in conditions if is_notable(each["type"], each["status"])]


def is_notable(kind: str, status: str) -> bool:
    """Whether a condition of this type does not have its healthy value."""
    return status != ("False" if kind in _GOOD_WHEN_FALSE else "True")


def _condition(condition: Json) -> Text:
    style = "yellow" if condition["type"] == "Reconciling" else "red"
    text = Text(f"{condition['type']}={condition['status']}", style=style)
    return text.append(f" {condition['reason']}: {condition['message']}", style="default")


def _waiting(entry: Json, now: datetime) -> Text:
    text = Text("Waiting: ", style="yellow")
    what = f"{entry['action']} {entry.get('object') or ''}".strip()
    since = age(entry.get("since"), now)
    text.append(f"{what}: {entry['message']}" + (f" (for {since})" if since else ""), style="default")
    if entry.get("unblockedBy"):
        text.append(f"\n         to resolve: {entry['unblockedBy']}", style="default")
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
