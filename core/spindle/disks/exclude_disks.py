"""Decides on a disk that is to be excluded once its broker is stopped and the disk has been inspected.

A disk without replicas is removed from the broker's list of dirs (see `list_of`) and from the pod. A disk that has got replicas since stays in
use. A disk that cannot be inspected is replaced by a placeholder dir, so that Kafka does not recreate replicas that may be on it. See "no log
dir removed with replicas on it" and "no start with a log dir missing" (`docs/safety.md`, rules 5 and 15).
"""

from typing import Final

from spindle.api import names
from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.preflight_findings import volume_unreadable
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.broker_records import BrokerRecords
from spindle.model.dir_removal import looked_at, named_in, replicas_seen, unconfirmed
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.reports import inspected
from spindle.model.state import ClusterState
from spindle.model.times import seconds
from spindle.model.waiting import counted

_PATIENCE: Final = 120.0  # seconds that a scheduled pod may take until it has inspected its disks


def reconcile_excluded_disks(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords) -> None:
    """Keep disks in use that hold replicas, and replace disks by a placeholder that cannot be inspected."""
    for broker_id, broker in inventory.state.brokers.items():
        pod = inventory.state.pods.get(broker_id)
        if (
            objects.kept_down(broker)
            or objects.deleting(broker)
            or (pod is not None and objects.deleting(pod))
        ):
            continue
        left = unconfirmed(broker)
        for slot in inventory.by_broker.get(broker_id, ()):
            if slot.name in left and (pod is None or slot.name in looked_at(pod)):
                _decide(inventory, builder, records, slot)
        if pod is not None:
            _tell_pod(inventory, builder, broker_id)


def _decide(inventory: DiskInventory, builder: PlanBuilder, records: BrokerRecords, slot: BrokerDisk) -> None:
    seen = replicas_seen(slot.pod, slot.name)
    usable = (inspected(slot.pod).get(slot.name) or {}).get("state") == disk_facts.OURS
    if seen and usable:
        records.note_disk(slot.broker, slot.name, mode=disk_facts.ACTIVE)
        found = f"{counted(seen, 'replica')} {'was' if seen == 1 else 'were'} placed on {slot.name} while its broker was being stopped"
        builder.events.append(
            _event(
                inventory.state,
                slot,
                "DiskRemovalCancelled",
                f"{found}: the disk stays in use and is evacuated again.",
            )
        )
    elif (seen or seen is None) and _out_of_sight(inventory.state, slot):
        records.note_disk(slot.broker, slot.name, mode=disk_facts.PLACEHOLDER)
        if slot.pod is None:
            # Made from the record as it was, it would have the disk in the placeholder's stead and be recreated at once.
            builder.withhold("Pod", names.pod_name(inventory.state.name, slot.broker))
        why = f"{slot.name} was to be excluded, but cannot be inspected now that its broker is stopped"
        builder.events.append(
            _event(
                inventory.state,
                slot,
                "DiskNotObserved",
                f"{why}: a placeholder dir replaces it until Kafka reports that no replica is missing.",
            )
        )


def _out_of_sight(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether a disk cannot be inspected; a pod that was just created gets some time for it."""
    claim = state.claims.get(slot.disk["claim"])
    if claim is None or objects.deleting(claim) or objects.lost(claim):
        return True
    pod = slot.pod
    if pod is None or not inspected(pod):
        hopeless = slot.health.surely_bad or (pod is not None and volume_unreadable(state, slot.disk, pod))
        return hopeless or _late(state, slot)
    return True


def _late(state: ClusterState, slot: BrokerDisk) -> bool:
    """Whether the pod was scheduled some time ago and has still not inspected its disks, for example because a volume cannot be mounted."""
    if slot.pod is None or not (slot.pod.get("spec") or {}).get("nodeName"):
        return False
    created = seconds(slot.pod["metadata"].get("creationTimestamp"))
    return created is not None and state.now - created > _PATIENCE


def _tell_pod(inventory: DiskInventory, builder: PlanBuilder, broker_id: int) -> None:
    """Let the pod's preflight use a disk again whose exclusion was cancelled."""
    pod = inventory.state.pods[broker_id]
    wanted = {slot.name for slot in inventory.by_broker.get(broker_id, ()) if slot.mode == disk_facts.ACTIVE}
    named = named_in(pod)
    if named & wanted:
        left = ",".join(sorted(named - wanted)) or None
        body = {"metadata": {"annotations": {names.ANN_LEAVING: left}}}
        builder.do(Patch(kind="Pod", name=objects.name(pod), uid=objects.uid(pod), body=body))


def _event(state: ClusterState, slot: BrokerDisk, reason: str, message: str) -> Event:
    broker = state.brokers[slot.broker]
    return Event(
        type="Warning",
        reason=reason,
        message=message,
        kind="KafkaBroker",
        name=objects.name(broker),
        uid=objects.uid(broker),
    )
