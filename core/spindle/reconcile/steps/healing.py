"""Everything that decides what happens to a bad disk, in one pass: lives, losses, fences, emptying, refilling.

What a step decides goes into records, waits and wants; what has to follow on the records, or come last, is handed back.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from spindle.cluster import names
from spindle.cluster.refusal import Refusal, counted, some
from spindle.cluster.view import Partition
from spindle.disks import facts
from spindle.disks.lifecycle import DiskState
from spindle.disks.remedy import Remedy
from spindle.manifests.identity import NodeIdentity
from spindle.moves.journal import DroppedReplica, Journal
from spindle.moves.missing_replicas import taken_over
from spindle.reconcile import objects
from spindle.reconcile.actions import Delete, ElectUnclean, Reassign
from spindle.reconcile.broker_disks import HUNG, BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder, Wait
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.agent_health import report_silent_agents, report_starved_nodes
from spindle.reconcile.steps.brokers import BrokerRecords
from spindle.reconcile.steps.data_loss import find_losses, reconcile_losses
from spindle.reconcile.steps.disk_replacement import (
    backfill_new_disks,
    reconcile_replacements,
    restore_dropped,
)
from spindle.reconcile.steps.disk_states import advance_states, remedy_of
from spindle.reconcile.steps.evacuation import (
    bad_dirs,
    closed_dirs,
    merge_requests,
    reconcile_evacuation,
    still_cordoned,
)
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.steps.exclude_disks import reconcile_excluded_disks
from spindle.reconcile.steps.fencing import brokers_without_disks, reconcile_fences, reconcile_starts
from spindle.reconcile.steps.leadership import reconcile_leadership
from spindle.reconcile.steps.moves import MoveRequests
from spindle.reconcile.steps.pods import SCALED_IN, STOPPED
from spindle.reconcile.steps.remove_disks import find_leaving
from spindle.reconcile.steps.scale_in import find_scaling_in, reconcile_scale_in
from spindle.reconcile.steps.stalled_rollout import CHANGES
from spindle.thresholds.drop_for_space import DROP_FOR_SPACE

_HEAL: Final = "RecoverDisks"
_ADDED: Final = "DisksAdded"
_NEED_NOT_WAIT: Final = frozenset(
    {"Fenced", "DiskReturned", "DiskUnusable", "RestartWithDisk", "RestartWithoutDisk", SCALED_IN}
)


@dataclass
class HealingResult:
    """What comes of it.

    Attributes:
        requests: for the executor of moves.
        fences: to be carried out after the records are written.
        elections: to be carried out last.
        held: brokers that are not taken down in this pass; the next one asks again.
    """

    inventory: DiskInventory
    requests: MoveRequests = field(default_factory=MoveRequests)
    fences: list[Delete] = field(default_factory=list)
    elections: list[ElectUnclean | Reassign] = field(default_factory=list)
    held: frozenset[int] = frozenset()


def observe_only(state: ClusterState, builder: PlanBuilder) -> DiskInventory:
    """Disks' lives where nothing is to be done: paused, or without what has to be known."""
    inventory = DiskInventory(state, None)
    inventory.losses = find_losses(inventory)
    inventory.scaling_in = find_scaling_in(inventory, builder, acting=False)
    inventory.removing = find_leaving(inventory, builder, acting=False)
    advance_states(inventory, builder, acting=False)
    return inventory


def reconcile_healing(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    identity: NodeIdentity,
    wanted: dict[int, RestartRequest],
    journal: Journal | None,
) -> HealingResult:
    """Decide about every disk."""
    inventory = DiskInventory(state, journal)
    inventory.losses = find_losses(inventory)
    elections = reconcile_losses(inventory, builder)
    inventory.scaling_in = find_scaling_in(inventory, builder, acting=True)
    inventory.removing = find_leaving(inventory, builder, acting=True)
    fills, filled = backfill_new_disks(inventory)
    advance_states(inventory, builder, acting=True, filled=filled)
    if (
        any(inventory.state_of(slot) is DiskState.FAILED for slot in inventory.slots)
        and inventory.correlated_failures is not None
    ):
        builder.wait(Wait.refused(_HEAL, f"KafkaCluster/{state.name}", inventory.correlated_failures))
    lost = brokers_without_disks(inventory, builder)
    back = restore_dropped(inventory, builder)
    requests = merge_requests(
        MoveRequests(moves=back), reconcile_evacuation(inventory, builder, records, lost)
    )
    reconcile_starts(inventory, records, wanted)
    reconcile_excluded_disks(inventory, builder, records)
    fences = reconcile_fences(inventory, builder, records)
    report_silent_agents(inventory, builder)
    report_starved_nodes(inventory, builder)
    reconcile_replacements(inventory, builder, records)
    for slot in inventory.slots:
        _bring_back(inventory, builder, slot, wanted)
    held = reconcile_scale_in(inventory, builder, records, identity, wanted)
    _name_reasons(inventory, wanted)
    return HealingResult(
        inventory,
        replace(
            merge_requests(requests, MoveRequests(moves=fills)),
            closed=bad_dirs(inventory) | closed_dirs(inventory),
            bad=bad_dirs(inventory),
            leads=reconcile_leadership(inventory, builder),
        ),
        fences,
        elections,
        held=still_cordoned(inventory) | held,
    )


