"""Reports brokers that Kafka assigns replicas to and that Kubernetes has no record of: no KafkaBroker and no claim.

This happens when a backup is restored that is older than the broker, or when somebody deletes both by hand. Nothing else reports it: Spindle knows a
broker by its KafkaBroker, and recreates that from the claims.
"""

import re
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.nodes import section
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.view import Partition
from spindle.model.waiting import Waiting, counted, some

_VOLUMES: Final = 20  # that a message has room for; nothing else names them


def report_missing_brokers(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each broker that holds replicas, does not run, and has neither KafkaBroker nor claim."""
    if state.kafka.partitions is None or "persistentvolumeclaims" in state.snap.unknown:
        return
    for broker, partitions in sorted(state.kafka.partition_index.assigned.items()):
        if broker in state.brokers or broker >= names.FIRST_CONTROLLER_ID or _claims(state, broker):
            continue
        known = (state.kafka.brokers or {}).get(broker)
        # An unfenced one runs somewhere: it was not lost here.
        if known is None or known.fenced:
            builder.wait(_missing(state, broker, partitions))


def _claims(state: ClusterState, broker: int) -> list[str]:
    """Its claims: while there are any, its KafkaBroker is recreated, or another entry says why not."""
    return [claim for claim in state.claims if _disk(state, claim, broker)]


def _disk(state: ClusterState, claim: str, broker: int) -> bool:
    """Whether a claim has the name of a disk's claim of this broker."""
    prefix, suffix = names.claim_name(state.name, broker, "\0").split("\0")
    return bool(re.fullmatch(f"{re.escape(prefix)}disk[0-9]+{re.escape(suffix)}", claim))


def _retained(state: ClusterState, broker: int) -> list[str]:
    """Volumes that former claims of the broker left, as ``claim with spec.volumeName: volume``."""
    found = []
    for volume in state.volumes.values():
        ref = section(volume, "spec", "claimRef")
        if ref.get("namespace") == state.namespace and _disk(state, str(ref.get("name")), broker):
            found.append(f"{ref['name']} with spec.volumeName: {objects.name(volume)}")
    return sorted(found)


def _missing(state: ClusterState, broker: int, partitions: list[Partition]) -> Waiting:
    retained = _retained(state, broker)
    alone = sorted(p.name for p in partitions if p.leader is None)
    others = len(partitions) - len(alone)
    restore = (
        f"Restore its claims from a backup: {some(retained, _VOLUMES)}. Before that, run spindle volume rebind for each of these volumes (removes uid from "
        "spec.claimRef). "
        if retained
        else "If the disks of the broker still exist, restore its claims from a backup, with their volumes. "
    )
    gone = []
    if others:
        gone.append("move its replicas to other brokers with kafka-reassign-partitions.sh")
    if alone:
        gone.append("delete the topics without a leader, or restore their records from elsewhere")
    have = "has" if len(alone) == 1 else "have"
    leaderless = f"; {len(alone)} of these partitions {have} no leader: {some(alone)}" if alone else ""
    return Waiting(
        "ReadoptBroker",
        f"KafkaBroker/{names.broker_name(state.name, broker)}",
        "BrokerNotFound",
        f"Kafka assigns {counted(len(partitions), 'replica')} to broker {broker}, which does not run and has neither a KafkaBroker nor claims{leaderless}.",
        f"{restore}Spindle then starts the broker with its data. If its disks are lost, {'; '.join(gone)}.",
        objects=tuple(alone),
    )
