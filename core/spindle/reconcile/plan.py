"""observe → **plan** → act → report: one pure function from a snapshot to actions and status."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from spindle.brokers.claims import reconcile_claims
from spindle.brokers.cluster_identity import reconcile_identity
from spindle.brokers.pools_record import reconcile_pools
from spindle.brokers.records import reconcile_brokers, write_records
from spindle.config.broker_settings import reconcile_dynamic_config
from spindle.config.config_maps import reconcile_configuration
from spindle.controllers.membership import reconcile_controllers
from spindle.controllers.static_quorum import reconcile_static_quorum
from spindle.disks.agent_health import report_clocks
from spindle.disks.all_disks_lost import report_all_disks_lost
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.preflight_findings import reconcile_disks
from spindle.evacuation.data_loss import at_risk
from spindle.evacuation.fenced_broker import reconcile_fenced_brokers
from spindle.evacuation.leadership_moves import still_leads
from spindle.evacuation.node_loss import reconcile_node_loss
from spindle.evacuation.requests import merge_requests
from spindle.evacuation.restore_rack_spread import reconcile_rack_spread
from spindle.listeners.services import reconcile_services
from spindle.model import objects
from spindle.model.actions import Apply, Patch
from spindle.model.broker_records import BrokerRecords
from spindle.model.condition_rows import as_conditions
from spindle.model.events import Event, ReconcilePlan
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import RestartRequest
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.state import ClusterState, read_state
from spindle.model.versions import unsupported
from spindle.model.waiting import Waiting, some
from spindle.moves.carry_out import carry_out, load_journal, reconcile_moves
from spindle.moves.journal import Journal
from spindle.moves.missing_replicas import meant
from spindle.proposals.proposal import REASON as REBALANCE
from spindle.proposals.rebalance_job import reconcile_job
from spindle.proposals.reconciler import reconcile_proposals
from spindle.reconcile.accepted_spec import (
    as_accepted,
    hold_unrecorded,
    nothing_accepted,
    report_rejected,
    report_tolerated,
)
from spindle.reconcile.broker_status import broker_statuses
from spindle.reconcile.deletion import reconcile_deletion
from spindle.reconcile.healing import (
    HealingResult,
    observe_only,
    reconcile_healing,
    restore_pending,
    to_restart,
)
from spindle.reconcile.problems import report_nodes, report_problems, report_racks
from spindle.reconcile.status import cluster_status
from spindle.rollout.eviction import reconcile_evictions
from spindle.rollout.overdue_starts import report_overdue_starts
from spindle.rollout.pods import reconcile_pods
from spindle.rollout.readiness_gates import reconcile_gates
from spindle.rollout.upgrade import reconcile_upgrade
from spindle.rollout.zone_drains import reconcile_drains
from spindle.samples.topics import reconcile_samples
from spindle.scrub.scrubbing import reconcile_scrub
from spindle.security.agent_access import reconcile_agents
from spindle.security.name_conflicts import leave_alone
from spindle.security.network_policies import reconcile_policies
from spindle.security.secrets import reconcile_admin, reconcile_rebalance, reconcile_security
from spindle.storage.add_disks import reconcile_added_disks
from spindle.storage.readoption import reconcile_readoption
from spindle.storage.remove_disks import reconcile_removed_disks
from spindle.storage.volume_expansion import reconcile_volume_sizes
from spindle.thresholds.reconciler import reconcile_thresholds
from spindle.users.former_users import reconcile_former_users
from spindle.users.reconciler import reconcile_users, unsettled

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
    finished, done = False, PassResult()
    users: dict[str, dict[str, Any]] = {}
    former: list[dict[str, Any]] | None = None
    # The external address of a listener is in its Services.
    outside = any(listener.type != "internal" for listener in state.spec.listeners)
    blind = sorted(snapshot.unknown & (_NEEDED | {"services"} if outside else _NEEDED))
    if blind:
        builder.wait(_blind(state, blind))
    elif objects.deleting(snapshot.cluster):
        finished = reconcile_deletion(state, builder)
    elif not state.spec.paused:
        done = _steps(state, builder)
        if done.inventory is not None and "kafkausers" not in snapshot.unknown:
            users = reconcile_users(state, builder)
            former = reconcile_former_users(state, builder)
    if not finished:
        report_nodes(state, builder)
        report_problems(state, builder)
        report_overdue_starts(state, builder)
        report_clocks(state, builder)
    inventory = done.inventory or observe_only(state, builder)
    if not finished:
        report_racks(state, builder, inventory.journal)
    leave_alone(state, builder)
    statuses = broker_statuses(state, inventory.states, inventory.usages)
    return ReconcilePlan(
        actions=tuple(builder.actions),
        status=cluster_status(
            state, builder, statuses, at_risk(inventory), former, moving=_moving(inventory)
        ),
        broker_statuses={} if objects.deleting(snapshot.cluster) else statuses,
        rebalance_statuses=done.rebalances,
        events=(*_untold(builder), *_events(state, builder)),
        finished=finished,
        user_statuses=users,
        settled=not builder.actions and not builder.waits and not unsettled(users),
    )


@dataclass(frozen=True)
class PassResult:
    """Results of the steps besides their actions.

    Attributes:
        inventory: of the disks; None if no step ran.
        rebalances: KafkaRebalance → its status.
    """

    inventory: DiskInventory | None = None
    rebalances: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _steps(state: ClusterState, builder: PlanBuilder) -> PassResult:
    """All steps for a cluster that is not being deleted."""
    if not _may_begin(state, builder):
        return PassResult()
    reconcile_upgrade(state, builder)
    identity = reconcile_identity(state, builder)
    if identity is None:
        return PassResult()
    reconcile_static_quorum(state, builder, identity)
    records = BrokerRecords()
    reconcile_services(state, builder)
    reconcile_policies(state, builder)
    reconcile_pools(state, builder)
    reconcile_brokers(state, builder, records)
    nodes = (*state.controller_ids, *state.staying)
    reconcile_agents(state, builder)
    reconcile_security(state, builder, nodes)
    reconcile_job(state, builder)
    reconcile_claims(state, builder, identity)
    reconcile_volume_sizes(state, builder, identity)
    reconcile_configuration(state, builder, identity)
    wanted = reconcile_pods(state, builder, identity)
    reconcile_disks(state, builder, identity, records, wanted)
    reconcile_readoption(state, builder, records)
    staying = reconcile_controllers(state, builder, identity, wanted)
    journal = load_journal(state, builder)
    healed = reconcile_healing(state, builder, records, identity, wanted, journal)
    report_all_disks_lost(healed.inventory, builder)
    reconcile_fenced_brokers(state, wanted)
    reconcile_dynamic_config(state, builder, wanted)
    reconcile_added_disks(healed.inventory, builder, records, identity)
    reconcile_removed_disks(healed.inventory, builder, records, identity)
    reconcile_node_loss(healed.inventory, builder, records, identity)
    relief = reconcile_thresholds(healed.inventory, builder, records)
    scrubbing = reconcile_scrub(healed.inventory, builder, records)
    requests = reconcile_rack_spread(
        healed.inventory, merge_requests(merge_requests(healed.requests, relief.requests), scrubbing)
    )
    topics = reconcile_samples(state, builder, records)
    proposed = reconcile_proposals(healed.inventory, builder, requests)
    requests = merge_requests(requests, proposed.requests)
    outcome = reconcile_moves(state, builder, records, journal, requests) if journal is not None else None
    write_records(records, state, builder)
    _take_down(state, builder, healed, outcome.journal if outcome is not None else journal, wanted, staying)
    reconcile_gates(state, builder)
    reconcile_admin(state, builder)
    reconcile_rebalance(state, builder)
    builder.do(*healed.elections)
    if outcome is not None:
        carry_out(builder, outcome)
    builder.do(*relief.trims, *topics)
    hold_unrecorded(state, builder)
    return PassResult(healed.inventory, proposed.statuses)


def _may_begin(state: ClusterState, builder: PlanBuilder) -> bool:
    """Whether there is a spec that can be applied: its release is supported, and Kafka accepts its settings."""
    why = unsupported(state.spec.version)
    if why is not None:
        builder.wait(Waiting.of("RunVersion", f"KafkaCluster/{state.name}", why))
        return False
    report_rejected(state, builder)
    report_tolerated(state, builder)
    return not nothing_accepted(state)


def _moving(inventory: DiskInventory) -> bool:
    """Whether replicas move for another reason than a KafkaRebalance."""
    journal = inventory.journal
    return journal is not None and any(move.reason != REBALANCE for move in journal.moves)


def _take_down(
    state: ClusterState,
    builder: PlanBuilder,
    healed: HealingResult,
    journal: Journal | None,
    wanted: Mapping[int, RestartRequest],
    staying: Mapping[int, Waiting],
) -> None:
    """Restarts, with every replica counted that leaves its assignment in this pass: ``journal`` is as it will be after it."""
    partitions = state.kafka.partitions
    before = meant(journal, partitions)
    given = reconcile_drains(state, builder, before)
    reconcile_evictions(
        state,
        builder,
        wanted,
        held=healed.held | still_leads(healed.inventory, builder, healed.requests.leads),
        refused={**restore_pending(journal, partitions, wanted), **staying},
        given=given | to_restart(healed.requests),
        before=before,
        fences=healed.fences,
        shrinks=healed.inventory.blocked,
    )


def _blind(state: ClusterState, kinds: list[str]) -> Waiting:
    return Waiting(
        "Reconcile",
        f"KafkaCluster/{state.name}",
        "CannotRead",
        f"{some(kinds)} could not be read, so it is unknown what exists. Spindle changes nothing meanwhile.",
        "Check that the API server answers, that the operator's role allows to list them, and that the namespace holds no more than Spindle reads for one KafkaCluster (96 MiB). "
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
    """An event for each waiting entry that is new and not part of every normal start."""
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
        for wait in builder.waits
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
