"""observe → **plan** → act → report: one pure function from a snapshot to actions and status."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from spindle.api.enums import DiskState
from spindle.disks.disk_inventory import DiskInventory
from spindle.evacuation.data_loss import at_risk, broker_risks
from spindle.model import objects
from spindle.model.actions import Apply, Patch
from spindle.model.condition_rows import as_conditions
from spindle.model.events import Event, ReconcilePlan, summed_up
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.state import ClusterState, read_state
from spindle.model.topic_states import READY as TOPIC_READY
from spindle.model.topic_states import topic_states
from spindle.model.waiting import Waiting, some
from spindle.proposals.proposal import REASON as REBALANCE
from spindle.proposals.reconciler import ProposalResult
from spindle.reconcile.accepted_spec import as_accepted
from spindle.reconcile.batches import more_to_come
from spindle.reconcile.broker_status import broker_statuses
from spindle.reconcile.deletion import reconcile_deletion
from spindle.reconcile.healing import observe_only
from spindle.reconcile.phase import PassResults
from spindle.reconcile.phases import PHASES, REPORT_PHASES, TOPIC_PHASES, USER_PHASES
from spindle.reconcile.problems import report_racks
from spindle.reconcile.status import cluster_status
from spindle.security.name_conflicts import leave_alone
from spindle.topics.reconciler import unsettled_topics
from spindle.users.reconciler import unsettled

__all__ = ["Event", "ReconcilePlan", "plan"]

# Without these lists it is unknown what exists; nothing is created or deleted meanwhile (unknown is not absent, docs/safety.md).
_NEEDED: Final = frozenset({"pods", "persistentvolumeclaims", "configmaps", "kafkabrokers"})


def plan(snapshot: ClusterSnapshot, now: float) -> ReconcilePlan:
    """Decide what to do next.

    Each pass takes every step that the snapshot allows; the next pass sees the results. The only memory is the cluster's own state,
    so it does not matter which process plans, or where the last one died.

    Args:
        snapshot: one observation of Kubernetes and Kafka.
        now: seconds since the epoch.
    """
    try:
        state = as_accepted(read_state(snapshot, now))
    except ValidationError as error:
        return _not_understood(snapshot, error, now)
    builder = PlanBuilder()
    results, finished = PassResults(state=state, builder=builder), False
    # The external address of a listener is in its Services.
    outside = any(listener.type != "internal" for listener in state.spec.listeners)
    blind = sorted(snapshot.unknown & (_NEEDED | {"services"} if outside else _NEEDED))
    if blind:
        builder.wait(_blind(state, blind))
    elif objects.deleting(snapshot.cluster):
        finished = reconcile_deletion(state, builder)
    elif not state.spec.paused:
        results.run(PHASES)
        whole = results.complete
        if whole and "kafkausers" not in snapshot.unknown:
            results.run(USER_PHASES)
        if whole:
            results.run(TOPIC_PHASES)
    if not finished:
        results.run(REPORT_PHASES)
    inventory = results.get("inventory") or observe_only(state, builder)
    if not finished:
        report_racks(state, builder, inventory.journal)
    leave_alone(state, builder)
    return _result(state, builder, results, inventory, finished=finished)


def _result(
    state: ClusterState,
    builder: PlanBuilder,
    results: PassResults,
    inventory: DiskInventory,
    *,
    finished: bool,
) -> ReconcilePlan:
    """The plan from everything that the pass collected."""
    statuses = broker_statuses(state, inventory.states, inventory.usages, broker_risks(inventory))
    users: dict[str, dict[str, Any]] = results.get("users") or {}
    topics: dict[str, dict[str, Any]] = results.get("topics") or {}
    proposed: ProposalResult = results.get("proposed") or ProposalResult()
    if (later := more_to_come(state.name, builder.actions)) is not None:
        builder.wait(later)
    former, moving = results.get("former_users"), _moving(inventory)
    return ReconcilePlan(
        actions=tuple(builder.actions),
        status={
            **cluster_status(state, builder, statuses, at_risk(inventory), former, moving=moving),
            **_topic_tally(state, topics),
        },
        broker_statuses={} if objects.deleting(state.cluster) else statuses,
        rebalance_statuses=proposed.statuses,
        events=summed_up((*_untold(builder), *_events(state, builder))),
        finished=finished,
        user_statuses=users,
        topic_statuses=topics,
        settled=not builder.actions
        and not builder.waits
        and not inventory.in_states(DiskState.REMOVED)  # the next pass drops their records
        and not unsettled(users)
        and not unsettled_topics(topics),
    )


def _topic_tally(state: ClusterState, statuses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``status.topics``; as before while KafkaTopics cannot be listed."""
    if "kafkatopics" in state.snap.unknown:
        return {"topics": state.status["topics"]} if state.status.get("topics") else {}
    total = len(state.snap.topics)
    ready = topic_states(state.snap.topics, statuses)[TOPIC_READY]
    return {"topics": {"total": total, "ready": ready, "summary": f"{ready}/{total}"}} if total else {}


