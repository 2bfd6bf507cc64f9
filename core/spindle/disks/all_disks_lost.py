"""Reports that all disks of the brokers are lost.

No broker runs that could name the lost partitions, so their loss cannot be accepted by name; the cluster has to be recreated.
"""

from typing import Final

from spindle.api.enums import DiskVerdict
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.disk_slot import SlotContent as Place
from spindle.disks.disk_states import place_of
from spindle.model import disk_facts, objects
from spindle.model.claim_volumes import left_volumes
from spindle.model.plan_builder import PlanBuilder
from spindle.model.waiting import Waiting, counted, some

ALL_DISKS_LOST: Final = "AllDisksLost"
_VOLUMES: Final = 20  # that a message has room for; nothing else names them


def report_all_disks_lost(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Report when every disk of every broker is lost, and how to resolve it.

    A disk that was never formatted counts, too: a broker may have been placed on it because the claim of the disk with the data is missing.
    By "no format over the last copy" (`docs/safety.md`, rule 1), a blank disk is formatted when Kafka reports that no data is lost by it, or
    when the user accepts the loss by name. When the last disk of the last broker is lost, nothing knows the names any more.
    """
    state = inventory.state
    if not state.born or state.kafka.partitions is not None or not state.brokers:
        return
    used = [slot for slot in inventory.slots if slot.mode != disk_facts.ABSENT]
    left = {slot.broker for slot in used}
    if left != set(state.brokers) or not all(_lost(inventory, slot) for slot in used):
        return
    named = [f"{slot.name} of {objects.name(state.brokers[slot.broker])}" for slot in used]
    all_of = (
        "The only disk of the brokers is"
        if len(used) == 1
        else f"All {counted(len(used), 'disk')} of the brokers are"
    )
    retained = [
        f"{slot.disk['claim']} with spec.volumeName: {objects.name(volume)}"
        for slot in used
        for volume in left_volumes(state, slot.disk["claim"])
    ]
    builder.wait(
        Waiting(
            "StartBrokers",
            f"KafkaCluster/{state.name}",
            ALL_DISKS_LOST,
            f"{all_of} blank or cannot be read: {some(named)}. No broker can start, so Spindle cannot "
            "determine which partitions were on the disks, and their loss cannot be accepted by name.",
            (
                _use_retained(state.name, retained)
                if retained
                else "Bring back one of these disks with its data, bound to its claim."
            )
            + " If all of them are permanently lost, recreate the cluster, without "
            f"its topics and records: spindle delete-claims {state.name} (spec.deleteClaims: true), then delete "
            "the KafkaCluster and apply it again.",
        )
    )


def _use_retained(cluster: str, claims: list[str]) -> str:
    """How to use volumes again that former claims left."""
    return (
        f"Use the retained volumes again: delete KafkaCluster {cluster} (spec.deleteClaims: false) and the claims of these blank disks, run "
        f"spindle volume rebind for each of the volumes (removes uid from spec.claimRef), restore the claims from a backup ({some(claims, _VOLUMES)}), then apply the KafkaCluster again."
    )


def _lost(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether the disk was replaced by a blank one or answers with I/O errors."""
    if slot.running or not slot.health.fresh:
        return False
    replaced = slot.health.blank and place_of(inventory, slot) is Place.NEW
    return replaced or slot.health.verdict == DiskVerdict.FAILED
