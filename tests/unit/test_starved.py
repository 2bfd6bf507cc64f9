"""An agent that is starved itself says so, and calls no disk hung or slow for it."""

import errno
import itertools
import select
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spindle.disks.findings import ProbeSettings
from spindle.disks.signals import Latency
from spindle.disks.starved import HOLD_SECONDS, NO_PRESSURE, NodePressure, Starved, average, starved
from spindle_agent.disk import Disk
from spindle_agent.probing import timer_lag as strains
from spindle_agent.probing import worker as workers
from spindle_agent.probing.messages import Began, Inspected, Probed, QuickChecked, Watch, decode
from spindle_agent.probing.timer_lag import TimerLag, read_pressure
from tests.model.failing import Failing
from tests.unit.test_agent_disk import disk, entry, glance
from tests.unit.test_agent_node import NAME, Setting, found
from tests.unit.test_healing_plan import cluster, reasons, state_of, until, whole

CPU = "some avg10=94.38 avg60=89.99 avg300=63.30 total=9647338429\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
SLOW = Latency(own_ms=400.0, peers_ms=4.0, far=True, quiet=60.0)


@pytest.fixture
async def setting() -> Any:
    made = Setting()
    yield made
    made.node.sees({})


# --- what counts as starved


@pytest.mark.parametrize(
    ("late", "pressure", "is_starved"),
    [
        pytest.param(0.0, NodePressure(cpu=100.0, memory=100.0), False, id="pressure-alone"),
        pytest.param(0.4, NodePressure(cpu=90.0), False, id="a-busy-machine"),
        pytest.param(1.2, NodePressure(cpu=90.0), True, id="late-under-pressure"),
        pytest.param(1.2, NodePressure(memory=30.0), True, id="late-while-memory-is-short"),
        pytest.param(1.2, NodePressure(cpu=20.0), False, id="late-without-pressure"),
        pytest.param(1.2, NO_PRESSURE, False, id="a-kernel-without-figures"),
        pytest.param(3.0, NO_PRESSURE, True, id="very-late-whatever-the-kernel-says"),
    ],
)
def test_timers_decide_and_pressure_only_adds_to_them(
    late: float, pressure: NodePressure, is_starved: bool
) -> None:
    assert starved(late, pressure) is is_starved


def test_the_kernels_figures_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert read_pressure(str(tmp_path)) == NO_PRESSURE
    (tmp_path / "cpu").write_text(CPU)
    (tmp_path / "memory").write_text("full avg10=many\n")
    assert read_pressure(str(tmp_path)) == NodePressure(cpu=94.38, memory=None)
    assert average(CPU, "full") == 0.0
    assert average("some total=1\n\n", "some") is None


class TestStrain:
    def test_what_is_late_counts_for_ten_seconds_and_is_told_a_while_longer(self) -> None:
        one = TimerLag()
        assert not one.starved(100.0)
        for second in (101.0, 102.0, 103.0):
            one.was_late("disk0", second, 1.0)
        assert one.starved(103.0)
        told = one.fields()
        assert Starved.parse(told) is not None
        assert "late by 3.0 of 10 s" in told["starved"]["message"]
        one.was_late("disk0", 104.0, 5.0)
        assert one.starved(114.0)
        assert one.fields() == told, "one write to the API server for all of it"
        assert one.starved(114.0 + HOLD_SECONDS - 1)
        assert not one.starved(114.0 + HOLD_SECONDS + 1)
        assert one.fields() == {}

    def test_several_who_are_late_a_little_are_no_more_than_one(self) -> None:
        one = TimerLag()
        for number in range(12):
            one.was_late(f"disk{number}", 100.0, 0.4)
        assert not one.starved(100.0)

    def test_a_clock_that_has_not_come_yet_is_late_already(self) -> None:
        one = TimerLag()
        one.expects(100.0)
        assert not one.starved(102.0)
        assert one.starved(104.0)
        one.came(104.0)
        assert one.starved(105.0)

    def test_with_pressure_less_is_enough(self) -> None:
        one = TimerLag()
        one.was_late("agent", 100.0, 1.5)
        assert not one.starved(100.0)
        one.pressure = NodePressure(cpu=95.0)
        assert one.starved(100.0)
        assert "CPU 95 %" in one.fields()["starved"]["message"]


def test_a_worker_measures_how_late_its_own_timer_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    mine, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    clock = itertools.count(100.0, 2.0)  # each look at the clock is two seconds after the one before
    waits = iter([False, False, None])

    def wait(*_: Any) -> Any:
        if next(waits) is None:
            raise EnoughError
        return [], [], []

    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(select, "select", wait)
    watch = Watch(
        path=str(tmp_path / "none"), cluster_id="cluster", node_id=0, disk="disk0", directory_id="A" * 22
    )
    with mine, pytest.raises(EnoughError):
        workers._Worker(mine, watch).look_for_ever()
    heard = []
    with other:
        while data := other.recv(65536):
            heard.append(decode(data))
    assert [each.late for each in heard if isinstance(each, QuickChecked)] == [0.0, 1.5, 1.5]


# --- what it means for a disk


