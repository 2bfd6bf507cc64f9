"""A broker is stopped for a hang only if a second look shows the same one, and nothing that it leads from there has grown."""

import contextlib
from collections.abc import Callable

import pytest

from spindle.cluster.view import Broker, KafkaView, LogDir, Partition
from spindle.healing.hang import Evidence, confirms, ends, later, moved, parse, render
from spindle.reconcile.actions import Delete
from spindle.reconcile.times import stamp
from tests.model.failing import Failing
from tests.model.store import ConflictError
from tests.unit.test_healing_plan import cluster, reasons, state_of, until, whole


class TestTwoLooks:
    FIRST = Evidence(7, 10, "a")

    @pytest.mark.parametrize(
        ("now", "sure"),
        [
            (Evidence(7, 15, "a"), True),
            (Evidence(7, 15, None), True),  # a hung broker rarely answers
            (Evidence(7, 10, "a"), False),  # the same word as before
            (Evidence(8, 15, "a"), False),  # another write: the one before came back
            (Evidence(7, 15, "b"), False),  # something was appended
            (Evidence(None, 15, "a"), False),
        ],
    )
    def test_what_confirms_a_hang(self, now: Evidence, sure: bool) -> None:
        assert confirms(self.FIRST, now) is sure
        assert not confirms(None, now)

    def test_what_moved_begins_anew(self) -> None:
        grown = Evidence(7, 15, "b")
        assert moved(self.FIRST, grown)
        assert later(self.FIRST, grown) == grown
        assert later(self.FIRST, Evidence(7, 15, "a")) == self.FIRST

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
        assert "HangNotSureYet" in reasons(world)

    def test_a_disk_that_is_still_written_to_stops_nobody(self) -> None:
        world = cluster(3)
        since = stamp(world.now)

        def grow() -> None:
            world.kafkas.sizes["orders"] = world.kafkas.sizes.get("orders", 1000) + 1000
            observed = world.get("KafkaBroker", "demo-broker-0")["status"]["observed"]["disks"]
            entry = next(d for d in observed if d["name"] == "disk1")
            entry |= {"verdict": "Failed", "reason": "Hung", "stalled": True, "since": since}
            entry |= {"pendingWrite": 1, "pendingSeconds": int(world.now)}

        assert fenced(world, grow) == []
        assert "DiskStillServes" in reasons(world)

    def test_stalls_of_many_nodes_are_one_finding(self) -> None:
        world = cluster(3)
        for broker in (0, 1, 2):
            world.disk(broker, "disk1").state = "hung"
        assert fenced(world, lambda: None, 20) == []
        told = [w for w in world.cluster["status"]["waiting"] if w["reason"] == "ManyDisksStall"]
        assert [w["object"] for w in told] == ["KafkaCluster/demo"]
        assert all(f"{b}/disk1" in told[0]["message"] for b in (0, 1, 2))
        assert {state_of(world, b, "disk1") for b in (0, 1, 2)} == {"Active"}
        for broker in (0, 1, 2):
            world.disk(broker, "disk1").state = "well"
        until(world, lambda: "ManyDisksStall" not in reasons(world))
        whole(world)
