"""Nodes are drained one by one, then a whole zone, under load; then a node loses power permanently."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from e2e.scenarios.disk_slot import assert_spread, conclude
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Load, Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import SIX, THREE, Kind, Stand, until_well
from e2e.scenarios.test_rolls import Roll, pods
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

GONE = "node.kubernetes.io/out-of-service"
_NOT_THE_LOAD = "!load"  # the measuring pod must not be drained itself


@contextmanager
def watched(
    lab: Lab, image: str, topic: str, *, away_from: tuple[str, ...] = ()
) -> Iterator[tuple[Load, Timeline, Roll]]:
    """A load that survives every drain; at the end nothing may be lost."""
    made = Topic(topic, partitions=12)
    with Timeline(lab) as timeline, load(lab, image, made, rate=20, away_from=away_from) as running:
        lab.kubectl("label", "pod", running.pod, "load=yes")
        roll = Roll(lab, running, timeline.mark("the beginning"), pods(lab))
        yield running, timeline, roll
        report = conclude(running, timeline, roll.began)
        print(
            f"longest time that a producer waited, by partition: {report.gaps(roll.began) or 'none above 1 s'}"
        )


def drain(lab: Lab, node: str, seconds: int = 240, *, check: bool = True) -> str:
    """Drain it like a user; returns when everything is evicted."""
    return lab.kubectl(
        *("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={seconds}s"),
        f"--pod-selector={_NOT_THE_LOAD}",
        check=check,
        timeout=seconds + 30,
    )


def homes(lab: Lab) -> dict[str, str]:
    """Broker → its node."""
    return {b["metadata"]["name"]: b["spec"]["node"] for b in lab.list("kafkabrokers")}


def running_pods(lab: Lab) -> set[str]:
    """Pods of the cluster in which Kafka runs."""
    return {
        pod["metadata"]["name"]
        for pod in lab.list("pods", "spindle.dev/role")
        if any(s.get("state", {}).get("running") for s in pod["status"].get("containerStatuses", ()))
    }


def until_back(lab: Lab, roll: Roll) -> float:
    """Wait until everything is in sync again, and record under-replicated partitions."""

    def back() -> bool:
        roll.look()
        status = lab.status()
        return all(status[kind]["ready"] == status[kind]["total"] for kind in ("brokers", "controllers"))

    return lab.until("everything is in sync again", back, 300)


def test_each_node_is_drained_in_turn(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(SIX)
    with watched(lab, spindle_image, "drained") as (_, timeline, roll):
        for broker, node in sorted(homes(lab).items()):
            timeline.mark(f"drain {node}")
            began = time.monotonic()
            try:
                drain(lab, node)
                took = time.monotonic() - began
                assert broker not in running_pods(lab)
            finally:
                lab.kubectl("uncordon", node)
            back = until_back(lab, roll)
            print(f"{node} with {broker} was drained in {took:.0f} s, in sync again {back:.0f} s after")
        assert not roll.short, f"below min.insync.replicas: {roll.short}"


def test_a_zone_is_drained(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(SIX)
    brokers = lab.list("kafkabrokers")
    zone = brokers[0]["spec"]["rack"]
    mine = {b["metadata"]["name"]: b["spec"]["node"] for b in brokers if b["spec"]["rack"] == zone}
    others = {b["metadata"]["name"]: b["spec"]["node"] for b in brokers if b["spec"]["rack"] != zone}
    assert len(mine) == 2
    with watched(lab, spindle_image, "zone") as (_, timeline, roll):
        timeline.mark(f"drain of {zone}")
        began = time.monotonic()
        node = min(others.values())
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda each: drain(lab, each), mine.values()))
            took = time.monotonic() - began
            assert not mine.keys() & running_pods(lab)
            said = drain(lab, node, 8, check=False)
            assert "Cannot evict pod" in said, said
            assert others.keys() <= running_pods(lab)
        finally:
            for each in (*mine.values(), node):
                lab.kubectl("uncordon", each)
        back = until_back(lab, roll)
        print(
            f"{zone} was drained in {took:.0f} s, in sync again {back:.0f} s after; events: {drain_events(lab)}"
        )
        assert not roll.short, f"below min.insync.replicas: {roll.short}"


def drain_events(lab: Lab) -> set[str]:
    """Events about the drain."""
    return {e["message"] for e in lab.list("events") if e["reason"] in ("DrainAllowed", "EvictionDeferred")}


@pytest.mark.parametrize("kind", [SIX, THREE], ids=["six", "three"])
def test_a_node_is_gone_for_good(stand: Stand, spindle_image: str, machine: Machine, kind: Kind) -> None:
    lab = stand.get(kind)
    controllers = {pod["spec"]["nodeName"] for pod in lab.list("pods", "spindle.dev/role=controller")}
    nodes = homes(lab)
    # A controller there would cost a voter as well; its replacement is tested elsewhere.
    broker, node = max(nodes.items(), key=lambda each: (each[1] not in controllers, each[0]))
    claims = claims_of(lab, broker)
    with watched(lab, spindle_image, f"gone{kind.brokers}", away_from=(node,)) as (running, timeline, _):
        running.until_more(500)
        timeline.mark(f"{node} loses power")
        machine.node_off(node)
        try:
            lab.until_waiting("NodeNotReady")
            lab.kubectl("taint", "node", node, f"{GONE}=off:NoExecute")
            lab.until_waiting("NodeLost")
            assert claims_of(lab, broker) == claims
            agreed = timeline.mark("a user accepts the loss")
            lab.patch("kafkabroker", broker, {"spec": {"acceptDataLoss": {"node": node}}})
            lab.until("three replicas of everything are in sync", lambda: full(running, kind, broker), 400)
            print(f"three replicas of everything {time.time() - agreed:.0f} s after the loss was accepted")
            if kind is THREE:
                assert starts_anew(lab, broker, node, claims)
            else:
                assert claims_of(lab, broker) == claims, "there is no space elsewhere"
            assert_spread(running)
        finally:
            lab.kubectl("taint", "node", node, f"{GONE}-", check=False)
            machine.node_on(node)
    if kind is SIX:
        until_well(lab)


def claims_of(lab: Lab, broker: str) -> dict[str, str]:
    """Claim → volume."""
    chosen = f"spindle.dev/node-id={broker.rsplit('-', 1)[-1]}"
    return {c["metadata"]["name"]: c["spec"].get("volumeName", "") for c in lab.list("pvc", chosen)}


def full(running: Load, kind: Kind, broker: str) -> bool:
    """Whether every partition has three replicas in sync; with more brokers than replicas none on the lost broker."""
    number = int(broker.rsplit("-", 1)[-1])
    found = running.partitions().values()
    return all(len(isr) == 3 and (kind is THREE or number not in replicas) for _, isr, replicas in found)


def starts_anew(lab: Lab, broker: str, node: str, claims: dict[str, str]) -> bool:
    """The broker runs on another node, with new volumes; its former volumes are kept."""
    took = until_well(lab)
    print(f"well again after {took:.0f} s more, on {homes(lab)[broker]}")
    now = claims_of(lab, broker)
    volumes = {v["metadata"]["name"]: v["status"]["phase"] for v in lab.list("pv")}
    return (
        homes(lab)[broker] != node
        and now.keys() == claims.keys()
        and not set(now.values()) & set(claims.values())
        and {volumes[v] for v in claims.values()} == {"Released"}
        and lab.condition("RacksSatisfied")["status"] == "True"
    )
