"""Five brokers in racks of two, two and one: the lost replicas of the single-broker rack are re-replicated, and its rack spread is restored, without user action."""

import time
from collections import Counter

import pytest

from e2e.scenarios.disk_slot import (
    Slot,
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
)
from e2e.scenarios.lab import CLUSTER, Lab
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import Kind, Stand, until_well
from e2e.scenarios.test_nodes import GONE, homes
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

FIVE = Kind(5)


def racks(lab: Lab) -> dict[int, str]:
    """Broker → rack."""
    return {b["spec"]["id"]: b["spec"]["rack"] for b in lab.list("kafkabrokers")}


def lone(lab: Lab) -> int:
    """The only broker of its rack."""
    at = racks(lab)
    sizes = Counter(at.values())
    assert sorted(sizes.values()) == [1, 2, 2], at
    return next(broker for broker, rack in at.items() if sizes[rack] == 1)


def its_disk(lab: Lab, running: Load) -> Slot:
    """A disk of the lone rack's broker that holds replicas."""
    alone = lone(lab)
    return choose(lab, running, lambda replicas: bool(replicas) and replicas[0].broker == alone)


def on_racks(lab: Lab, running: Load) -> list[int]:
    """Number of racks of each partition; 0 for one that is being moved or is not fully in sync."""
    at = racks(lab)
    return [
        len({at[broker] for broker in replicas}) if len(replicas) == len(isr) == 3 else 0
        for _, isr, replicas in running.partitions().values()
    ]


def until_spread(lab: Lab, running: Load, seconds: float = 400) -> None:
    """Wait until each partition is on three racks, without a proposal."""
    took = lab.until(
        "every partition is on three racks again", lambda: set(on_racks(lab, running)) == {3}, seconds
    )
    print(f"spread again after {took:.0f} s")
    assert not lab.list("kafkarebalances"), "it must be spread without a proposal"


def test_a_disk_that_is_swapped_under_the_lone_racks_broker(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(FIVE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("loneswap", 12)) as running:
        slot = its_disk(lab, running)
        swapped = timeline.mark(f"{slot.subject} is exchanged for a blank disk while Kafka uses the old one")
        machine.new_disk(slot.volume, keep=True)
        timeline.until("verdict", "^Swapped", slot.subject, since=swapped)
        # Until the operator has observed it, everything still looks healthy.
        timeline.until("disk", "^(?!Active)", slot.subject, since=swapped)
        until_well(lab, 600)
        timeline.mark("well again")
        until_spread(lab, running)
        assert_spread(running)
        conclude(running, timeline, swapped)


def test_what_a_dead_disk_of_the_lone_rack_crowded_is_spread_again(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(FIVE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("lonedisk", 12)) as running:
        slot = its_disk(lab, running)
        died = dies(timeline, machine, slot)
        until_evacuated(timeline, died, slot)
        timeline.mark("evacuated; the broker continues with its other disk")
        # No disk is replaced yet: the other disk of that broker is sufficient.
        until_spread(lab, running)
        timeline.mark("spread again")
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_lone_rack_that_is_given_up_and_comes_back(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(FIVE)
    broker = f"{CLUSTER}-broker-{lone(lab)}"
    node = homes(lab)[broker]
    spare = [
        each["metadata"]["name"]
        for each in lab.list("nodes")
        if each["metadata"]["name"] not in homes(lab).values()
    ]
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("lonenode", 12), away_from=[node]) as running,
    ):
        for (
            each
        ) in spare:  # so that the broker finds no node in its zone, and its replicas go to the other racks
            lab.kubectl("cordon", each)
        lost = timeline.mark(f"{node} loses power permanently")
        machine.node_off(node)
        try:
            lab.until_waiting("NodeNotReady")
            lab.kubectl("taint", "node", node, f"{GONE}=off:NoExecute")
            lab.until_waiting("NodeLost")
            lab.patch("kafkabroker", broker, {"spec": {"acceptDataLoss": {"node": node}}})
            agreed = time.monotonic()
            lab.until(
                "three replicas of everything on the remaining racks",
                lambda: set(on_racks(lab, running)) == {2},
                600,
            )
            timeline.mark(f"healed and crowded after {time.monotonic() - agreed:.0f} s")
        finally:
            for each in spare:
                lab.kubectl("uncordon", each)
            lab.kubectl("taint", "node", node, f"{GONE}-", check=False)
            machine.node_on(node)
        until_well(lab, 600)
        timeline.mark("the rack has a broker again")
        until_spread(lab, running)
        assert_spread(running)
        assert {s.state() for s in slots(lab).values()} == {"Active"}
        conclude(running, timeline, lost)
