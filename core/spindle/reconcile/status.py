"""What a user sees: the KafkaCluster's status, its conditions, and the one sentence that sums it up."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.api.thresholds import UsageLevel
from spindle.brokers.zone_spread import rack_status
from spindle.controllers.quorum_status import quorum_status
from spindle.disks.agent_health import clocks_row, unmonitored
from spindle.listeners.external_addresses import listener_status
from spindle.model import maintenance, objects
from spindle.model.bounds import BY_LABEL
from spindle.model.condition_rows import ConditionRow, as_conditions
from spindle.model.partition_faults import PartitionFaults, partition_faults
from spindle.model.plan_builder import MOST_LISTED, PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some
from spindle.proposals.rebalance_job import runs_row
from spindle.reconcile.broker_status import healthy
from spindle.reconcile.conditions import progress_rows
from spindle.rollout.upgrade import version_status

_RACK_REASONS: Final = frozenset(
    {
        "MixedRacks",
        "ZoneWithoutBrokers",
        "NoZoneLabels",
        "SingleZone",
        "UnevenSpread",
        "InsufficientNodes",
        "NodesWithoutZone",
        "ZoneChanged",
        "RackSpreadViolated",
        "BrokersWithoutRack",
    }
)


def cluster_status(
    state: ClusterState,
    builder: PlanBuilder,
    broker_statuses: Mapping[str, Mapping[str, Any]],
    lost: str | None = None,
    former: Sequence[Mapping[str, Any]] | None = None,
    *,
    moving: bool = False,
) -> dict[str, Any]:
    """``status`` of the KafkaCluster, all but ``takingDown``.

    Args:
        state, builder: of the pass.
        broker_statuses: of all KafkaBrokers.
        lost: the data that is lost with the currently bad disks, and what unblocks it; None for none.
        former: the principals of deleted users; None if nothing was done about them, so that those on record stay.
        moving: whether replicas move for another reason than a KafkaRebalance.
    """
    brokers = _tally(state, [n for n in state.pods if n in state.staying], state.broker_count)
    controllers = _tally(
        state, [n for n in state.pods if n >= names.FIRST_CONTROLLER_ID], state.spec.controllers.replicas
    )
    disks = _disks(broker_statuses)
    identity = state.known_identity
    racks = _racks(state)
    status: dict[str, Any] = {
        "observedGeneration": state.cluster["metadata"].get("generation", 0),
        **version_status(state),
        "bootstrap": f"{names.bootstrap_service(state.name)}.{state.namespace}.svc:{names.PORT_CLIENT}",
        "racks": racks,
        "rackCount": len(racks),
        "brokers": brokers,
        "controllers": controllers,
        "disks": disks,
        "waiting": builder.waiting_status(state.status.get("waiting") or (), state.now),
    }
    if len(builder.waits) > MOST_LISTED:
        status["waitingMore"] = len(builder.waits) - MOST_LISTED
    if state.spec.listeners:
        status["listeners"] = listener_status(state)
    standing = state.status.get("formerUsers")
    if former or standing:
        status["formerUsers"] = list(standing or () if former is None else former)
    if identity is not None:
        status["clusterId"] = identity.cluster_id
    if (quorum := quorum_status(state.kafka.quorum)) is not None:
        status["quorum"] = quorum
    bad = _bad_disks(broker_statuses)
    status["phase"] = _phase(state, builder, status, bad)
    partitions = partition_faults(state.kafka)
    rows = progress_rows(state, builder, status, broker_statuses, partitions, moving=moving)
    rows += [_racks_satisfied(state, builder), _disks_healthy(state, status, bad)]
    rows += [_disk_pressure(broker_statuses), _data_at_risk(state, partitions, lost)]
    rows += [row for row in (clocks_row(state), runs_row(state)) if row is not None]
    status["conditions"] = as_conditions(rows, state.status, status["observedGeneration"], state.now)
    return status


def _tally(state: ClusterState, node_ids: list[int], total: int) -> dict[str, Any]:
    ready = sum(
        1 for n in node_ids if objects.is_true(state.pods[n], "Ready") and not objects.deleting(state.pods[n])
    )
    return {"total": total, "ready": ready, "summary": f"{ready}/{total}"}


def _disks(broker_statuses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    disks = [disk for status in broker_statuses.values() for disk in status.get("disks") or ()]
    well = sum(1 for disk in disks if healthy(disk))
    return {"total": len(disks), "healthy": well, "summary": f"{well}/{len(disks)}"}


def _bad_disks(broker_statuses: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Each disk that is not healthy, with its state: ``demo-broker-0/disk1 (Evacuating)``."""
    return [
        f"{broker}/{disk['name']} ({disk['state']})"
        for broker, status in sorted(broker_statuses.items())
        for disk in status.get("disks") or ()
        if not healthy(disk)
    ]


