"""Reports partitions without a leader that a broker could lead which a user has stopped.

Spindle stops a broker only if its partitions keep a leader. One that had none at that time, because the disk of its only in-sync replica was offline, does
not hold up the stop, and stays without a leader until the broker runs again, also when its disk is back.
"""

from spindle.api import names
from spindle.model import maintenance
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some


def report_stopped_leaders(state: ClusterState, builder: PlanBuilder) -> None:
    """Add a wait for each broker that is stopped by ``spec.maintenance.stopped`` and that partitions need as their leader."""
    if state.kafka.partitions is None or "pods" in state.snap.unknown:
        return
    for broker, record in sorted(state.brokers.items()):
        if not maintenance.stopped(record) or broker in state.pods:
            continue
        needed = sorted(
            p.name
            for p in state.kafka.partition_index.assigned.get(broker, ())
            if p.leader is None and (broker in p.isr or broker in (p.elr or ()))
        )
        if needed:
            builder.wait(_needed(state, broker, needed))


def _needed(state: ClusterState, broker: int, partitions: list[str]) -> Waiting:
    name = names.broker_name(state.name, broker)
    have = "has" if len(partitions) == 1 else "have"
    return Waiting(
        "StartPod",
        f"KafkaBroker/{name}",
        "StoppedBrokerNeeded",
        f"Broker {broker} is stopped by spec.maintenance.stopped, and {counted(len(partitions), 'partition')} {have} no leader without it: {some(partitions)}.",
        f"Start it: spindle broker start {name} (spec.maintenance.stopped: false).",
        objects=tuple(partitions),
    )
