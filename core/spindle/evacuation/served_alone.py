"""Replicas that a broker can serve only as long as its process runs: their disk was pulled out or swapped under it, or cannot be opened again.

Kafka holds the file system open and serves them, so they can still be moved to other disks. A restart ends that.
"""

from collections.abc import Mapping

from spindle.disks.broker_disks import HUNG
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import disk_facts
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.requests import RestartRequest
from spindle.model.waiting import Waiting, counted, some


def served_alone(replica_index: ReplicaIndex, broker: int, keys: frozenset[Key]) -> tuple[str, ...]:
    """Names of those of these partitions that the broker leads as the only in-sync replica."""
    return tuple(
        sorted(
            p.name
            for p in replica_index.assigned.get(broker, ())
            if (p.topic, p.index) in keys and p.leader == broker and set(p.isr) == {broker}
        )
    )


def no_stop(inventory: DiskInventory, broker: int) -> Waiting | None:
    """Why this broker must not be stopped now; None if nothing depends on its process.

    Partitions whose loss a user accepted do not count, nor those on a hung disk: it serves nothing.
    """
    keys: frozenset[Key] = frozenset()
    disks = []
    for slot in inventory.by_broker.get(broker, ()):
        if slot.mode == disk_facts.ACTIVE and slot.health.surely_bad and slot.health.reason != HUNG:
            disks.append(slot.name)
            keys |= inventory.partitions_on(slot) or frozenset()
    named = served_alone(inventory.replica_index, broker, keys)
    if not named:
        return None
    return Waiting.refused(
        rule=2,
        reason="LastReplicaServed",
        message=f"Broker {broker} serves the only in-sync replica of {counted(len(named), 'partition')} from {some(disks)}, which it could not open again "
        f"after a restart: {some(named)}. Spindle does not stop the broker.",
        unblocked_by="Spindle continues when these replicas have moved to other disks, or others are in sync. If they cannot move, put the original disk "
        "back where it was mounted, or accept its loss (spec.acceptDataLoss of the KafkaBroker).",
        objects=named,
    )


def hold_restarts(inventory: DiskInventory, wanted: Mapping[int, RestartRequest]) -> dict[int, Waiting]:
    """Brokers whose requested restart has to wait, with the reason."""
    held = {broker: no_stop(inventory, broker) for broker in wanted}
    return {broker: why for broker, why in held.items() if why is not None}
