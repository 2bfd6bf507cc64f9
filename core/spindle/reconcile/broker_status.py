"""``status`` of each KafkaBroker: its state and start progress, and the location, state and usage of its disks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.disks.disk_inventory import StateRecord
from spindle.disks.usage import DiskUsage, status_of
from spindle.disks.watched import watched_fields
from spindle.evacuation.data_loss import MOST_TEXT as LONGEST_RISK
from spindle.model import disk_facts, maintenance, objects
from spindle.model.broker_disks import disks_of
from spindle.model.condition_rows import ConditionRow, as_conditions
from spindle.model.pod_volumes import mounted_in_pods, volume_type
from spindle.model.reports import inspected
from spindle.model.restart_safety import RestartSafety
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import stamp
from spindle.model.view import LogDir
from spindle.model.waiting import some
from spindle.rollout.starts import reconcile_start, words

_HEALTHY: Final = (DiskState.ACTIVE, DiskState.BACKFILLING)
_CORDONED: Final = ("CordonRequested", "DiskUsageHigh")  # the disk itself is healthy
_WITHOUT: Final = (DiskState.FAILED, DiskState.EVACUATING, DiskState.EVACUATED)
_STEPS: Final = (
    100  # usage is rounded to 1 % of the capacity, so that not every written byte changes the status
)


def broker_statuses(
    state: ClusterState,
    states: Mapping[tuple[int, str], StateRecord],
    fills: Mapping[tuple[int, str], DiskUsage],
    risks: Mapping[int, ConditionRow] | None = None,
) -> dict[str, dict[str, Any]]:
    """KafkaBroker name → status.

    Args:
        state: of the pass.
        states, fills: of the disks.
        risks: by broker, the condition about last replicas on its disks.
    """
    rolling = state.restart_safety
    return {
        objects.name(broker): _status(state, broker, rolling, states, fills)
        | _conditions(state, broker, (risks or {}).get(broker_id))
        for broker_id, broker in state.brokers.items()
    }


def _conditions(state: ClusterState, broker: SnapshotObject, row: ConditionRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    generation = int(broker["metadata"].get("generation", 0))
    return {
        "conditions": as_conditions([row], broker.get("status") or {}, generation, state.now, LONGEST_RISK)
    }


def healthy(disk: Mapping[str, Any]) -> bool:
    """Whether a disk of a status is in use and healthy; a disk that is only cordoned because it is nearly full counts as healthy."""
    return disk.get("state") in _HEALTHY or disk.get("reason") in _CORDONED


def _status(
    state: ClusterState,
    broker: SnapshotObject,
    rolling: RestartSafety,
    states: Mapping[tuple[int, str], StateRecord],
    fills: Mapping[tuple[int, str], DiskUsage],
) -> dict[str, Any]:
    node_id = int(broker["spec"]["id"])
    known = _Known.of(state, broker)
    disks = []
    for disk in disks_of(broker):
        key = node_id, disk["name"]
        before = known.before.get(disk["name"]) or {}
        entry = _disk(state, known, disk, states[key])
        if "pv" in entry:
            entry |= watched_fields(state, broker, disk["name"], before)
        if device := _device(known, entry, before):
            entry["device"] = device
        used = disk.get("mode", disk_facts.ACTIVE) == disk_facts.ACTIVE
        if used and (fill := status_of(fills.get(key), before)):
            entry["usage"] = fill
        disks.append(entry)
    shares = [disk["usedBytes"] / disk["capacityBytes"] for disk in disks if disk.get("capacityBytes")]
    failed = [disk["name"] for disk in disks if disk["state"] in _WITHOUT]
    start = reconcile_start(state, broker)
    condition, message = _state(state, broker, rolling, node_id, failed)
    if condition == "Starting":
        message = words(start) or message
    status = {
        "observedGeneration": broker["metadata"].get("generation", 0),
        "state": condition,
        "message": message,
        "disks": disks,
        "disksSummary": f"{sum(1 for disk in disks if healthy(disk))}/{len(disks)}",
    }
    pod = state.pods.get(node_id)
    if pod is not None and any("volumeType" in disk for disk in disks):
        status["podUid"] = objects.uid(pod)
    if start:
        status["start"] = start
    if shares:
        status["fullest"] = f"{round(100 * max(shares))}%"
    return status


def _state(
    state: ClusterState, broker: SnapshotObject, rolling: RestartSafety, node_id: int, failed: list[str]
) -> tuple[str, str]:
    """``status.state`` and ``status.message`` of a KafkaBroker."""
    pod = state.pods.get(node_id)
    if pod is None:
        if broker["spec"].get("leaving"):
            return "Leaving", "Stopped permanently: it holds no replicas, and its pool is scaled in."
        if maintenance.stopped(broker):
            return "Stopped", "Down for maintenance until spec.maintenance.stopped is false."
        return "Pending", "Its pod does not exist yet."
    if objects.deleting(pod):
        return "Stopping", "Its pod is terminating."
    node = state.nodes.get(state.node_of(node_id) or "")
    if node is not None and not objects.is_true(node, "Ready"):
        return "Unreachable", f"Node {objects.name(node)} is not ready."
    running = objects.kafka_runs(pod)
    if running and failed:
        return "Degraded", f"Kafka runs without {some(failed)}."
    if objects.is_true(pod, "Ready"):
        return "Running", "In sync."
    if running:
        behind = rolling.behind(node_id)
        missing = f": it is not in the ISR of {some(behind)}" if behind else ""
        return "Starting", f"Kafka is running and not in sync yet{missing}."
    return "Starting", "Kafka is not running yet."


@dataclass(frozen=True)
class _Known:
    """What is known of the disks of one broker, each by the disk's name or log dir.

    Attributes:
        before: ``status.disks``.
        observed: ``status.observed.disks``.
        found: by preflight in the present pod.
        log_dirs: of Kafka.
        node: of the pod, or else the one on record.
    """

    before: Mapping[Any, Mapping[str, Any]]
    observed: Mapping[Any, Mapping[str, Any]]
    found: Mapping[str, Mapping[str, Any]]
    log_dirs: Mapping[str, LogDir]
    node: str | None

    @classmethod
    def of(cls, state: ClusterState, broker: SnapshotObject) -> "_Known":
        """Collect it."""
        node_id, status = int(broker["spec"]["id"]), broker.get("status") or {}
        in_kafka = (state.kafka.brokers or {}).get(node_id)
        return cls(
            before={disk.get("name"): disk for disk in status.get("disks") or ()},
            observed={disk.get("name"): disk for disk in (status.get("observed") or {}).get("disks") or ()},
            found=inspected(state.pods.get(node_id)),
            log_dirs={each.path: each for each in (in_kafka and in_kafka.log_dirs) or ()},
            node=state.node_of(node_id) or broker["spec"].get("node"),
        )


def _disk(state: ClusterState, known: _Known, disk: Mapping[str, Any], record: StateRecord) -> dict[str, Any]:
    name, log_dir = disk["name"], names.log_dir(disk["name"])
    volume = state.volume(state.claims.get(disk["claim"]))
    result: dict[str, Any] = {
        "name": name,
        "logDir": log_dir,
        "state": str(record.state),
        "directoryId": disk["directoryId"],
        "since": stamp(record.since),
    }
    if record.reason:
        result["reason"] = record.reason
    if record.message:
        result["message"] = record.message
    if volume is not None:
        spec = volume.get("spec") or {}
        result["pv"] = objects.name(volume)
        path = (spec.get("local") or spec.get("hostPath") or {}).get("path")
        if path:
            result["path"] = path
        elif mounted_in_pods(kind := volume_type(spec)):
            result["volumeType"] = kind
    if known.node and volume is not None:
        result["node"] = known.node
    return result | _fill(known.found.get(name) or {}, known.log_dirs.get(log_dir))


def _device(known: _Known, entry: Mapping[str, Any], before: Mapping[str, Any]) -> str | None:
    """The device of a disk as its pod's inspection or the agent found it, or else the last known one.

    A broker that runs without a dead disk is not inspected for it, and its metrics and alerts must still name the device to pull. Another
    directory id is another disk.
    """
    found, seen = known.found.get(entry["name"]) or {}, known.observed.get(entry["name"]) or {}
    same = before.get("directoryId") == entry["directoryId"]
    return found.get("mount") or seen.get("device") or (before.get("device") if same else None)


def _fill(found: Mapping[str, Any], log_dir: LogDir | None) -> dict[str, Any]:
    """Capacity, usage and replicas as Kafka reports them, else as the disk inspection found them."""
    capacity, used = found.get("totalBytes"), found.get("usedBytes")
    result: dict[str, Any] = {}
    if log_dir is not None and not log_dir.error:
        result["replicas"] = len(log_dir.replicas)
        if log_dir.total_bytes is not None and log_dir.usable_bytes is not None:
            capacity, used = log_dir.total_bytes, log_dir.total_bytes - log_dir.usable_bytes
    if capacity and used is not None:
        result["capacityBytes"] = int(capacity)
        result["usedBytes"] = round(_STEPS * used / capacity) * int(capacity) // _STEPS
    return result
