"""A disk fails under load: the broker continues, its replicas are re-replicated elsewhere, the new disk is backfilled, without any user action."""

import pytest

from e2e.scenarios.disk_slot import (
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    until_evacuated,
    until_told,
)
from e2e.scenarios.lab import Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.stand import SIX, THREE, Kind, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e


def _dies_and_is_replaced(lab: Lab, machine: Machine, image: str, topic: str, fill: int) -> None:
    with Timeline(lab) as timeline, load(lab, image, Topic(topic, partitions=12), fill=fill) as running:
        slot = choose(lab, running)
        held = sum(r.bytes for r in running.placement() if (r.broker, r.disk) == (slot.broker, slot.disk))
        died = dies(timeline, machine, slot)
        told = until_told(timeline, died, slot)
        evacuated = until_evacuated(timeline, died, slot)
        assert slot.retired()
        running.until_all_writable()
        well = replace(timeline, machine, slot)
        assert slot.spec()["directoryId"] != slot.directory_id
        assert_spread(running)
        conclude(running, timeline, died)
    print(f"reported after {told}, safe to pull after {evacuated:.1f} s, well {well:.1f} s after the swap")
    began = timeline.first("kafka", "[1-9][0-9]* being reassigned", since=died)
    ended = timeline.first("kafka", " 0 being reassigned", since=began) if began else None
    if began and ended:
        print(f"{held} bytes evacuated in {ended - began:.1f} s: {held / (ended - began):.0f} bytes/s")
    assert told["event"] < 60  # a second or two on a machine with free CPUs


@pytest.mark.capability
def test_three_brokers_shrink_and_grow_back(running: Lab, machine: Machine, spindle_image: str) -> None:
    _dies_and_is_replaced(running, machine, spindle_image, "grown", fill=4)


def test_the_process_that_dies_after_its_disk_comes_back_without_it(
    stand: Stand, machine: Machine, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("orphan")) as running:
        slot = choose(lab, running)
        pod = lab.the("pod", slot.owner)
        died = dies(timeline, machine, slot)
        machine.kill_container(pod, "kafka")
        back = timeline.until("pod", f"^(?!{pod['metadata']['uid'][:8]}).*: Ready", slot.owner, seconds=180)
        print(f"back without its disk after {back - died:.1f} s")
        until_evacuated(timeline, died, slot)
        replace(timeline, machine, slot)
        assert_spread(running)
        conclude(running, timeline, died)


@pytest.mark.parametrize(
    ("kind", "fill"),
    [
        pytest.param(SIX, 64, id="six-xfs"),
        pytest.param(Kind(6, "ext4"), 128, id="six-ext4"),  # enough to measure the rate of the evacuation
        pytest.param(Kind(3, "ext4"), 64, id="three-ext4"),
    ],
)
def test_a_disk_dies_and_is_replaced(
    stand: Stand, machine: Machine, spindle_image: str, kind: Kind, fill: int
) -> None:
    topic = f"moved{kind.brokers}{kind.file_system}"
    _dies_and_is_replaced(stand.get(kind), machine, spindle_image, topic, fill)
