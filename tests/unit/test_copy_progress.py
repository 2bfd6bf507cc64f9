"""Copies that stand still are told from those that take their time, and the journal is not written for every byte."""

from spindle.moves.copy_progress import NOTED_EVERY, STALLED_AFTER, CopyProgress, is_stalled, track_copies
from spindle.moves.journal import Journal, parse, render
from tests.unit.test_healing_plan import cluster, reasons, until

A, B = ("t", 0, 3), ("t", 1, 4)


def test_a_new_copy_is_noted_and_one_that_ended_is_forgotten() -> None:
    first = track_copies((), [(*A, 0)], 1000.0)
    assert first == (CopyProgress(*A, 0, 1000.0),)
    assert track_copies(first, [(*B, 7)], 1001.0) == (CopyProgress(*B, 7, 1001.0),)


def test_what_gets_on_is_noted_once_a_minute_and_together() -> None:
    noted = (CopyProgress(*A, 0, 1000.0), CopyProgress(*B, 0, 1050.0))
    soon = 1000.0 + NOTED_EVERY - 1
    assert track_copies(noted, [(*A, 5), (*B, 5)], soon) == noted
    assert track_copies(noted, [(*A, 5), (*B, 5)], soon + 1) == (
        CopyProgress(*A, 5, soon + 1),
        CopyProgress(*B, 5, soon + 1),
    )


def test_what_stands_still_keeps_its_time() -> None:
    noted = (CopyProgress(*A, 5, 1000.0),)
    later = 1000.0 + STALLED_AFTER
    assert track_copies(noted, [(*A, 5)], later) == noted
    assert is_stalled(noted[0], 5, later)
    assert not is_stalled(noted[0], 5, later - 1)
    assert not is_stalled(noted[0], 6, later)


def test_where_nobody_knows_the_time_nothing_is_noted() -> None:
    assert track_copies((), [(*A, 0)], 0.0) == ()


def test_the_journal_carries_it() -> None:
    made = Journal(pace=(CopyProgress(*A, 5, 1000.5), CopyProgress(*B, 0, 2.0)))
    assert parse(render(made)) == made


def test_a_copy_that_does_not_get_on_is_named_with_both_ends() -> None:
    """The target takes the order, and nothing of the replica ever turns up there."""
    world = cluster(6, partitions=1)

    def stuck(key: tuple[str, int], state: object, broker: int) -> None:
        """No broker makes a log any more."""

    world.kafkas._make = stuck  # type: ignore[method-assign]
    world.disk(0, "disk1").state = "dead"
    until(world, lambda: "ReplicasMoving" in reasons(world))
    began = world.now
    until(world, lambda: "ReplicationStalled" in reasons(world), 100)
    wait = next(w for w in world.cluster["status"]["waiting"] if w["reason"] == "ReplicationStalled")

    assert world.now - began >= STALLED_AFTER
    assert "orders-0 from broker 1 to broker 3" in wait["message"]
    assert "`spindle broker stop demo-broker-3`" in wait["unblockedBy"]
    assert "`spindle broker start demo-broker-3`" in wait["unblockedBy"]
    assert "delete" not in wait["unblockedBy"], "that would ask nobody whether it may go down"
