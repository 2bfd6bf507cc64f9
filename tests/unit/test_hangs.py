"""A broker is stopped for a hang only if a second look shows the same one, and nothing that it leads from there has grown."""

import contextlib
from collections.abc import Callable

import pytest

from spindle.evacuation.hang import HangEvidence, confirms, ends, later, moved, parse, render
from spindle.model.actions import Delete
from spindle.model.times import stamp
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from tests.model.failing import Failing
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import cluster, mode_of, reasons, state_of, until, whole


class TestTwoLooks:
    FIRST = HangEvidence(7, 10, "a")

    @pytest.mark.parametrize(
        ("now", "sure"),
        [
            (HangEvidence(7, 15, "a"), True),
            (HangEvidence(7, 15, None), True),  # a hung broker rarely answers
            (HangEvidence(7, 10, "a"), False),  # the same word as before
            (HangEvidence(8, 15, "a"), False),  # another write: the one before came back
            (HangEvidence(7, 15, "b"), False),  # something was appended
            (HangEvidence(None, 15, "a"), False),
        ],
    )
    def test_what_confirms_a_hang(self, now: HangEvidence, sure: bool) -> None:
        assert confirms(self.FIRST, now) is sure
        assert not confirms(None, now)

    def test_after_two_minutes_growth_in_memory_proves_nothing(self) -> None:
        before = HangEvidence(7, 115, "a")
        assert confirms(before, HangEvidence(7, 120, "b"))
        assert not confirms(HangEvidence(7, 110, "a"), HangEvidence(7, 115, "b"))
        assert not confirms(before, HangEvidence(8, 120, "b")), "another write"
        assert not confirms(HangEvidence(7, 120, "a"), HangEvidence(7, 120, "b")), "no later"

    def test_what_moved_begins_anew(self) -> None:
        grown = HangEvidence(7, 15, "b")
        assert moved(self.FIRST, grown)
        assert later(self.FIRST, grown) == grown
        assert later(self.FIRST, HangEvidence(7, 15, "a")) == self.FIRST

    def test_what_was_noted_is_read_again(self) -> None:
        assert parse(render({"disk0": self.FIRST})) == {"disk0": self.FIRST}
        assert parse("?") == parse(None) == {}

    def test_only_what_is_led_from_there_counts(self) -> None:
        def look(led: int, followed: int) -> str | None:
            dirs = (LogDir("/d", replicas={("t", 0): led, ("t", 1): followed}), LogDir("/gone", 56))
            partitions = (Partition("t", 0, 0, (0, 1), (0, 1)), Partition("t", 1, 1, (0, 1), (0, 1)))
            view = KafkaView(brokers={0: Broker(0, None, False, dirs)}, partitions=partitions)
            assert ends(view, 0, "/gone") is ends(view, 1, "/d") is None
            return ends(view, 0, "/d")

        assert look(1, 1) == look(1, 2)
        assert look(1, 1) != look(2, 1)


def fenced(world: Failing, each: Callable[[], None], passes: int = 12) -> list[str]:
    """Brokers that are stopped at once, while something happens before each pass."""
    found = []
    for _ in range(passes):
        world.breathe()
        each()
        with contextlib.suppress(ConflictError):
            actions = world.reconcile().actions
            found += [a.name for a in actions if isinstance(a, Delete) and a.grace_seconds is not None]
    return found


class TestLoadedMachine:
    def test_a_disk_whose_writes_come_back_after_long_stops_nobody(self) -> None:
        """Each look finds a write pending for long, and each time it is another one."""
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"

        def another() -> None:
            observed = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
            entry = next(d for d in observed if d["name"] == "disk1")
            entry |= {"pendingWrite": int(world.now * 1000), "pendingSeconds": 10}

        assert fenced(world, another) == []
        assert "HangUnconfirmed" in reasons(world)

    def test_a_disk_that_is_still_written_to_stops_nobody(self) -> None:
        world = cluster(3)
        since, began = stamp(world.now), world.now

        def grow() -> None:
            world.kafkas.sizes["orders"] = world.kafkas.sizes.get("orders", 1000) + 1000
            observed = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
            entry = next(d for d in observed if d["name"] == "disk1")
            entry |= {"verdict": "Failed", "reason": "IOHung", "stalled": True, "since": since}
            entry |= {"pendingWrite": 1, "pendingSeconds": int(world.now - began) // 5 * 5}

        assert fenced(world, grow, 22) == []  # 110 s
        assert "DiskStillServes" in reasons(world)
        assert fenced(world, grow, 6)[:1] == ["demo-broker-0"]

    def test_stalls_of_many_nodes_are_one_finding(self) -> None:
        world = cluster(3)
        for broker in (0, 1, 2):
            world.disk(broker, "disk1").state = "hung"
        assert fenced(world, lambda: None, 20) == []
        told = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "CorrelatedDiskStalls"]
        assert [w["object"] for w in told] == ["KafkaCluster/demo"]
        assert all(f"{b}/disk1" in told[0]["message"] for b in (0, 1, 2))
        assert {state_of(world, b, "disk1") for b in (0, 1, 2)} == {"Active"}
        assert "counts as hung" not in told[0]["unblockedBy"], "however long it lasts"
        for broker in (0, 1, 2):
            world.disk(broker, "disk1").state = "well"
        until(world, lambda: "CorrelatedDiskStalls" not in reasons(world))
        whole(world)


