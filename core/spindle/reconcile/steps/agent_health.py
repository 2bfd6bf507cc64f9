"""Whether the disks are watched at all (a healthy disk that nobody looks at is only not known to be dead), and by whose clock."""

from collections.abc import Mapping
from typing import Final

from spindle.cluster.waiting import Waiting, some
from spindle.disks import facts
from spindle.disks.agents import CLOCKS_AGREE, NO_AGENT, Agent, clocks_off, operator_off
from spindle.disks.health import AGENT
from spindle.disks.starved import Starved
from spindle.reconcile import objects
from spindle.reconcile.broker_disks import BrokerDisk
from spindle.reconcile.disk_inventory import DiskInventory
from spindle.reconcile.events import Event
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState

CLOCKS: Final = "ClocksAgree"
_TO_THE: Final = 5  # seconds that what is told is rounded to: a measurement is no better, and a status is written on change


def unmonitored(state: ClusterState) -> str:
    """What the agents leave open, as a sentence; empty if all of the brokers' nodes are watched."""
    if not state.snap.agent_namespace:
        return "There are no agents: that a disk is dead is known when Kafka has touched it, that one hangs not at all."
    if "leases" in state.snap.unknown:
        return "It is not known whether agents watch them."
    found = {node: state.snap.agents.get(node, NO_AGENT) for node in nodes_with_brokers(state)}
    silent = sorted(node for node, agent in found.items() if agent.silent)
    if silent:
        return f"No agent watches the disks of {some(silent)}; what Kafka says of them counts."
    unheard = sorted(node for node, agent in found.items() if not agent.alive)
    if unheard:
        return f"The agents of {some(unheard)} have not been heard of yet since the operator began to listen."
    return ""


def report_silent_agents(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Disks that their agent called bad before it fell silent: nothing is done on a word that may be old (rule 8)."""
    for slot in inventory.slots:
        said = slot.health
        if (
            said.bad
            and not said.fresh
            and said.source == AGENT
            and slot.mode == facts.ACTIVE
            and slot.running
        ):
            node = str(inventory.state.brokers[slot.broker]["spec"].get("node") or "")
            builder.wait(_unheard(inventory, slot, node, inventory.state.snap.agents.get(node, NO_AGENT)))


def _unheard(inventory: DiskInventory, slot: BrokerDisk, node: str, agent: Agent) -> Waiting:
    since = "has been silent since" if agent.silent else "has not been heard of yet since this operator runs"
    return Waiting(
        "ActivateDisk",
        inventory.object_name(slot),
        "AgentNotReporting",
        f"The last word of the agent on {node} is that {slot.name} of {objects.name(inventory.state.brokers[slot.broker])} is "
        f"{slot.health.verdict} ({slot.health.reason}). The agent {since}, so nothing is done on that word.",
        f"The agent on {node} renews its Lease again: look for its pod in namespace {inventory.state.snap.agent_namespace}. What Kafka itself "
        "says of the disk counts meanwhile.",
        quiet=not agent.silent,
    )


def report_starved_nodes(inventory: DiskInventory, builder: PlanBuilder) -> None:
    """Agents that say that they are starved themselves: a disk that hangs there is told by nobody, and no broker is stopped for one."""
    for broker in inventory.state.brokers.values():
        observed = (broker.get("status") or {}).get("observed") or {}
        node = str(observed.get("node") or "")
        said = Starved.parse(observed)
        if said is None or not inventory.state.snap.agents.get(node, NO_AGENT).alive:
            continue
        builder.wait(
            Waiting(
                "AssessDisks",
                f"KafkaBroker/{objects.name(broker)}",
                "AgentStarved",
                f"The agent on {node} gets too little time of its machine to tell a disk that hangs from one whose turn does not come. {said.message} "
                "It calls no disk hung or slow; errors that disks answer with count as ever.",
                f"{node} has time for its agent: look for what keeps its processors or its memory busy, and at limits of the agent's own pod.",
            )
        )


def clocks_row(state: ClusterState) -> tuple[str, str, str, str] | None:
    """The condition that tells of clocks that are off; None where no agents are, whose clocks could be compared."""
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
            f"The operator's clock is {_by(ahead)} that of every node with brokers: what it writes is dated wrong, certificates too. "
            "Way out: set the clock of the operator's node by NTP (chrony, for example)."
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
            "No agent has renewed its Lease since the operator began to look.",
        )
    text = f"The nodes' clocks are within {CLOCKS_AGREE:.0f} s of the operator's, as far as agents tell."
    return (CLOCKS, "True", "WithinTenSeconds", text)


def report_clocks(state: ClusterState, builder: PlanBuilder) -> None:
    """An event when clocks begin to differ."""
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
        f"Clocks that differ from the operator's: {named}. What is said there counts by when the operator hears it, and is dated by the "
        f"operator's clock; logs and samples of those nodes are dated wrong. Way out: set the clock of {some(list(off))} by NTP (chrony, "
        "for example)."
    )


def _by(ahead: float) -> str:
    seconds = max(_TO_THE, round(abs(ahead) / _TO_THE) * _TO_THE)
    return f"{seconds} s {'ahead of' if ahead > 0 else 'behind'}"


def nodes_with_brokers(state: ClusterState) -> set[str]:
    """Names of the nodes that a broker of this cluster is on."""
    return {str(node) for broker in state.brokers.values() if (node := broker["spec"].get("node"))}
