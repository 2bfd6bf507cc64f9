"""The phases of a pass, in order.

A phase is a function whose parameters name what it reads: ``state`` and ``builder`` of the pass, or what an earlier phase provides. Three kinds of
order matter beyond that: changes to KafkaBrokers (``records``) and restarts (``wanted``) are collected until the phase that closes them; requests
to Kafka come last, because one that Kafka rejects ends the pass; a phase that must not run before something is known ends the pass without it.
`tests/unit/test_phases.py` holds the order to these declarations.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from spindle.brokers.claim_metadata import reconcile_claim_metadata
from spindle.brokers.claims import reconcile_claims
from spindle.brokers.cluster_identity import reconcile_identity
from spindle.brokers.missing_brokers import report_missing_brokers
from spindle.brokers.pools_record import reconcile_pools
from spindle.brokers.records import reconcile_brokers, write_records
from spindle.brokers.reservations import release_unneeded
from spindle.brokers.stopped_leaders import report_stopped_leaders
from spindle.config.broker_settings import reconcile_dynamic_config
from spindle.config.config_maps import reconcile_configuration
from spindle.controllers.membership import reconcile_controllers
from spindle.controllers.static_quorum import reconcile_static_quorum
from spindle.disks.agent_health import report_clocks, report_silent_agents, report_starved_nodes
from spindle.disks.all_disks_lost import report_all_disks_lost
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.exclude_disks import reconcile_excluded_disks
from spindle.disks.preflight_findings import reconcile_disks
from spindle.evacuation.disk_replacement import reconcile_replacements, restore_dropped
from spindle.evacuation.fenced_broker import reconcile_fenced_brokers
from spindle.evacuation.fencing import brokers_without_disks, reconcile_fences, reconcile_starts
from spindle.evacuation.leadership_moves import still_leads
from spindle.evacuation.node_loss import reconcile_node_loss
from spindle.evacuation.requests import reconcile_evacuation, still_cordoned
from spindle.evacuation.restore_rack_spread import reconcile_rack_spread
from spindle.evacuation.served_alone import hold_restarts
from spindle.listeners.services import reconcile_services
from spindle.model.actions import Action, ElectUnclean, Reassign
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import RestartRequest
from spindle.model.state import ClusterState
from spindle.model.versions import unsupported
from spindle.model.waiting import Waiting
from spindle.moves.carry_out import carry_out, load_journal, reconcile_moves
from spindle.moves.journal import Journal
from spindle.moves.missing_replicas import meant
from spindle.moves.outcome import StepResult
from spindle.moves.requests import MoveRequests, merge_requests
from spindle.proposals.rebalance_job import reconcile_job
from spindle.proposals.reconciler import ProposalResult, reconcile_proposals
from spindle.reconcile.accepted_spec import (
    hold_unrecorded,
    nothing_accepted,
    report_rejected,
    report_tolerated,
)
from spindle.reconcile.healing import (
    assess_disks,
    bring_back_disks,
    healing_requests,
    name_restart_reasons,
    removal_pending,
    report_correlated_failures,
    restore_pending,
)
from spindle.reconcile.phase import Phase
from spindle.reconcile.problems import report_nodes, report_problems
from spindle.rollout.eviction import EvictionLimits, reconcile_evictions
from spindle.rollout.out_of_sync import report_out_of_sync
from spindle.rollout.overdue_starts import report_overdue_starts
from spindle.rollout.pods import reconcile_pods
from spindle.rollout.readiness_gates import reconcile_gates
from spindle.rollout.template_trials import try_templates
from spindle.rollout.upgrade import reconcile_upgrade
from spindle.rollout.zone_drains import reconcile_drains
from spindle.samples.topics import reconcile_samples
from spindle.scaling.scale_in import reconcile_scale_in
from spindle.scrub.scrubbing import reconcile_scrub
from spindle.security.agent_access import reconcile_agents
from spindle.security.client_racks import reconcile_client_racks
from spindle.security.listener_certificates import reconcile_listener_certificates
from spindle.security.network_policies import reconcile_policies
from spindle.security.secrets import reconcile_admin, reconcile_rebalance, reconcile_security
from spindle.storage.add_disks import reconcile_added_disks
from spindle.storage.readoption import reconcile_readoption
from spindle.storage.remove_disks import reconcile_removed_disks
from spindle.storage.volume_expansion import reconcile_volume_sizes
from spindle.thresholds.reconciler import ThresholdResult, reconcile_thresholds
from spindle.topics.reconciler import reconcile_topics
from spindle.topics.replication import ReplicaChanges, change_replicas
from spindle.users.former_users import reconcile_former_users
from spindle.users.reconciler import reconcile_users


def check_spec(state: ClusterState, builder: PlanBuilder) -> bool | None:
    """None if there is no spec that can be applied: its release is not supported, or Kafka does not accept its settings."""
    why = unsupported(state.spec.version)
    if why is not None:
        builder.wait(Waiting.of("RunVersion", f"KafkaCluster/{state.name}", why))
        return None
    report_rejected(state, builder)
    report_tolerated(state, builder)
    return None if nothing_accepted(state) else True


def collect_records() -> BrokerRecords:
    """Changes to KafkaBrokers, empty at first: later phases add to it."""
    return BrokerRecords()


def merge_all(
    inventory: DiskInventory, healing: MoveRequests, relief: ThresholdResult, repairs: MoveRequests
) -> MoveRequests:
    """All moves that no user asked for, in order of urgency."""
    requested = merge_requests(merge_requests(healing, relief.requests), repairs)
    return reconcile_rack_spread(inventory, requested)


def move_replicas(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    journal: Journal | None,
    automatic: MoveRequests,
    replica_changes: ReplicaChanges,
    proposed: ProposalResult,
) -> tuple[StepResult | None, Journal | None]:
    """The next step of the executor, None without a journal; and the journal after it."""
    if journal is None:
        return None, None
    requests = merge_requests(automatic, replica_changes.requests)
    outcome = reconcile_moves(state, builder, records, journal, merge_requests(requests, proposed.requests))
    return outcome, outcome.journal


def drain_zones(state: ClusterState, builder: PlanBuilder, next_journal: Journal | None) -> frozenset[int]:
    """Move pods between budgets; see `reconcile_drains`."""
    return reconcile_drains(state, builder, meant(next_journal, state.kafka.partition_index.by_key))


def limit_evictions(
    builder: PlanBuilder,
    inventory: DiskInventory,
    healing: MoveRequests,
    next_journal: Journal | None,
    wanted: Mapping[int, RestartRequest],
    held_controllers: Mapping[int, Waiting],
    held_brokers: frozenset[int],
    drained: frozenset[int],
    untried: Mapping[int, Waiting],
) -> EvictionLimits:
    """What holds evictions back, with every replica counted that leaves its assignment in this pass."""
    partitions = inventory.state.kafka.partition_index.by_key
    # Brokers whose failed disks lose replicas in this pass have to restart next: no other broker goes down with them.
    restart_next = frozenset(entry.broker for entry in healing.shrinks if not entry.reason)
    return EvictionLimits(
        held=still_cordoned(inventory) | held_brokers | still_leads(inventory, builder, healing.leads),
        refused={
            **removal_pending(next_journal, partitions, wanted),
            **restore_pending(next_journal, partitions, wanted),
            **hold_restarts(inventory, wanted),
            **held_controllers,
            **untried,
        },
        given=drained | restart_next,
        before=meant(next_journal, partitions),
    )


def request_elections(builder: PlanBuilder, elections: Sequence[ElectUnclean | Reassign]) -> None:
    """Elect surviving replicas."""
    builder.do(*elections)


def request_moves(builder: PlanBuilder, moved: StepResult | None) -> None:
    """Send the executor's requests to Kafka."""
    if moved is not None:
        carry_out(builder, moved)