def restore_pending(
    journal: Journal | None, partitions: Iterable[Partition] | None, wanted: Mapping[int, RestartRequest]
) -> dict[int, Refusal]:
    """Who has to wait: what left its assignment comes back before anybody restarts for another reason than a disk (rule 5).

    To be asked when all are known who should go down. One that Kafka has shut out is in sync with nothing: its restart costs nobody.

    What was given up for want of room may need the very disk that a broker restarts to take up. Whom its partitions can spare rule 2 says: the
    broker that gave it up is in sync with none of them.
    """
    others = taken_over(journal, {(p.topic, p.index): p for p in partitions or ()})
    dropped = tuple(e for e in journal.dropped if e.key not in others) if journal is not None else ()
    dead = tuple(entry for entry in dropped if entry.reason != DROP_FOR_SPACE)
    refused = {}
    for node, why in wanted.items():
        if node >= names.FIRST_CONTROLLER_ID or why.reason in _NEED_NOT_WAIT:
            continue
        holding = dead if why.reason == _ADDED else dropped
        if (
            why.reason == STOPPED
        ):  # it is in sync with none of its own, and they come back only after it has started again
            holding = tuple(entry for entry in holding if entry.broker != node)
        if holding:
            refused[node] = _one_less(holding)
    return refused


def to_restart(requests: MoveRequests) -> frozenset[int]:
    """Brokers that are to restart next, because replicas leave their dead disks in this very pass: nobody else goes down in it."""
    return frozenset(entry.broker for entry in requests.shrinks if not entry.reason)


def _one_less(dropped: Sequence[DroppedReplica]) -> Refusal:
    named = sorted({f"{entry.topic}-{entry.partition}" for entry in dropped})
    return Refusal(
        rule=5,
        reason="ReplicaRestorePending",
        message=f"{counted(len(named), 'partition')} has one replica less than it should have, because of a dead or overfull disk, or of a "
        f"corrupt segment: {some(named)}. It comes back before a broker restarts for another reason.",
        unblocked_by="The replicas are back, which happens by itself once their broker runs without the dead disk, or the full one has "
        "room.",
        objects=tuple(named),
    )


def _bring_back(
    inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, wanted: dict[int, RestartRequest]
) -> None:
    """A disk that answers, but that Kafka has given up, comes back by a restart of its broker.

    That is no action against a disk, so rule 9 does not hold it back: where many went bad for a moment, it is how all come back.
    """
    if inventory.state_of(slot) not in (DiskState.FAILED, DiskState.EVACUATING):
        return
    what = remedy_of(inventory, slot)
    broker = objects.name(inventory.state.brokers[slot.broker])
    if what is Remedy.RESTART and slot.mode == facts.ACTIVE and slot.running:
        # A disk goes before any other reason but a person's: it need not wait for what has to grow back first.
        if slot.broker not in wanted or wanted[slot.broker].reason in CHANGES:
            why = f"{slot.name} answers again, and Kafka takes it up only at its start"
            wanted[slot.broker] = RestartRequest("DiskReturned", why)
    elif inventory.state_of(slot) is DiskState.EVACUATING and not _tried_again(slot, what):
        return
    elif slot.mode == facts.PLACEHOLDER:
        builder.wait(_set_aside(broker, slot))
    elif what in (Remedy.WAIT, Remedy.RESTART) and slot.health.reason != HUNG:
        said = slot.health.message.rstrip(".") or "It failed"
        builder.wait(
            Wait(
                "ActivateDisk",
                f"KafkaBroker/{broker}/{slot.name}",
                "DiskOffline",
                f"{slot.name} of {broker}: {said}. The broker goes on with its other disks, and the partitions that were on this one "
                "with their other replicas.",
                "Nothing needs to be done: if the disk is well for half a minute its broker is restarted with it, else its replicas "
                "are made anew on other disks. A full disk needs space.",
            )
        )


def _tried_again(slot: BrokerDisk, what: Remedy) -> bool:
    """Whether a Kafka that was started while its disk was being emptied has the time to settle that each start has."""
    return what is Remedy.WAIT and slot.mode == facts.ACTIVE and slot.running


def _set_aside(broker: str, slot: BrokerDisk) -> Wait:
    return Wait(
        "ActivateDisk",
        f"KafkaBroker/{broker}/{slot.name}",
        "DiskExcluded",
        f"{broker} was started without {slot.name}, which could not be used. {slot.health.message}",
        "If the disk is well again, the broker is restarted with it (where no agent looks at it: stop the broker by spec.stopped and "
        "start it again); else its replicas are made anew on other disks.",
    )


def _name_reasons(inventory: DiskInventory, wanted: dict[int, RestartRequest]) -> None:
    """Say of a restart that changes a broker's disks that it does."""
    for broker, mine in inventory.by_broker.items():
        if broker not in wanted or wanted[broker].reason != "SpecChanged":
            continue
        goes = [s.name for s in mine if s.in_pod is not None and s.mode not in (facts.ACTIVE, s.in_pod)]
        comes = [s.name for s in mine if s.in_pod != facts.ACTIVE and s.mode == facts.ACTIVE]
        if goes:
            wanted[broker] = RestartRequest("RestartWithoutDisk", f"it goes on without {', '.join(goes)}")
        elif comes:
            # What was added can wait for what has to grow back first; what heals can't.
            heals = any(s.name in comes and not s.added for s in mine)
            wanted[broker] = RestartRequest(
                "RestartWithDisk" if heals else _ADDED, f"it takes up {', '.join(comes)}"
            )
