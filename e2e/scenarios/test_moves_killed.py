"""Operator, agents and brokers are killed at random moments of a hundred moves; all moves complete."""

import random
from collections import Counter

import pytest

from e2e.scenarios.disk_slot import assert_spread, conclude, slots
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import Lab, pause
from e2e.scenarios.load import Topic, load, make_topic
from e2e.scenarios.machine import Killer, Machine
from e2e.scenarios.moving import assert_nothing_left, moves, until_drained, use_again
from e2e.scenarios.stand import Kind, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_KILLS = 20
SLOWLY = Kind(3, policy={"moveBytesPerSecond": 2_000_000})


def kill_agent(system: Lab, machine: Machine, node: str) -> None:
    """Kill the agent of a node with SIGKILL; a container that dies repeatedly is restarted with increasing delays, a new pod at once."""
    for pod in system.list("pods"):
        statuses = pod["status"].get("containerStatuses", ())
        running = bool(statuses) and all("running" in each["state"] for each in statuses)
        if pod["spec"].get("nodeName") == node and running and not pod["metadata"].get("deletionTimestamp"):
            machine.kill_container(pod, "agent")
            system.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")


def kill_broker(lab: Lab, machine: Machine, name: str) -> None:
    """Kill a broker with SIGKILL."""
    pod = lab.the("pod", name)
    machine.kill_container(pod, "kafka")
    lab.kubectl("delete", "pod", name, "--grace-period=1", "--wait=false")


def all_ready(lab: Lab) -> bool:
    """Whether every broker serves: then another one may be killed without rejecting writes for long."""
    pods = lab.list("pods", "spindle.dev/role=broker")
    return len(pods) == 3 and all(
        {c["type"]: c["status"] for c in pod["status"].get("conditions", ())}.get("Ready") == "True"
        for pod in pods
    )


def test_kills_at_twenty_moments_of_a_hundred_moves(
    stand: Stand, machine: Machine, killer: Killer, spindle_image: str
) -> None:
    dice = random.Random(100)
    lab = stand.get(SLOWLY)
    system = Lab(lab.kubectl_command, lab.kubeconfig, AGENTS)
    make_topic(lab, Topic("wide", partitions=66))
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("killed", partitions=12), rate=5, fill=480) as running,
    ):
        chosen = [slot for (_, disk), slot in slots(lab).items() if disk == "disk0"]
        began = timeline.mark("one disk of each broker is drained: about a hundred moves")
        for slot in chosen:
            slot.ask_for("Drained")
        lab.until("moves have started", lambda: any(moves(slot) for slot in chosen), 120)
        done: Counter[str] = Counter()
        for _ in range(_KILLS):
            pause(dice.uniform(1.0, 8.0))
            whom = dice.choice(["operator", "operator", "agent", "agent", "broker"])
            slot = dice.choice(chosen)
            if whom == "broker" and not all_ready(lab):
                whom = "agent"
            timeline.mark(f"SIGKILL for the {whom} ({slot.owner})")
            done[whom] += 1
            if whom == "operator":
                killer.kill()
            elif whom == "agent":
                kill_agent(system, machine, lab.the("kafkabroker", slot.owner)["spec"]["node"])
            else:
                kill_broker(lab, machine, slot.owner)
        timeline.mark(f"no more kills: {dict(done)}")
        until_drained(timeline, began, *chosen, seconds=900)
        running.until_all_writable(240)
        assert_nothing_left(running)
        use_again(timeline, *chosen)
        assert_nothing_left(running)
        assert_spread(running)
        conclude(running, timeline, began)
