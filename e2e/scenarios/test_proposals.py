"""Proposals that are stale, late, stopped or not alone: no outdated move is made, and each proposal says why."""

from collections import Counter

import pytest

from e2e.scenarios.disk_slot import assert_spread, conclude, dies, slots, until_evacuated
from e2e.scenarios.lab import CLUSTER, Lab, LabError
from e2e.scenarios.load import Load, Topic, load, make_topic
from e2e.scenarios.machine import Machine
from e2e.scenarios.moving import assert_nothing_left
from e2e.scenarios.proposing import (
    FOUR,
    approve,
    assert_landed,
    mates,
    move,
    propose,
    replicas_of,
    status,
    swapped,
    throttles,
    until_held,
    until_moving,
    until_phase,
)
from e2e.scenarios.stand import Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_GROWTH = 300  # MiB: more than a replica may grow


def cordon(lab: Lab, running: Load, broker: int) -> None:
    """Cordon a broker, as a user does."""
    entries = [{"name": disk, "desiredState": "Cordoned"} for b, disk in slots(lab) if b == broker]
    lab.patch("kafkabroker", f"{CLUSTER}-broker-{broker}", {"spec": {"maintenance": {"disks": entries}}})
    lab.until(
        f"broker {broker} is cordoned",
        lambda: any("cordoned" in key for key in running.broker_settings()[str(broker)]),
    )


def until_told_wrong(lab: Lab, name: str, wanted: str) -> None:
    """Approve a proposal with a wrong hash: API server and command line reject that, and the proposal keeps waiting."""
    with pytest.raises(LabError, match="approved must be the inputHash of this proposal"):
        lab.patch("kafkarebalance", name, {"spec": {"approved": "deadbeefdeadbeef"}})
    with pytest.raises(LabError, match=f"has the hash {wanted}, not deadbeefdeadbeef"):
        lab.spindle("rebalance", "approve", name, "-n", lab.namespace, "--hash", "deadbeefdeadbeef")
    assert status(lab, name)["phase"] == "Proposed"


def test_what_does_not_hold_any_more_is_left_out(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(FOUR)
    steady, doomed, grows = Topic("steady"), Topic("doomed", partitions=1), Topic("grows", partitions=1)
    make_topic(lab, doomed)
    make_topic(lab, grows)
    with Timeline(lab) as timeline, load(lab, spindle_image, steady, fill=120) as running:
        one, other = mates(lab)
        stand_now = running.placement()
        here = [r for r in stand_now if r.broker == one]
        there = [r for r in stand_now if r.broker == other]
        away = next(r for r in stand_now if r.broker not in (one, other))
        assert here, stand_now
        assert len(there) > 1, stand_now
        holds = [swapped(away), move(there[0], one, "disk0")]
        moves = [
            *holds,
            move(here[0], other, "disk1"),
            swapped(there[1]),
            *(swapped(replicas_of(running, topic)[0]) for topic in (doomed, grows)),
        ]

        propose(lab, "older", moves[:1])
        until_phase(lab, "older", "Proposed")
        wanted = propose(lab, "stale", moves)
        assert "stale is newer" in until_phase(lab, "older", "Superseded")["message"]
        until_phase(lab, "stale", "Proposed")
        until_told_wrong(lab, "stale", wanted)

        began = timeline.mark("the proposal becomes stale")
        running.drop(doomed)
        _, _, now = running.partitions()[there[1].name]
        running.reassign(
            there[1].topic, there[1].partition, [one if broker == other else broker for broker in now]
        )
        with load(lab, spindle_image, grows, fill=_GROWTH, there=True) as growing:
            lab.until(
                "a replica has left",
                lambda: sorted(running.partitions()[there[1].name][1]) == sorted({*now, one} - {other}),
            )
            cordon(lab, running, other)
            timeline.mark("approved")
            approve(lab, "stale")
            found = until_phase(lab, "stale", "Done", seconds=240)
            timeline.mark("done")
            assert found["outcomes"] == "++----"
            assert {
                drop["topic"]: drop["reason"] for drop in found["dropped"] if drop["topic"] != "steady"
            } == {
                "doomed": "TopicDeleted",
                "grows": "ReplicaSizeChanged",
            }
            steadies = {d["partition"]: d["reason"] for d in found["dropped"] if d["topic"] == "steady"}
            assert steadies == {here[0].partition: "TargetUnusable", there[1].partition: "ReplicaRelocated"}
            assert_landed(running, holds)
            lab.patch("kafkabroker", f"{CLUSTER}-broker-{other}", {"spec": {"maintenance": {"disks": []}}})
            until_well(lab)
            assert_nothing_left(running)
            assert not throttles(running)
            assert not growing.finish().lost
        assert_spread(running)
        conclude(running, timeline, began)


def test_one_at_a_time_not_too_late_and_disks_first(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(FOUR)
    topic = Topic("turns", partitions=12)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, fill=480) as running:
        placed = Counter(replica.broker for replica in running.placement())
        # The one with more replicas: the interruption must come before all of them are moved.
        one, other = sorted(mates(lab), key=lambda broker: -placed[broker])
        forth = [move(r, other, "disk1") for r in running.placement() if r.broker == one]
        began = timeline.mark("the first one is approved")
        propose(lab, "first", forth)
        approve(lab, "first")
        until_moving(lab, "first")

        propose(lab, "late", forth[:1], seconds=30)
        approve(lab, "late")
        held = until_held(lab, "late", "AnotherProposalExecuting")
        assert held["phase"] == "Approved"
        assert held["message"].startswith("first is executing")
        assert "approved too late" in until_phase(lab, "late", "Expired", seconds=150)["message"]
        assert status(lab, "first")["phase"] == "Executing", "it took too short a time to prove anything"
        propose(lab, "ignored", forth[:1], seconds=1)
        assert "Nobody approved it in time" in until_phase(lab, "ignored", "Expired", seconds=150)["message"]
        with pytest.raises(LabError, match=r"ignored has ended \(Expired\)"):
            approve(lab, "ignored")

        back = [
            swapped(next(r for r in running.placement() if r.broker not in (one, other))),
            *(move(r, one, "disk0") for r in running.placement() if r.broker == other),
        ]
        propose(lab, "second", [each for each in back if each["topic"] == topic.name])
        approve(lab, "second")
        until_held(lab, "second", "AnotherProposalExecuting")
        first = until_phase(lab, "first", "Done", seconds=400)
        assert first["outcomes"] == "+" * len(forth)
        until_moving(lab, "second", seconds=120)

        slot = slots(lab)[one, "disk0"]
        died = dies(timeline, machine, slot)
        second = until_phase(lab, "second", "Stopped", seconds=120)
        timeline.mark("the second one is stopped")
        assert second["reason"] == "DiskFailureHasPriority"
        assert slot.subject in second["message"]
        assert ">" not in second["outcomes"]
        until_evacuated(timeline, died, slot)
        machine.new_disk(slot.volume, keep=True)
        until_well(lab)
        timeline.mark("well again, with a blank disk")
        assert_nothing_left(running)
        assert not throttles(running)
        assert_spread(running)
        conclude(running, timeline, began)
