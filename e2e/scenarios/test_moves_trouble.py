"""Events during moves: a disk that fails, a target that fills up, a topic that is deleted, a reassignment by another client."""

import pytest

from e2e.scenarios.disk_slot import (
    assert_spread,
    choose,
    conclude,
    dies,
    replace,
    slots,
    until_evacuated,
    until_told,
)
from e2e.scenarios.load import Topic, load
from e2e.scenarios.machine import Machine
from e2e.scenarios.moving import assert_nothing_left, drain, moves, target, until_drained, use_again
from e2e.scenarios.stand import Kind, Stand, until_well
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

SLOWLY = {"moveBytesPerSecond": 1_000_000, "moveBytesPerSecondMin": 1_000_000}
THREE = Kind(3, policy=SLOWLY)
FOUR = Kind(4, policy=SLOWLY)
# Small disks and small segments, so that the moved data is a large part of a disk.
SMALL = Kind(
    3,
    disks=3,
    policy=SLOWLY,
    size="1Gi",
    config={"log.segment.bytes": "8388608", "log.index.size.max.bytes": "1048576"},
)


@pytest.mark.parametrize("which", ["source", "target"])
def test_a_disk_fails_during_the_moves(
    stand: Stand, machine: Machine, spindle_image: str, which: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic(f"fails{which}"), fill=144) as running:
        slot = choose(lab, running)
        drain(timeline, slot)
        dead = slot if which == "source" else target(slot, moves(slot, "Copying")[0])
        died = dies(timeline, machine, dead)
        print(until_told(timeline, died, dead))
        slot.withdraw()
        until_evacuated(timeline, died, dead)
        replace(timeline, machine, dead)
        assert_nothing_left(running)
        assert_spread(running)
        conclude(running, timeline, died)


def test_a_topic_is_deleted_during_its_move(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(THREE)
    doomed = Topic("doomed")
    with (
        Timeline(lab) as timeline,
        load(lab, spindle_image, Topic("kept"), fill=60) as running,
        load(lab, spindle_image, doomed, fill=144, keep=True) as other,
    ):
        slot = choose(lab, other)
        assert not other.finish().lost
        began = drain(timeline, slot)
        lab.until(
            "a log of it is copied",
            lambda: [m for m in moves(slot, "Copying") if m["topic"] == doomed.name],
            120,
        )
        deleted = timeline.mark("the topic is deleted")
        running.drop(doomed)
        timeline.until("event", "MoveObsolete: .*doomed.*deleted", since=deleted, seconds=60)
        until_drained(timeline, began, slot)
        assert_nothing_left(running)
        use_again(timeline, slot)
        conclude(running, timeline, began)


def test_a_target_that_fills_gets_no_more(stand: Stand, machine: Machine, spindle_image: str) -> None:
    lab = stand.get(SMALL)
    topic = Topic("fills", partitions=9)
    with Timeline(lab) as timeline, load(lab, spindle_image, topic, rate=1, fill=216) as running:
        slot = choose(lab, running)
        began = drain(timeline, slot)
        full = target(slot, moves(slot, "Copying")[0])
        filled = timeline.mark(f"{full.subject} is filled to 94 % by other files")
        machine.disk("fill", full.volume, 94)
        found = timeline.until(
            "event",
            "^(MoveFailed|TargetDiskFull|TargetDiskFilling|TargetUnusable)",
            since=filled,
            seconds=120,
        )
        print(f"reported {found - filled:.1f} s after it was filled")
        lab.until(
            "nothing is copied to it any more",
            lambda: (
                not [
                    r
                    for r, future in running.logs()[1]
                    if future and (r.broker, r.disk) == (full.broker, full.disk)
                ]
            ),
            120,
        )
        until_drained(timeline, began, slot)  # the third disk has space
        timeline.mark("there is space again")
        machine.disk("heal", full.volume)
        assert_nothing_left(running)
        use_again(timeline, slot)
        conclude(running, timeline, began)


def test_a_person_reassigns_a_partition_during_its_move(stand: Stand, spindle_image: str) -> None:
    lab = stand.get(FOUR)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("taken"), fill=180) as running:
        slot = choose(lab, running)
        began = drain(timeline, slot)
        move = moves(slot, "Copying")[0]
        name, index = f"{move['topic']}-{move['partition']}", int(move["partition"])
        _, _, replicas = running.partitions()[name]
        (spare,) = {0, 1, 2, 3} - set(replicas)
        leaves = next(broker for broker in replicas if broker != slot.broker)
        wanted = [spare if broker == leaves else broker for broker in replicas]
        taken = timeline.mark(f"{name} is reassigned from {replicas} to {wanted} by another client")
        running.reassign(move["topic"], index, wanted)
        timeline.until("event", f"MoveObsolete: .*{name}", since=taken, seconds=60)
        lab.until(
            "the reassignment is done", lambda: sorted(running.partitions()[name][2]) == sorted(wanted), 240
        )
        until_drained(timeline, began, slot)
        assert sorted(running.partitions()[name][2]) == sorted(wanted), (
            "a replica that a user has moved stays there"
        )
        assert not [r for r in running.placement() if (r.broker, r.disk) == (slot.broker, slot.disk)]
        assert_nothing_left(running)
        use_again(timeline, slot)
        until_well(lab)
        assert {broker for broker, _ in slots(lab)} == {0, 1, 2, 3}
        conclude(running, timeline, began)
