"""Reports agents that do not watch their disks (an unwatched disk is not known to be healthy) and nodes whose clocks are off."""

from collections.abc import Mapping
from typing import Final

from spindle.disks.broker_disks import BrokerDisk
from spindle.disks.disk_inventory import DiskInventory
from spindle.disks.health import AGENT
from spindle.disks.starved import Starved
from spindle.model import disk_facts, objects
from spindle.model.agents import CLOCKS_AGREE, NO_AGENT, Agent, clocks_off, operator_off
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.state import ClusterState
from spindle.model.unavailable import nodes_with_brokers
from spindle.model.waiting import Waiting, some

CLOCKS: Final = "ClocksAgree"
_ROUND_TO: Final = 5  # seconds; measurements are no more precise, and every changed status is a write


def unmonitored(state: ClusterState) -> str:
    """A sentence on disks that no agent watches; empty if agents watch the nodes of all brokers."""
    if not state.snap.agent_namespace:
        return "No agents are installed: a failed disk is detected only when Kafka accesses it, a hung disk not at all."
    if "leases" in state.snap.unknown:
        return "It is not known whether agents watch the disks: their Leases cannot be read."
    found = {node: state.snap.agents.get(node, NO_AGENT) for node in nodes_with_brokers(state)}
    silent = sorted(node for node, agent in found.items() if agent.silent)
    if silent:
        return (
            f"No agent watches the disks of {some(silent)}; Spindle relies on what Kafka reports about them."
        )
    unheard = sorted(node for node, agent in found.items() if not agent.alive)
    if unheard:
        return f"The agents of {some(unheard)} have not reported since the operator started."
    return ""


def report_silent_agents(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Report disks that an agent found bad before it stopped reporting.

    Spindle does not act on a stale report: "unknown is not absent" (`docs/safety.md`, rule 8).
    """
    for slot in inventory.slots:
        health = slot.health
        if (
            health.bad
            and not health.fresh
            and health.source == AGENT
            and slot.mode == disk_facts.ACTIVE
            and slot.running
        ):
            node = str(inventory.state.brokers[slot.broker]["spec"].get("node") or "")
            builder.wait(_unheard(inventory, slot, node, inventory.state.snap.agents.get(node, NO_AGENT)))


def _unheard(inventory: DiskInventory, slot: BrokerDisk, node: str, agent: Agent) -> Waiting:
    since = "has not reported since then" if agent.silent else "has not reported since the operator started"
    return Waiting(
        "ActivateDisk",
        inventory.object_name(slot),
        "AgentNotReporting",
        f"The agent on {node} last reported that {slot.name} of {objects.name(inventory.state.brokers[slot.broker])} is "
        f"{slot.health.verdict} ({slot.health.reason}). The agent {since}, so Spindle does not act on that report.",
        f"Get the agent on {node} to renew its Lease again: check its pod in namespace {inventory.state.snap.agent_namespace}. Until then "
        "Spindle relies on what Kafka reports about the disk.",
        quiet=not agent.silent,
    )


def report_starved_nodes(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Report agents that get too little CPU or memory: they detect no hung disk, and no broker is stopped for one."""
    for broker in inventory.state.brokers.values():
        observed = (broker.get("status") or {}).get("observed") or {}
        node = str(observed.get("node") or "")
        starved = Starved.parse(observed)
        if starved is None or not inventory.state.snap.agents.get(node, NO_AGENT).alive:
            continue
        builder.wait(
            Waiting(
                "AssessDisks",
                f"KafkaBroker/{objects.name(broker)}",
                "AgentStarved",
                f"The agent on {node} gets too little CPU or memory to tell a hung disk from a delayed probe. {starved.message} "
                "Until that changes, it reports no disk as hung or slow; it still reports I/O errors.",
                f"Give the agent more CPU or memory: check what keeps {node} busy, and the resource limits of the agent's pod.",
            )
        )


def clocks_row(state: ClusterState) -> tuple[str, str, str, str] | None:
    """The condition ClocksAgree; None if there are no agents whose clocks could be compared."""
    agents = {
        node: agent
        for node in nodes_with_brokers(state)
        if (agent := state.snap.agents.get(node)) is not None
    }
    if not agents and not state.snap.agent_namespace:
        return None
    ahead = operator_off(agents)
    if ahead is not None:
        text = (
            f"The operator's clock is {_by(ahead)} the clocks of all nodes with brokers: its timestamps are wrong, also in certificates. "
            "To resolve: synchronize the clock of the operator's node with NTP (for example chrony)."
        )
        return (CLOCKS, "False", "OperatorClockSkew", text)
    off = clocks_off(agents)
    if off:
        return (CLOCKS, "False", "ClockSkew", _off(off))
    if not any(agent.ahead is not None for agent in agents.values()):
        return (
            CLOCKS,
            "Unknown",
            "NotComparedYet",
            "No agent has renewed its Lease since the operator started.",
        )
    text = (
        f"The nodes' clocks are within {CLOCKS_AGREE:.0f} s of the operator's clock, as far as agents report."
    )
    return (CLOCKS, "True", "WithinTenSeconds", text)


def report_clocks(state: ClusterState, builder: PlanBuilder) -> None:
    """Emit an event when clocks start to differ."""
    row = clocks_row(state)
    before: Mapping[str, str] = next(
        (c for c in state.status.get("conditions") or () if c.get("type") == CLOCKS), {}
    )
    if row is None or row[1] != "False" or before.get("reason") == row[2]:
        return
    name, uid = objects.name(state.cluster), objects.uid(state.cluster)
    builder.events.append(Event("Warning", row[2], row[3], "KafkaCluster", name, uid))


def _off(off: Mapping[str, float]) -> str:
    named = some([f"{node} ({_by(ahead).removesuffix(' of')})" for node, ahead in off.items()], 20)
    return (
        f"Clocks that differ from the operator's clock: {named}. Spindle dates the reports of these nodes by the time at which the operator "
        f"receives them; their logs and samples have wrong timestamps. To resolve: synchronize the clock of {some(list(off))} with NTP "
        "(for example chrony)."
    )


def _by(ahead: float) -> str:
    seconds = max(_ROUND_TO, round(abs(ahead) / _ROUND_TO) * _ROUND_TO)
    return f"{seconds} s {'ahead of' if ahead > 0 else 'behind'}"