def _racks(state: ClusterState) -> list[dict[str, Any]]:
    return rack_status({i: broker["spec"].get("rack") or None for i, broker in state.brokers.items()})


def _loud(builder: PlanBuilder) -> list[Waiting]:
    return [wait for wait in sorted(builder.waits, key=lambda wait: wait.order) if not wait.quiet]


def _phase(state: ClusterState, builder: PlanBuilder, status: Mapping[str, Any], bad: Sequence[str]) -> str:
    """The state of the cluster in one sentence."""
    brokers, controllers, disks = status["brokers"], status["controllers"], status["disks"]
    loud = _loud(builder)
    if objects.deleting(state.cluster):
        left = len(state.pods)
        return f"Deleting: {counted(left, 'pod')} still to stop." if left else "Deleting."
    if state.spec.paused:
        return "Paused: Spindle observes and reports, but changes nothing until spec.paused is false."
    stopped = _stopped(state)
    whole = _whole(status, len(stopped))
    marks = [str(mark.get("pod")) for mark in state.unavailable_records]
    if marks:
        verb = (
            "Stopping"
            if all(mark.get("reason") == "Stopped" for mark in state.unavailable_records)
            else "Restarting"
        )
        return f"{verb} {some(sorted(marks))} ({state.unavailable_records[0].get('reason') or 'requested'})."
    counts = f"{brokers['summary']} brokers, {controllers['summary']} controllers ready, {disks['summary']} disks healthy"
    if loud:
        more = f" (and {len(loud) - 1} more)" if len(loud) > 1 else ""
        verb = "Running" if whole else "Waiting"
        return f"{verb}: {counts}. {loud[0].object}: {loud[0].reason}{more}."
    if whole and stopped:
        return f"Running: {counts}. Stopped by an administrator: {some(stopped)}."
    if whole and bad:
        return f"Running: {counts}. {some(bad)}."
    if whole and disks["healthy"] == disks["total"]:
        racks = status["racks"]
        where = f" on {counted(len(racks), 'rack')}" if racks else ""
        healthy = "1 disk" if disks["total"] == 1 else f"all {disks['total']} disks"
        return f"Running: {counted(brokers['total'], 'broker')}{where}, {healthy} healthy."
    return f"Starting: {counts}."


def _stopped(state: ClusterState) -> list[str]:
    """Brokers that are down because an administrator stopped them."""
    return sorted(
        objects.name(broker)
        for broker_id, broker in state.brokers.items()
        if maintenance.stopped(broker) and broker_id not in state.pods
    )


def _whole(status: Mapping[str, Any], stopped: int) -> bool:
    """Whether everyone that is to run is ready."""
    brokers, controllers = status["brokers"], status["controllers"]
    return bool(
        brokers["ready"] + stopped >= brokers["total"] and controllers["ready"] == controllers["total"]
    )


