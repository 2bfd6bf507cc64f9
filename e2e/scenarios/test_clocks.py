"""A node whose clock is off: its disks are monitored, fenced and formatted as on any other node.

The time of day is shifted in the containers of Spindle and Kafka that the node starts (libfaketime). The kubelet's clock cannot be
shifted, so the times that the kubelet writes (such as the start of a container) are correct here; on a real machine they would be wrong, too.
"""

import pytest

from e2e.scenarios.disk_slot import (
    Slot,
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    until_evacuated,
    until_used_again,
)
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import THREE, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def _agent_on(agents: Lab, node: str) -> str | None:
    """The node's ready agent pod that is not being deleted; None while there is none."""
    for pod in agents.list("pods"):
        conditions = {c["type"]: c["status"] for c in pod["status"].get("conditions") or ()}
        ready = conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]
        if pod["spec"].get("nodeName") == node and ready:
            return str(pod["metadata"]["name"])
    return None


def _shift(lab: Lab, machine: Machine, slot: Slot, seconds: int) -> None:
    """Give a disk's node another clock, and restart its agent and its broker with it."""
    agents, node = Lab(lab.kubectl_command, lab.kubeconfig, AGENTS), slot.node()
    before = _agent_on(agents, node)
    machine.clock(node, seconds)
    agents.kubectl("delete", "pod", str(before))
    lab.kubectl("delete", "pod", slot.owner)
    lab.until("the agent runs with that clock", lambda: _agent_on(agents, node) not in (None, before), 120)
    until_well(lab)


@pytest.mark.parametrize("ahead", [45, -45])
def test_a_disk_that_hangs_is_fenced(stand: Stand, machine: Machine, spindle_image: str, ahead: int) -> None:
    lab = stand.get(THREE)
    topic = Topic(f"clock{'ahead' if ahead > 0 else 'behind'}", 12)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic) as running:
        slot = choose(lab, running)
        _shift(lab, machine, slot, ahead)
        lab.until("it is reported", lambda: slot.node() in lab.condition("ClocksAgree")["message"], 120)
        froze = dies(timeline, machine, slot, "freeze")
        timeline.until("verdict", "^Failed IOHung", slot.subject, since=froze)
        timeline.until("pod", "being deleted", slot.owner, since=froze)
        lab.until("all partitions accept writes", lambda: not running.silent(), 90)
        timeline.mark("it answers again")
        machine.disk("heal", slot.volume)
        until_used_again(timeline, machine, slot, froze)
        assert_spread(running)
        _shift(lab, machine, slot, 0)
        lab.until("all clocks agree", lambda: lab.condition("ClocksAgree")["status"] == "True", 180)
        conclude(running, timeline, froze)


def test_eleven_minutes_ahead_a_blank_disk_is_formatted(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("clockfar", 12)) as running:
        slot = choose(lab, running)
        _shift(lab, machine, slot, 660)
        lab.until(
            "it is reported", lambda: f"{slot.node()} (" in lab.condition("ClocksAgree")["message"], 120
        )
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert slot.spec()["directoryId"] != slot.directory_id
        assert_spread(running)
        _shift(lab, machine, slot, 0)
        conclude(running, timeline, died)