def _moving(inventory: DiskInventory) -> bool:
    """Whether replicas move for another reason than a KafkaRebalance."""
    journal = inventory.journal
    return journal is not None and any(move.reason != REBALANCE for move in journal.moves)


def _blind(state: ClusterState, kinds: list[str]) -> Waiting:
    return Waiting(
        "Reconcile",
        f"KafkaCluster/{state.name}",
        "CannotRead",
        f"{some(kinds)} could not be read, so it is unknown what exists. Spindle changes nothing meanwhile.",
        "Check that the API server answers, that the operator's role allows to list them, and that the namespace holds no more than Spindle reads for one KafkaCluster (96 MiB, and in proportion more with the chart value allow.disksPerCluster above 5000). "
        "The operator's log has the cause.",
    )


def _untold(builder: PlanBuilder) -> list[Event]:
    """Events of the pass, without those of KafkaBrokers whose status will not be written because this pass changes them.

    The next pass reports these again, since they are not in the status yet. Warnings are reported at once.
    """
    changed = {
        str(action.object["metadata"]["name"]) if isinstance(action, Apply) else action.name
        for action in builder.actions
        if (isinstance(action, Apply) and action.object["kind"] == "KafkaBroker")
        or (isinstance(action, Patch) and action.kind == "KafkaBroker")
    }
    return [
        e for e in builder.events if e.type == "Warning" or e.kind != "KafkaBroker" or e.name not in changed
    ]


def _events(state: ClusterState, builder: PlanBuilder) -> tuple[Event, ...]:
    """An event for each waiting entry that is new and not part of every normal start; for those that the status has no room for, none in each pass."""
    known = {(w.get("action"), w.get("object"), w.get("reason")) for w in state.status.get("waiting") or ()}
    return tuple(
        Event(
            type="Warning",
            reason=wait.reason,
            message=wait.sentence,
            kind="KafkaCluster",
            name=state.name,
            uid=objects.uid(state.cluster),
        )
        for wait in builder.listed
        if not wait.quiet and wait.key not in known
    )


def _not_understood(snapshot: ClusterSnapshot, error: ValidationError, now: float) -> ReconcilePlan:
    """A spec that the API server accepted and this version cannot parse: the CRDs are of another version."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    message = f"spec.{where}: {first['msg']}"
    generation = snapshot.cluster["metadata"].get("generation", 0)
    text = f"{message}. Spindle changes nothing. To resolve: correct the field, or install the CRDs of this chart."
    before = snapshot.cluster.get("status") or {}
    rows = [
        (kind, value, "InvalidSpec", text)
        for kind, value in (("Ready", "Unknown"), ("Reconciling", "False"), ("Stalled", "True"))
    ]
    name = str(snapshot.cluster["metadata"]["name"])
    # The latter says that the cluster was ready once.
    kept = {key: before[key] for key in ("formerUsers", "version") if before.get(key)}
    return ReconcilePlan(
        status={
            **kept,
            "observedGeneration": generation,
            "phase": f"The spec cannot be parsed: {message}.",
            "conditions": as_conditions(rows, before, generation, now),
        },
        events=(
            Event("Warning", "InvalidSpec", message, "KafkaCluster", name, objects.uid(snapshot.cluster)),
        ),
    )
