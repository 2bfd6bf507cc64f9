"""A cluster of which no disk is left: nobody can be asked what is lost, so nothing of it can be accepted by name, and the way out is another one."""

from typing import Final

from spindle.cluster.waiting import Waiting, counted, some
from spindle.disks import facts
from spindle.disks.signals import DiskVerdict
from spindle.healing.disk_slot import SlotContent as Place
from spindle.reconcile import objects
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.steps.disk_states import place_of

ALL_DISKS_LOST: Final = "AllDisksLost"


def report_all_disks_lost(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Say that every disk that the brokers had is gone, and what can be done about it.

    Rule 1 lets a blank disk be formatted when Kafka says that nothing is lost by it, or when a person gave up by name what is. With the last
    disk of the last broker there is nobody any more who knows a name.
    """
    state = inventory.state
    if not state.born or state.kafka.partitions is not None or not state.brokers:
        return
    used = [slot for slot in inventory.slots if slot.mode != facts.ABSENT and slot.disk.get("fsUuid")]
    left = {slot.broker for slot in used}
    if left != set(state.brokers) or not all(_lost(inventory, slot) for slot in used):
        return
    named = [f"{slot.name} of {objects.name(state.brokers[slot.broker])}" for slot in used]
    builder.wait(
        Waiting(
            "StartBrokers",
            f"KafkaCluster/{state.name}",
            ALL_DISKS_LOST,
            f"{counted(len(used), 'disk')} of all brokers are blank or cannot be read: {some(named)}. No broker can start, so nobody can say which "
            "partitions were on them, and their loss cannot be accepted by name.",
            "One of these disks comes back as it was, bound to its claim. If they are all lost for good, the cluster begins anew, without topics and "
            f'records: kubectl patch kafkacluster {state.name} --type merge -p \'{{"spec": {{"deleteClaims": true}}}}\', delete the '
            "KafkaCluster, and apply it again.",
        )
    )


def _lost(inventory: DiskInventory, slot: BrokerDisk) -> bool:
    """Whether another, blank disk is in a slot, or one that answers with errors."""
    if slot.running or not slot.health.fresh:
        return False
    replaced = slot.health.content == facts.BLANK and place_of(inventory, slot) is Place.NEW
    return replaced or slot.health.verdict == DiskVerdict.FAILED
