"""Controllers are scaled from one to three, and those that lose their disk or node are replaced, while producers write with acks=all."""

import time
from typing import Any

import pytest

from e2e.scenarios.disk_slot import conclude
from e2e.scenarios.lab import CLUSTER, Lab, light, sample
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Killer, Machine
from e2e.scenarios.test_nodes import GONE
from e2e.scenarios.test_rolls import pods
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def voters(lab: Lab) -> dict[int, str]:
    """Directory ids of the voters that are caught up, by node id."""
    quorum: dict[str, Any] = lab.status().get("quorum") or {}
    return {v["id"]: v["directoryId"] for v in quorum.get("voters", ()) if v.get("caughtUp")}


def node_of(lab: Lab, controller: int) -> str:
    pod = lab.the("pod", f"{CLUSTER}-controller-{controller - 9000}")
    return str(pod["spec"].get("nodeName", ""))


def active(lab: Lab) -> int | None:
    """The node id of the active controller."""
    leader: int | None = (lab.status().get("quorum") or {}).get("leader")
    return leader


def test_one_becomes_three_and_a_lost_one_is_replaced(
    lab: Lab, machine: Machine, killer: Killer, spindle_image: str
) -> None:
    one = {"replicas": 1, "storage": {"size": "1Gi"}}
    lab.apply(sample(controllers=one, brokerPools=[light(3)]))
    lab.until_ready(600)
    made = pods(lab)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("quorate", 12), rate=20) as running:
        began = timeline.mark("three controllers are requested")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"controllers": {"replicas": 3}}})
        lab.until("they are recorded", lambda: len(lab.list("pods", "spindle.dev/role=controller")) == 3)
        killer.kill()
        took = lab.until("three vote", lambda: voters(lab).keys() == {9000, 9001, 9002}, 300)
        print(f"three voted {took:.0f} s after the operator was killed")
        lab.until_ready()
        now = pods(lab)
        assert {
            name for name, uid in made.items() if now.get(name) != uid
        } == set()  # no broker restarts for it

        before, made = voters(lab), now
        lost = next(node_id for node_id in sorted(before) if node_id != active(lab))
        volume = lab.the("pvc", f"data-metadata-{CLUSTER}-{lost}")["spec"]["volumeName"]
        timeline.mark(f"controller {lost}: its disk fails")
        machine.disk("fail", volume)
        lab.until("it is no longer a voter", lambda: lost not in voters(lab), 120)
        died = time.time()
        machine.new_disk(volume)
        lab.until(
            "it votes with another disk", lambda: voters(lab).get(lost) not in (None, before[lost]), 400
        )
        print(f"controller {lost} voted again {time.time() - died:.0f} s after a blank disk was put in")
        lab.until_ready()
        after = voters(lab)
        assert {node_id for node_id in after if after[node_id] != before[node_id]} == {lost}
        changed = {name for name, uid in pods(lab).items() if made[name] != uid}
        assert changed == {f"{CLUSTER}-controller-{lost - 9000}"}
        conclude(running, timeline, began)


def test_the_active_one_whose_node_is_gone_for_good_begins_anew_on_another_node(
    lab: Lab, machine: Machine, spindle_image: str
) -> None:
    lab.apply(sample(brokerPools=[light(3)]))
    lab.until_ready(600)
    brokers = {broker["spec"]["node"] for broker in lab.list("kafkabrokers")}
    before, made = voters(lab), pods(lab)
    lost = max(before, key=lambda each: (node_of(lab, each) not in brokers, each == active(lab)))
    node, claim = node_of(lab, lost), f"data-metadata-{CLUSTER}-{lost}"
    volume = lab.the("pvc", claim)["spec"]["volumeName"]
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("headless", 12), rate=20, away_from=(node,)) as running,
    ):
        running.until_more(500)
        began = timeline.mark(f"{node} with controller {lost} loses its power; active is {active(lab)}")
        machine.node_off(node)
        try:
            lab.until("another one is active", lambda: active(lab) not in (None, lost), 120)
            lab.until("it is not caught up", lambda: lost not in voters(lab), 120)
            lab.until_waiting("NodeNotReady")
            assert lost in {
                voter["id"] for voter in lab.status()["quorum"]["voters"]
            }  # it is only unavailable
            lab.kubectl("taint", "node", node, f"{GONE}=off:NoExecute")
            gone = timeline.mark("the node counts as lost")
            lab.until(
                "it votes from another node", lambda: voters(lab).get(lost) not in (None, before[lost]), 400
            )
            print(
                f"controller {lost} voted again {time.time() - gone:.0f} s after its node was declared lost"
            )
            lab.until_ready()
            assert node_of(lab, lost) != node
            assert lab.the("pv", volume)["status"]["phase"] == "Released"
            assert {name for name, uid in pods(lab).items() if made[name] != uid} == {
                f"{CLUSTER}-controller-{lost - 9000}"
            }
        finally:
            lab.kubectl("taint", "node", node, f"{GONE}-", check=False)
            machine.node_on(node)
        conclude(running, timeline, began)
