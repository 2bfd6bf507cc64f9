"""Decides what happens to failed disks in a pass: disk states, losses, fences, evacuation, replacement.

Each step writes to records, waits and restart requests. Actions that must follow the records, or come last, are returned.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.disks.broker_disks import EXCLUDED, HUNG, BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.disk_states import advance_states, remedy_of
from spindle.disks.remedy import Remedy
from spindle.evacuation.data_loss import find_losses, reconcile_losses
from spindle.evacuation.disk_replacement import backfill_new_disks
from spindle.evacuation.leadership_moves import reconcile_leadership
from spindle.evacuation.requests import bad_dirs, closed_dirs
from spindle.model import disk_facts, objects
from spindle.model.actions import ElectUnclean, Reassign
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key
from spindle.model.requests import SCALED_IN, STOPPED, RestartRequest
from spindle.model.state import ClusterState
from spindle.model.view import Partition
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import DROP_FOR_SPACE, DroppedReplica, Journal, Move
from spindle.moves.missing_replicas import taken_over
from spindle.moves.removals import losing
from spindle.moves.requests import MoveRequests, merge_requests
from spindle.rollout.stalled_rollout import CHANGES
from spindle.scaling.scale_in import find_scaling_in
from spindle.storage.remove_disks import find_leaving

_HEAL: Final = "RecoverDisks"
_ADDED: Final = "DisksAdded"
_FENCED: Final = "Fenced"  # it is in no ISR
_NEED_NOT_WAIT: Final = frozenset(
    {_FENCED, "DiskReturned", "DiskUnusable", "RestartWithDisk", "RestartWithoutDisk", SCALED_IN}
)


def observe_only(state: ClusterState, builder: PlanBuilder, journal: Journal | None = None) -> DiskInventory:
    """Compute the disk states without acting: while paused, or while required information is missing."""
    inventory = DiskInventory(state, journal)
    inventory.losses = find_losses(inventory)
    inventory.given_up = frozenset()
    inventory.scaling_in = find_scaling_in(inventory, builder, acting=False)
    inventory.removing = find_leaving(inventory, builder, acting=False)
    inventory.states = advance_states(inventory, builder, acting=False)
    return inventory


def assess_disks(
    state: ClusterState, builder: PlanBuilder, journal: Journal | None
) -> tuple[DiskInventory, list[ElectUnclean | Reassign], tuple[Move, ...]]:
    """Observe all disks, decide what is lost, scaled in and removed, and advance the state of every disk.

    Returns:
        The inventory, which is complete; elections, which come last in the pass; moves that fill new disks.
    """
    inventory = DiskInventory(state, journal)
    inventory.losses = find_losses(inventory)
    inventory.given_up, elections = reconcile_losses(inventory, builder)
    inventory.scaling_in = find_scaling_in(inventory, builder, acting=True)
    inventory.removing = find_leaving(inventory, builder, acting=True)
    fills, filled = backfill_new_disks(inventory)
    inventory.states = advance_states(inventory, builder, acting=True, filled=filled)
    return inventory, elections, fills


def report_correlated_failures(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Report that too many disks failed at once for Spindle to act by itself."""
    failed = inventory.in_states(DiskState.FAILED)
    if failed and inventory.correlated_failures is not None:
        cluster = f"KafkaCluster/{inventory.state.name}"
        builder.wait(Waiting.of(_HEAL, cluster, inventory.correlated_failures))


def healing_requests(
    inventory: DiskInventory,
    builder: PlanBuilder,
    restores: tuple[Move, ...],
    evacuation: MoveRequests,
    backfills: tuple[Move, ...],
) -> MoveRequests:
    """All requests for the executor that failed, drained and new disks lead to."""
    requests = merge_requests(MoveRequests(moves=restores), evacuation)
    return replace(
        merge_requests(requests, MoveRequests(moves=backfills)),
        closed=bad_dirs(inventory) | closed_dirs(inventory),
        bad=bad_dirs(inventory),
        leads=reconcile_leadership(inventory, builder),
    )


def restore_pending(
    journal: Journal | None, partitions: Mapping[Key, Partition], wanted: Mapping[int, RestartRequest]
) -> dict[int, Waiting]:
    """Brokers whose restart has to wait, with the reason: dropped replicas are restored before a broker restarts for another reason than a disk.

    See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5). Call it when all restart requests are known. A fenced broker need not
    wait: it is in no ISR, so its restart harms nothing.

    Replicas dropped for lack of space do not hold back a restart that adds a disk, as they may need exactly that disk. For their partitions,
    "no restart below min.insync.replicas" (rule 2) applies as usual: the broker that dropped them is in none of their ISRs.
    """
    others = taken_over(journal, partitions)
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
            refused[node] = _restore_first(holding)
    return refused


def removal_pending(
    journal: Journal | None, partitions: Mapping[Key, Partition], wanted: Mapping[int, RestartRequest]
) -> dict[int, Waiting]:
    """Brokers whose restart has to wait, because a partition on them loses a replica for good in this pass, and the next pass sees which ISR it has then.

    See "no restart below min.insync.replicas" (`docs/safety.md`, rule 2). Call it when all restart requests are known.
    """
    found: dict[int, list[str]] = {}
    for partition in losing(journal, partitions).values():
        for broker in partition.replicas:
            found.setdefault(broker, []).append(partition.name)
    return {
        node: Waiting.refused(
            rule=2,
            reason="ReassignmentInProgress",
            message=f"Broker {node} restarts when these partitions have one replica fewer, as their KafkaTopics say: {some(sorted(found[node]))}.",
            unblocked_by="Nothing to do: Spindle continues when Kafka has removed the replicas.",
            objects=tuple(sorted(found[node])),
        )
        for node, why in wanted.items()
        if node in found and why.reason != _FENCED
    }


