"""``status`` of each KafkaBroker: where its disks are and how they do."""

from collections.abc import Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.refusal import some
from spindle.cluster.view import LogDir
from spindle.reconcile import objects
from spindle.reconcile.inputs import disks_of
from spindle.reconcile.reports import inspected
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State

_STORAGE_ERROR: Final = 56  # KAFKA_STORAGE_ERROR: an offline log dir
_FOUND: Final = {
    "foreign": "Foreign",
    "not-mounted": "Missing",
    "dead": "Failed",
    "readonly": "Failed",
    "blank": "Provisioning",
}
_STEPS: Final = (
    100  # use is told in hundredths of the capacity, so that not every written byte is a write here
)


def broker_statuses(state: State) -> dict[str, dict[str, Any]]:
    """KafkaBroker name → status."""
    return {objects.name(broker): _status(state, broker) for broker in state.brokers.values()}


def _status(state: State, broker: Object) -> dict[str, Any]:
    node_id = int(broker["spec"]["id"])
    disks = [_disk(state, node_id, disk) for disk in disks_of(broker)]
    healthy = sum(1 for disk in disks if disk["state"] == "Active")
    fills = [disk["usedBytes"] / disk["capacityBytes"] for disk in disks if disk.get("capacityBytes")]
    failed = [disk["name"] for disk in disks if disk["state"] == "Failed"]
    condition, message = _state(state, broker, node_id, failed)
    status = {
        "observedGeneration": broker["metadata"].get("generation", 0),
        "state": condition,
        "message": message,
        "disks": disks,
        "disksSummary": f"{healthy}/{len(disks)}",
    }
    if fills:
        status["fullest"] = f"{round(100 * max(fills))}%"
    return status


def _state(state: State, broker: Object, node_id: int, failed: list[str]) -> tuple[str, str]:
    """One word and one sentence."""
    pod = state.pods.get(node_id)
    if pod is None:
        if broker["spec"].get("stopped"):
            return "Stopped", "Down for maintenance until spec.stopped is false."
        return "Pending", "Its pod is not there yet."
    if objects.deleting(pod):
        return "Stopping", "Its pod is ending."
    node = state.nodes.get(state.node_of(node_id) or "")
    if node is not None and not objects.is_true(node, "Ready"):
        return "Unreachable", f"Node {objects.name(node)} is not ready."
    running = objects.kafka_runs(pod)
    if running and failed:
        return "Degraded", f"Kafka runs without {some(failed)}."
    if objects.is_true(pod, "Ready"):
        return "Running", "In sync."
    if running:
        return "Starting", "Kafka runs and is not in sync yet."
    return "Starting", "Kafka does not run yet."


def _disk(state: State, node_id: int, disk: Mapping[str, Any]) -> dict[str, Any]:
    name = disk["name"]
    claim = state.claim(node_id, name)
    volume = state.volume(claim)
    found = inspected(state.pods.get(node_id)).get(name) or {}
    log_dir = _log_dir(state, node_id, name)
    what, message = _disk_state(state, disk, found, log_dir, bound=volume is not None)
    result: dict[str, Any] = {"name": name, "logDir": names.log_dir(name), "state": what}
    if message:
        result["message"] = message
    if volume is not None:
        spec = volume.get("spec") or {}
        result["pv"] = objects.name(volume)
        path = (spec.get("local") or spec.get("hostPath") or {}).get("path")
        if path:
            result["path"] = path
    node = state.node_of(node_id) or (state.brokers[node_id]["spec"].get("node"))
    if node and volume is not None:
        result["node"] = node
    if found.get("mount"):
        result["device"] = found["mount"]
    return result | _fill(found, log_dir)


def _fill(found: Mapping[str, Any], log_dir: LogDir | None) -> dict[str, Any]:
    """Capacity, use and replicas, as Kafka tells them, else as inspect saw them."""
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


def _log_dir(state: State, node_id: int, disk: str) -> LogDir | None:
    broker = (state.kafka.brokers or {}).get(node_id)
    for log_dir in (broker.log_dirs if broker else None) or ():
        if log_dir.path == names.log_dir(disk):
            return log_dir
    return None


def _disk_state(
    state: State, disk: Mapping[str, Any], found: Mapping[str, Any], log_dir: LogDir | None, *, bound: bool
) -> tuple[str, str]:
    if disk.get("mode") == "Placeholder":
        return "Failed", "The broker runs without it; stop and start the broker to try the disk again."
    if log_dir is not None and not log_dir.error:
        return ("Cordoned" if log_dir.cordoned else "Active"), ""
    if log_dir is not None:
        what = "offline" if log_dir.error == _STORAGE_ERROR else f"in error {log_dir.error}"
        return "Failed", f"Kafka says that the log dir is {what}."
    if found.get("state") in _FOUND:
        return _FOUND[found["state"]], str(found.get("problem") or "")
    if not bound:
        return "Provisioning", "Its claim is not bound to a volume yet."
    if disk.get("fsUuid") and state.kafka.error:
        return "Unknown", f"Kafka cannot be asked: {state.kafka.error}."
    return "Provisioning" if not disk.get("fsUuid") else "Unknown", "Kafka does not show it as a log dir."