def _racks_satisfied(state: ClusterState, builder: PlanBuilder) -> ConditionRow:
    troubles = [wait for wait in builder.waits if wait.reason in _RACK_REASONS]
    if troubles:
        first = troubles[0]
        return ("RacksSatisfied", "False", first.reason, f"{first.message} To resolve: {first.unblocked_by}")
    if not state.brokers:
        return ("RacksSatisfied", "Unknown", "BrokersPending", "No broker is placed yet.")
    racks = _racks(state)
    return (
        "RacksSatisfied",
        "True",
        "Spread",
        "Brokers are spread over the racks as evenly as possible: "
        + ", ".join(f"{rack['rack']}: {len(rack['brokers'])}" for rack in racks)
        + ".",
    )


def _disks_healthy(state: ClusterState, status: Mapping[str, Any], bad: list[str]) -> ConditionRow:
    disks = status["disks"]
    if disks["total"] and not bad:
        message = f"All {disks['total']} disks are log dirs in use. {unmonitored(state)}".rstrip()
        return ("DisksHealthy", "True", "AllHealthy", message)
    if not disks["total"]:
        why = state.kafka.error or "no broker yet"
        return (
            "DisksHealthy",
            "Unknown",
            "KafkaUnknown",
            f"Kafka does not report the state of its log dirs: {why}.",
        )
    return (
        "DisksHealthy",
        "False",
        "NotAllHealthy",
        f"{disks['summary']} disks are log dirs in use; the others: {some(bad, 20)}. More in the status of the KafkaBrokers. "
        f"{unmonitored(state)}".rstrip(),
    )


def _disk_pressure(broker_statuses: Mapping[str, Mapping[str, Any]]) -> ConditionRow:
    """The highest usage level that a disk has."""
    fills = {
        f"{broker}/{disk['name']}": disk["usage"]
        for broker, status in broker_statuses.items()
        for disk in status.get("disks") or ()
        if disk.get("usage")
    }
    if not fills:
        return ("DiskPressure", "Unknown", "KafkaUnknown", "The usage of the disks is not known yet.")
    worst = max(
        (BY_LABEL.get(str(fill["level"]), UsageLevel.NORMAL) for fill in fills.values()),
        default=UsageLevel.NORMAL,
    )
    if worst is UsageLevel.NORMAL:
        return ("DiskPressure", "False", "BelowThresholds", "Every disk is below its thresholds.")
    # The fullest first; how full each is stands in the KafkaBrokers, so that this one need not be written all the time.
    rows = sorted(
        fills.items(), key=lambda entry: (-BY_LABEL.get(str(entry[1]["level"]), UsageLevel.NORMAL), entry[0])
    )
    named = [f"{name} ({fill['level']})" for name, fill in rows if fill["level"] != UsageLevel.NORMAL.label]
    return (
        "DiskPressure",
        "True",
        worst.label,
        f"{counted(len(named), 'disk')} {'is' if len(named) == 1 else 'are'} above a threshold: {some(named)}.",
    )


def _data_at_risk(state: ClusterState, partitions: PartitionFaults | None, lost: str | None) -> ConditionRow:
    view = state.kafka
    if lost is not None:
        return ("DataAtRisk", "True", "LastReplicaAtRisk", lost)
    if partitions is None:
        return (
            "DataAtRisk",
            "Unknown",
            "KafkaUnknown",
            f"Kafka does not report its partitions: {view.error or 'partitions not read'}.",
        )
    if named := partitions.offline:
        return (
            "DataAtRisk",
            "True",
            "Offline",
            f"{counted(len(named), 'partition')} {'has' if len(named) == 1 else 'have'} no leader and cannot be read or written: {some(named)}.",
        )
    if named := partitions.under_min_isr:
        return (
            "DataAtRisk",
            "True",
            "PartitionsUnderMinIsr",
            f"{counted(len(named), 'partition')} {'is' if len(named) == 1 else 'are'} below min.insync.replicas, so Kafka rejects writes with acks=all: {some(named)}.",
        )
    return (
        "DataAtRisk",
        "False",
        "EnoughCopies",
        "Every partition has a leader and enough in-sync replicas.",
    )