class TestTwoNodes:
    def test_what_begins_at_the_same_time_on_two_nodes_stops_nobody_for_a_minute(self) -> None:
        world = cluster(3)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "hung"
        assert fenced(world, lambda: None, 10) == []
        (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "CorrelatedDiskStalls"]
        assert told["object"] == "KafkaCluster/demo"
        assert "0/disk1" in told["message"]
        assert "1/disk1" in told["message"]
        assert "counts as hung" in told["unblockedBy"]
        assert {state_of(world, b, "disk1") for b in (0, 1)} == {"Active"}
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "well"
        assert fenced(world, lambda: None, 10) == []
        whole(world)

    def test_two_disks_that_truly_hang_do_not_stay_unfenced(self) -> None:
        world = cluster(3)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "hung"
        assert len(fenced(world, lambda: None, 20)) == 1, (
            "the same writes are pending still, and nothing grows"
        )
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "well"
        whole(world)

    def test_writes_that_come_back_stop_nobody_however_long_it_lasts(self) -> None:
        """Each takes ten seconds; together they are a minute, and none of them is."""
        world = cluster(3)
        for broker in (0, 1):
            world.disk(broker, "disk1").state = "hung"

        def others() -> None:
            for broker in (0, 1):
                observed = world.get("KafkaBroker", f"demo-broker-{broker}")["status"]["observed"]["disks"]
                entry = next(d for d in observed if d["name"] == "disk1")
                entry |= {"pendingWrite": int(world.now * 1000), "pendingSeconds": 10}

        assert fenced(world, others, 40) == []
        assert "CorrelatedDiskStalls" in reasons(world)

    def test_a_disk_that_hangs_long_before_another_one_stalls_is_its_own_matter(self) -> None:
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"

        def later() -> None:
            observed = world.get("KafkaBroker", "demo-broker-1")["status"]["observed"]["disks"]
            entry = next(d for d in observed if d["name"] == "disk1")
            entry |= {"verdict": "Suspect", "reason": "NotAnswering", "stalled": True, "pendingWrite": 1}
            entry |= {"pendingSeconds": 5}
            mine = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
            first = next(d for d in mine if d["name"] == "disk1")
            if "pendingSeconds" in first:
                first["pendingSeconds"] += 30

        assert fenced(world, later) == ["demo-broker-0"]


class TestOlderAgent:
    def test_a_hang_without_word_of_its_write_is_told_with_a_way_out(self) -> None:
        """An agent of a version that does not say which write is pending: two looks show nothing, and somebody has to know."""
        world = cluster(3)
        world.disk(0, "disk1").state = "hung"

        def older() -> None:
            observed = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
            entry = next(d for d in observed if d["name"] == "disk1")
            entry.pop("pendingWrite", None)
            entry.pop("pendingSeconds", None)

        assert fenced(world, older) == []
        (told,) = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "AgentTooOld"]
        assert told["object"] == "KafkaBroker/demo-broker-0"
        assert "pod demo-broker-0" in told["unblockedBy"]
        assert "HangUnconfirmed" not in reasons(world)

        def told_so() -> None:
            older()
            pod = world.objects.get(("Pod", "demo-broker-0"))
            if (
                pod is not None
                and pod["metadata"]["uid"] == uid
                and not pod["metadata"].get("deletionTimestamp")
            ):
                world.act(Delete(kind="Pod", name="demo-broker-0", uid=uid, grace_seconds=1))

        uid = world.get("Pod", "demo-broker-0")["metadata"]["uid"]
        fenced(world, told_so, 2)
        world.disk(0, "disk1").state = "dead"  # the kernel lets go of it
        fenced(world, lambda: None, 10)
        assert mode_of(world, 0, "disk1") != "Active", "it starts without"
        until(world, lambda: 0 in world.running("broker"))