def request_deletions(builder: PlanBuilder, relief: ThresholdResult, sample_topics: Sequence[Action]) -> None:
    """Delete records of full disks; create and configure the topics of the samples."""
    builder.do(*relief.trims, *sample_topics)


PHASES: Final = (
    Phase(check_spec, provides="spec_checked", required=True),
    Phase(reconcile_upgrade),
    Phase(reconcile_identity, provides="identity", required=True),
    Phase(reconcile_static_quorum),
    Phase(collect_records, provides="records"),
    Phase(reconcile_services),
    Phase(reconcile_policies),
    Phase(reconcile_pools),
    Phase(reconcile_brokers),
    Phase(reconcile_agents),
    Phase(reconcile_security),
    Phase(reconcile_listener_certificates),
    Phase(reconcile_job),
    Phase(reconcile_claims),
    Phase(reconcile_claim_metadata),
    Phase(reconcile_volume_sizes),
    Phase(reconcile_configuration),
    Phase(reconcile_pods, provides="wanted"),
    Phase(reconcile_disks),
    Phase(reconcile_readoption),
    Phase(reconcile_controllers, provides="held_controllers"),
    Phase(load_journal, provides="journal"),
    Phase(assess_disks, provides=("inventory", "elections", "backfills")),
    Phase(report_correlated_failures),
    Phase(brokers_without_disks, provides="lost_brokers"),
    Phase(restore_dropped, provides="restores"),
    Phase(reconcile_evacuation, provides=("evacuation", "blocked")),
    Phase(reconcile_starts),
    Phase(reconcile_excluded_disks),
    Phase(reconcile_fences, provides="fences"),
    Phase(report_silent_agents),
    Phase(report_starved_nodes),
    Phase(reconcile_replacements),
    Phase(bring_back_disks),
    Phase(reconcile_scale_in, provides="held_brokers"),
    Phase(name_restart_reasons),
    Phase(healing_requests, provides="healing"),
    Phase(report_all_disks_lost),
    Phase(reconcile_fenced_brokers),
    Phase(reconcile_dynamic_config),
    Phase(reconcile_added_disks),
    Phase(reconcile_removed_disks),
    Phase(reconcile_node_loss),
    Phase(release_unneeded),
    Phase(reconcile_thresholds, provides="relief"),
    Phase(reconcile_scrub, provides="repairs"),
    Phase(merge_all, provides="automatic"),
    Phase(change_replicas, provides="replica_changes"),
    Phase(reconcile_samples, provides="sample_topics"),
    Phase(reconcile_proposals, provides="proposed"),
    Phase(move_replicas, provides=("moved", "next_journal")),
    Phase(write_records, closes="records"),
    Phase(drain_zones, provides="drained"),
    Phase(try_templates, provides="untried"),
    Phase(limit_evictions, provides="limits", closes="wanted"),
    Phase(reconcile_evictions),
    Phase(reconcile_gates),
    Phase(reconcile_admin),
    Phase(reconcile_rebalance),
    Phase(reconcile_client_racks),
    Phase(request_elections),
    Phase(request_moves),
    Phase(request_deletions),
    Phase(hold_unrecorded),
)

# After a complete pass, unless the KafkaUsers could not be read.
USER_PHASES: Final = (
    Phase(reconcile_users, provides="users"),
    Phase(reconcile_former_users, provides="former_users"),
)

# After those, so that no KafkaTopic holds up anything else.
TOPIC_PHASES: Final = (Phase(reconcile_topics, provides="topics"),)

# Also while the cluster is paused, or while not everything could be read.
REPORT_PHASES: Final = (
    Phase(report_nodes),
    Phase(report_problems),
    Phase(report_missing_brokers),
    Phase(report_stopped_leaders),
    Phase(report_overdue_starts),
    Phase(report_out_of_sync),
    Phase(report_clocks),
)