def watched(one: Disk, *, starved: bool, until: int, begin: int = 1, latency: Latency = SLOW) -> Disk:
    for second in range(begin, until):
        one.take(glance(second))
        one.assess(latency, float(second), ProbeSettings(), starved=starved)
    return one


class TestVerdicts:
    def test_no_write_hangs_while_who_waits_for_it_is_starved(self) -> None:
        one = disk()
        one.take(Began(at=1.0))
        watched(one, starved=True, until=120)
        assert entry(one)["verdict"] == "Healthy"
        assert not {"stalled", "pendingWrite"} & entry(one).keys()

    def test_what_still_waits_afterwards_hangs(self) -> None:
        one = disk()
        one.take(Began(at=1.0))
        watched(one, starved=True, until=60)
        watched(one, starved=False, begin=60, until=69)
        assert entry(one)["verdict"] == "Suspect", "time begins anew when there is time"
        watched(one, starved=False, begin=69, until=72)
        assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "IOHung")
        assert entry(one, 72.0)["pendingWrite"] == 1000

    def test_no_disk_is_slow_meanwhile_and_no_time_runs_for_it(self) -> None:
        one = disk()
        for second in range(1, 55):
            one.take(Probed(at=second, seconds=0.5))
            watched(one, starved=False, begin=second, until=second + 1)
        for second in range(55, 300):
            one.take(Probed(at=second, seconds=0.5))
            watched(one, starved=True, begin=second, until=second + 1)
        assert entry(one)["reason"] == "SlowDevice"
        assert entry(one)["verdict"] == "Suspect", "as it was before"
        one.take(Probed(at=300.0, seconds=0.5))
        watched(one, starved=False, begin=300, until=310)
        assert entry(one)["verdict"] == "Suspect"

    @pytest.mark.parametrize("wrong", [False, True])
    def test_an_error_counts_as_ever(self, wrong: bool) -> None:
        one = disk()
        for at in (1.0, 1.1):
            one.take(Probed(at=at, seconds=0, errno=0 if wrong else errno.EIO, doing="fsync", wrong=wrong))
            one.take(glance(at))
            one.assess(Latency(), at, ProbeSettings(), starved=True)
        assert (entry(one)["verdict"], entry(one)["reason"]) == (
            "Failed",
            "WrongData" if wrong else "ProbeError",
        )

    def test_a_verdict_of_before_stays(self) -> None:
        one = disk()
        one.take(Began(at=1.0))
        watched(one, starved=False, until=13)
        assert entry(one)["stalled"] is True
        watched(one, starved=True, begin=13, until=60)
        assert (entry(one)["verdict"], entry(one)["reason"]) == ("Failed", "IOHung")
        assert "stalled" not in entry(one), "nobody is stopped on it"


# --- what the agent tells


async def test_the_agent_tells_that_it_is_starved_and_gives_no_verdict_of_a_hang(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strains, "read_pressure", lambda: NO_PRESSURE)
    setting.sees(NAME[1])
    setting.well(NAME[1])
    key, other = (*NAME, "disk0"), (*NAME, "disk1")
    now = time.monotonic()
    offered = setting.publisher.offers[NAME]
    assert "starved" not in offered

    setting.node.take(key, Began(at=now - 60.0))
    setting.node.take(key, Inspected(at=now, found=found("disk0")))
    setting.node.take(other, replace(glance(now), late=4.0))
    setting.node.take(key, replace(glance(now), late=4.0))
    offered = setting.publisher.offers[NAME]
    assert setting.told() == {"disk0": "Healthy", "disk1": "Healthy"}
    assert "late by 4.0 of 10 s" in offered["starved"]["message"]


async def test_it_tells_when_it_begins_and_when_it_ends(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [1000.0]
    setting.sees(NAME[1])
    setting.well(NAME[1])
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    setting.node.strain.was_late("agent", 1000.0, 5.0)
    setting.node._see_to_strain()
    assert "starved" in setting.publisher.offers[NAME]
    at[0] += 60.0
    setting.node._see_to_strain()
    assert "starved" not in setting.publisher.offers[NAME]


# --- what the operator tells


def said(world: Failing, broker: int) -> None:
    """The agent of a broker's node is starved, and holds back what it would say of its disks."""
    there = world.get("KafkaBroker", f"demo-broker-{broker}")
    there["status"]["observed"]["starved"] = {
        "since": "2026-01-01T00:00:00Z",
        "message": "Its timers were late.",
    }
    world.put(there)


def test_the_operator_tells_which_agent_is_starved_for_as_long_as_it_is_heard() -> None:
    world = cluster(3)
    assert "AgentStarved" not in reasons(world)
    world.breathe()
    said(world, 1)
    world.reconcile()
    (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "AgentStarved"]
    assert told["object"] == "KafkaBroker/demo-broker-1"
    assert "Its timers were late." in told["message"]
    assert state_of(world, 1, "disk0") == "Active"
    until(world, lambda: "AgentStarved" not in reasons(world))
    whole(world)


@pytest.mark.parametrize("odd", [None, "yes", True, 3, []])
def test_what_an_agent_says_that_is_not_understood_counts_as_nothing(odd: Any) -> None:
    assert Starved.parse({"starved": odd}) is None
    assert Starved.parse({}) is None
    assert Starved.parse({"starved": {}}) == Starved("", "")