def _restore_first(dropped: Sequence[DroppedReplica]) -> Waiting:
    named = sorted({f"{entry.topic}-{entry.partition}" for entry in dropped})
    return Waiting.refused(
        rule=5,
        reason="ReplicaRestorePending",
        message=f"{counted(len(named), 'partition')} {'has' if len(named) == 1 else 'have'} one replica too few, because Spindle dropped it from a "
        f"failed or overfull disk, or because of a corrupt segment: {some(named)}. No broker restarts for another reason before it is restored.",
        unblocked_by="Nothing to do: Spindle restores the replicas when their broker runs without the failed disk, or the full disk has space "
        "again.",
        objects=tuple(named),
    )


def bring_back_disks(
    inventory: DiskInventory, builder: PlanBuilder, wanted: dict[int, RestartRequest]
) -> None:
    """Restart brokers whose disks answer again but are offline in Kafka; report disks that are still offline."""
    for slot in inventory.slots:
        _bring_back(inventory, builder, slot, wanted)


def _bring_back(
    inventory: DiskInventory, builder: PlanBuilder, slot: BrokerDisk, wanted: dict[int, RestartRequest]
) -> None:
    """Restart the broker of a disk that answers again but whose log dir Kafka has taken offline; report disks that are still offline.

    The restart removes no disk, so "no automatic action on many disks at once" (`docs/safety.md`, rule 9) does not hold it back: if many disks
    failed briefly, it brings all of them back.
    """
    if inventory.state_of(slot) not in (DiskState.FAILED, DiskState.EVACUATING):
        return
    what = remedy_of(inventory, slot)
    broker = objects.name(inventory.state.brokers[slot.broker])
    if what is Remedy.RESTART and slot.mode == disk_facts.ACTIVE and slot.running:
        # A disk takes precedence over all other reasons but a user's request: it does not wait until dropped replicas are restored.
        if slot.broker not in wanted or wanted[slot.broker].reason in CHANGES:
            why = f"{slot.name} answers again, and Kafka brings an offline log dir back only by a restart"
            wanted[slot.broker] = RestartRequest("DiskReturned", why)
    elif inventory.state_of(slot) is DiskState.EVACUATING and not _tried_again(slot, what):
        return
    elif slot.mode == disk_facts.PLACEHOLDER:
        builder.wait(_excluded(broker, slot))
    elif what in (Remedy.WAIT, Remedy.RESTART) and slot.health.reason != HUNG:
        detail = slot.health.message.rstrip(".") or "no details are known"
        builder.wait(
            Waiting(
                "ActivateDisk",
                f"KafkaBroker/{broker}/{slot.name}",
                "DiskOffline",
                f"{slot.name} of {broker} has failed: {detail}. The broker keeps running with its other disks, and the partitions of this disk "
                "with their other replicas.",
                "Nothing to do: if the disk is healthy for half a minute, the broker is restarted with it; else Spindle re-replicates its "
                "partitions on other disks. If the disk is full, free space on it.",
            )
        )


def _tried_again(slot: BrokerDisk, what: Remedy) -> bool:
    """Whether Kafka was started while its disk was being evacuated and is still within the grace period of a start."""
    return what is Remedy.WAIT and slot.mode == disk_facts.ACTIVE and slot.running


def _excluded(broker: str, slot: BrokerDisk) -> Waiting:
    if slot.health.reason != EXCLUDED:  # an agent watches it, or may do so in a moment
        way_out = (
            "Nothing to do: if the disk becomes healthy, the broker is restarted with it; else Spindle re-replicates its partitions on other "
            "disks."
        )
    else:
        way_out = (
            f"If the disk is healthy, stop and start the broker to use it again: `spindle broker stop {broker}`, then `spindle broker start {broker}`. No agent "
            "watches the disk, so Spindle does not notice that it is healthy, and re-replicates its partitions on other disks after a minute."
        )
    return Waiting(
        "ActivateDisk",
        f"KafkaBroker/{broker}/{slot.name}",
        "DiskExcluded",
        f"{broker} was started without {slot.name}, which could not be used. {slot.health.message}",
        way_out,
    )


def name_restart_reasons(inventory: DiskInventory, wanted: dict[int, RestartRequest]) -> None:
    """Set the reason of restarts that add or remove a disk."""
    for broker, mine in inventory.by_broker.items():
        if broker not in wanted or wanted[broker].reason != "SpecChanged":
            continue
        goes = [s.name for s in mine if s.in_pod is not None and s.mode not in (disk_facts.ACTIVE, s.in_pod)]
        comes = [s.name for s in mine if s.in_pod != disk_facts.ACTIVE and s.mode == disk_facts.ACTIVE]
        if goes:
            wanted[broker] = RestartRequest("RestartWithoutDisk", f"it restarts without {', '.join(goes)}")
        elif comes:
            # A restart for an added disk can wait until dropped replicas are restored; one for a recovered disk cannot.
            heals = any(s.name in comes and not s.added for s in mine)
            wanted[broker] = RestartRequest(
                "RestartWithDisk" if heals else _ADDED, f"it restarts with {', '.join(comes)}"
            )
