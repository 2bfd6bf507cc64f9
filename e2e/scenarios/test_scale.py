"""Brokers added and removed by ``kubectl apply`` under load: backfilled by planned moves, emptied before their removal, their volumes kept."""

import time
from collections.abc import Collection
from typing import Any

import pytest

from e2e.scenarios.disk_slot import conclude
from e2e.scenarios.lab import CLUSTER, Lab, light
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Killer
from e2e.scenarios.stand import Kind, Stand, is_well, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

THREE, FIVE = {0, 1, 2}, {0, 1, 2, 3, 4}
_KIND = Kind(
    3, config={"num.io.threads": "3"}
)  # of no other scenario, which would find claims of removed brokers


def want(lab: Lab, brokers: int, *pools: dict[str, Any]) -> None:
    """Request this number of brokers, as a user does: the whole manifest with another number."""
    manifest = _KIND.manifest()
    manifest["spec"]["brokerPools"][0]["replicas"] = brokers
    manifest["spec"]["brokerPools"] += pools
    lab.apply(manifest)


def ids(lab: Lab) -> set[int]:
    return {broker["spec"]["id"] for broker in lab.list("kafkabrokers")}


def until_has(lab: Lab, brokers: Collection[int], seconds: float = 900) -> float:
    """Wait until exactly these brokers exist, and nothing is in progress."""
    began = time.monotonic()
    lab.until(f"brokers {sorted(brokers)}", lambda: ids(lab) == set(brokers) and is_well(lab), seconds)
    until_well(lab)
    return time.monotonic() - began


def used(running: Load) -> set[int]:
    """Brokers with replicas of the load."""
    return {replica.broker for replica in running.placement()}


def pods(lab: Lab, brokers: Collection[int]) -> set[str]:
    """UIDs of these brokers' pods."""
    return {lab.the("pod", f"{CLUSTER}-broker-{i}")["metadata"]["uid"] for i in brokers}


def belongings(lab: Lab, broker: int) -> list[str]:
    """Objects that were created for a broker, except its claims."""
    found = [o["metadata"]["name"] for kind in ("pod", "configmap", "secret") for o in lab.list(kind)]
    return [name for name in found if name.startswith(f"{CLUSTER}-broker-{broker}")]


def until_told(lab: Lab, reason: str, seconds: float = 60) -> None:
    lab.until(f"the event {reason}", lambda: any(e["reason"] == reason for e in lab.list("events")), seconds)


def test_three_brokers_five_and_three_again(stand: Stand, spindle_image: str, killer: Killer) -> None:
    lab = stand.get(_KIND)
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("scaled", 12), rate=20, fill=96) as running,
    ):
        before = pods(lab, THREE)
        began = timeline.mark("five brokers")
        want(lab, 5)
        grown = until_has(lab, FIVE)
        timeline.mark("five brokers, balanced")
        assert used(running) == FIVE

        shrunk_at = timeline.mark("three brokers")
        want(lab, 3)
        lab.until(
            "they are being emptied",
            lambda: any(
                disk.get("reason") == "ScaleInStarted"
                for broker in lab.list("kafkabrokers")
                for disk in broker["status"].get("disks", ())
            ),
            120,
        )
        killer.kill()
        shrunk = until_has(lab, THREE)
        timeline.mark("three brokers again")
        assert used(running) == THREE
        assert pods(lab, THREE) == before, "a remaining broker was restarted"
        for step in ("ScaledIn", "BrokerUnregistered", "BrokerRemoved"):
            until_told(lab, step)
        for broker in FIVE - THREE:
            for disk in ("disk0", "disk1"):
                claim = lab.the("pvc", f"data-{disk}-{CLUSTER}-{broker}")
                assert claim["status"]["phase"] == "Bound"
                assert claim["metadata"]["annotations"]["spindle.dev/left"] == "true"
            for kind in ("pod", "configmap", "secret"):
                assert not [
                    o for o in lab.list(kind) if f"{CLUSTER}-broker-{broker}" in o["metadata"]["name"]
                ]
        report = conclude(running, timeline, began)
    print(f"five after {grown:.0f} s, three after {shrunk:.0f} s with the operator killed in the middle")
    print(f"longest time that a producer waited, by partition, during the scale-out: {report.gaps(began)}")
    print(f"and during the scale-in: {report.gaps(shrunk_at)}")


def test_minds_are_changed_and_brokers_that_left_come_back(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(_KIND)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("returned", 12), fill=256) as running:
        began = timeline.mark("five brokers")
        want(lab, 5)
        until_has(lab, FIVE)
        before = pods(lab, FIVE)
        timeline.mark("three")
        want(lab, 3)
        timeline.until("disk", "^Draining", since=began, seconds=120)
        timeline.mark("no, five")
        want(lab, 5)
        until_has(lab, FIVE)
        print(f"{len(before & pods(lab, FIVE))} of 5 pods are the same")
        assert used(running) == FIVE
        assert before & pods(lab, THREE) == pods(lab, THREE)
        conclude(running, timeline, began)


def test_what_cannot_be_is_refused_and_nothing_is_done(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(_KIND)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("refused", 6)) as running:
        want(lab, 3)
        until_has(lab, THREE)
        before = pods(lab, THREE)
        began = timeline.mark("two brokers")
        want(lab, 2)
        wait = lab.until_waiting("InsufficientBrokers")
        print(wait["message"], wait["unblockedBy"])
        assert "refused" in wait["message"]
        running.until_more()
        assert pods(lab, THREE) == before
        assert all(len(replicas) == 3 for _, _, replicas in running.partitions().values())
        want(lab, 3)
        lab.until("nothing is held back", lambda: "InsufficientBrokers" not in lab.waits(), 60)
        conclude(running, timeline, began)


def test_a_pool_of_another_kind_takes_over(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(_KIND)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("pooled", 12), fill=32) as running:
        want(lab, 3)
        until_has(lab, THREE)
        began = timeline.mark("a pool with one disk for each broker")
        other = light(1) | {"name": "other"}
        other["disks"] = other["disks"] | {"count": 1}
        want(lab, 3, other)
        lab.until("four brokers", lambda: len(ids(lab)) == 4 and is_well(lab), 600)
        new = ids(lab) - THREE
        assert new <= used(running)
        assert {
            len(b["spec"]["disks"]) for b in lab.list("kafkabrokers") if b["spec"]["pool"] == "other"
        } == {1}
        timeline.mark("without it")
        want(lab, 3)
        until_has(lab, THREE)
        conclude(running, timeline, began)
    stand.close()  # claims of removed brokers exist
