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
_WITH_DEAD_DISK: Final = 120
"""Seconds after which a start is overdue if preflight found that a disk of the broker does not answer: Kafka then most likely waits for it."""


def report_overdue_starts(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each broker that runs but has not joined within ``spec.rolling.backWithinSeconds``; two minutes if a disk did not answer.

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
        dead = _dead_disk(broker, pod)
        within = (
            min(state.spec.rolling.back_within_seconds, _WITH_DEAD_DISK)
            if dead
            else state.spec.rolling.back_within_seconds
        )
        if state.now - max(started, loaded_at(state, node_id)) > within:
            builder.wait(_overdue(broker, within, dead))


def apart(state: ClusterState, node_id: int) -> bool:
    """Whether Kafka certainly does not know the broker, or has fenced it."""
    if state.kafka.error or not state.kafka.brokers:
        return False
    known = state.kafka.brokers.get(node_id)
    return known is None or known.fenced is True


def _dead_disk(broker: SnapshotObject, pod: SnapshotObject) -> tuple[str, str] | None:
    """The first disk in use that did not answer preflight before this start, and what preflight reported of it."""
    found = handed_over(pod)
    used = [str(d["name"]) for d in disks_of(broker) if d.get("mode", disk_facts.ACTIVE) == disk_facts.ACTIVE]
    for disk in used:
        entry = found.get(disk) or {}
        if entry.get("state") == disk_facts.DEAD:
            return disk, str(entry.get("problem") or f"{disk} does not answer.")
    return None


def _overdue(broker: SnapshotObject, within: int, dead: tuple[str, str] | None) -> Waiting:
    name, node = objects.name(broker), broker["spec"].get("node") or "its node"
    happened = f"Kafka was started in {name} more than {counted(within, 'second')} ago and has not joined the cluster."
    if dead is not None:
        disk, problem = dead
        return Waiting(
            _ACTION,
            f"KafkaBroker/{name}/{disk}",
            _REASON,
            f"{happened} Preflight reported: {problem} If the disk returns no error either, Kafka waits for it.",
            f"Replace {disk} on {node}, then delete the pod. If the pod does not terminate, restart the node.",
        )
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        _REASON,
        happened,
        f"Find out what Kafka waits for with kubectl logs {name}; the kernel log of {node} shows a disk that does not answer. Correct it, then delete "
        "the pod.",
    )
