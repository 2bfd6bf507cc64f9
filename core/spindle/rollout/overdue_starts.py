"""Reports brokers in which Kafka runs but that have not joined the cluster long after their start.

Kafka reads `meta.properties` of every log dir before it registers. If a disk hangs there, Kafka waits as long as the disk, without an error and
without exiting, and the agent does not probe a disk that was never formatted. So only the elapsed time shows it.
"""

from typing import Final

from spindle.model import disk_facts, objects
from spindle.model.agents import NO_AGENT
from spindle.model.broker_disks import disks_of
from spindle.model.plan_builder import PlanBuilder
from spindle.model.reports import handed_over
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import Waiting, counted
from spindle.rollout.starts import loaded_at, unfinished

_ACTION: Final = "StartBroker"
_REASON: Final = "StartDeadlineExceeded"


def report_overdue_starts(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each broker that runs but has not joined within ``spec.rolling.backWithinSeconds``.

    Time in which it loads its logs does not count. A node in ``status.takingDown`` is reported as `ProgressDeadlineExceeded`.
    """
    marked = {int(mark["nodeId"]) for mark in state.unavailable_records}
    for node_id, broker in state.brokers.items():
        pod = state.pods.get(node_id)
        if pod is None or objects.deleting(pod) or node_id in marked:
            continue
        started = seconds(objects.kafka_started(pod))
        if started is None or not unfinished(broker, pod) or not apart(state, node_id):
            continue
        started -= state.snap.agents.get(state.node_of(node_id) or "", NO_AGENT).offset
        if state.now - max(started, loaded_at(state, node_id)) > state.spec.rolling.back_within_seconds:
            builder.wait(_overdue(state, broker, pod))


def apart(state: ClusterState, node_id: int) -> bool:
    """Whether Kafka certainly does not know the broker, or has fenced it."""
    if state.kafka.error or not state.kafka.brokers:
        return False
    known = state.kafka.brokers.get(node_id)
    return known is None or known.fenced is True


def _overdue(state: ClusterState, broker: SnapshotObject, pod: SnapshotObject) -> Waiting:
    name, node = objects.name(broker), broker["spec"].get("node") or "its node"
    within = counted(state.spec.rolling.back_within_seconds, "second")
    happened = f"Kafka was started in {name} more than {within} ago and has not joined the cluster."
    found = handed_over(pod)
    used = [str(d["name"]) for d in disks_of(broker) if d.get("mode", disk_facts.ACTIVE) == disk_facts.ACTIVE]
    dead = [disk for disk in used if (found.get(disk) or {}).get("state") == disk_facts.DEAD]
    if dead:
        problem = str(found[dead[0]].get("problem") or f"{dead[0]} does not answer.")
        return Waiting(
            _ACTION,
            f"KafkaBroker/{name}/{dead[0]}",
            _REASON,
            f"{happened} Preflight reported: {problem} If the disk returns no error either, Kafka waits for it.",
            f"Replace {dead[0]} on {node}, then delete the pod. If the pod does not terminate, restart the node.",
        )
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        _REASON,
        happened,
        f"Find out what Kafka waits for with kubectl logs {name}; the kernel log of {node} shows a disk that does not answer. Correct it, then delete "
        "the pod.",
    )
