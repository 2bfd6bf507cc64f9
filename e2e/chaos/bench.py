"""What faults act on: the cluster, the machines, the load, and the random choices."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.cluster.testbed import Testbed
from e2e.scenarios.disk_slot import Slot, slots
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Load
from e2e.scenarios.machine import Killer, Machine

BROKERS: Final = 5


@dataclass
class Bench:
    """One cluster under test.

    Attributes:
        rng: makes all random choices.
        undo: functions that end the faults of this round, in that order.
        busy: nodes, disks and brokers that a fault of this round uses, so that two faults do not undo each other.
    """

    testbed: Testbed
    lab: Lab
    machine: Machine
    killer: Killer
    load: Load
    rng: random.Random
    undo: list[Callable[[], None]] = field(default_factory=list)
    busy: set[str] = field(default_factory=set)

    def end_faults(self) -> None:
        """End the faults that are still active; each only once."""
        while self.undo:
            self.undo.pop(0)()

    @property
    def agents(self) -> Lab:
        """The namespace of the agents."""
        return Lab(self.lab.kubectl_command, self.lab.kubeconfig, AGENTS)

    def node(self) -> str:
        """A node with a broker that no fault of this round uses yet."""
        nodes = sorted({str(broker["spec"]["node"]) for broker in self.lab.list("kafkabrokers")})
        return self.take([node for node in nodes if node not in self.busy])

    def broker(self) -> str:
        """Name of a KafkaBroker (and its pod)."""
        return self.rng.choice(sorted(str(b["metadata"]["name"]) for b in self.lab.list("kafkabrokers")))

    def slot(self) -> Slot:
        """A disk that no fault of this round uses yet."""
        known = {slot.subject: slot for slot in slots(self.lab).values()}
        return known[self.take([name for name in sorted(known) if name not in self.busy])]

    def take(self, names: list[str]) -> str:
        """Choose one of them; no other fault of this round uses it."""
        chosen = self.rng.choice(names)
        self.busy.add(chosen)
        return chosen

    def pod(self, name: str) -> dict[str, Any]:
        """A pod of the cluster; empty if there is none."""
        return self.lab.get("pod", name) or {}

    def agent_of(self, node: str) -> str:
        """The agent's pod on a node; empty if there is none."""
        pods = self.agents.list("pods")
        return next((str(p["metadata"]["name"]) for p in pods if p["spec"].get("nodeName") == node), "")

    def labelled(self, kind: str) -> list[str]:
        """Names of the cluster's objects of a kind."""
        return sorted(
            obj["metadata"]["name"] for obj in self.lab.list(kind, f"spindle.dev/cluster={CLUSTER}")
        )
