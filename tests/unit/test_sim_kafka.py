"""Hazards of Kafka that the simulated one has to have, or lives could not show that Spindle keeps clear of them."""

from dataclasses import dataclass, field

import pytest

from tests.sim.disks import RECORD, FileSystem, Log
from tests.sim.kafka import KafkaSim, Timeout
from tests.sim.kafka.acknowledged import AcknowledgedRecords
from tests.sim.kernel import Kernel

KEY = ("t", 0)


def disk(broker: int, name: str) -> FileSystem:
    ids = {"cluster.id": "c", "node.id": str(broker), "directory.id": f"{broker}-{name}"}
    return FileSystem(f"{broker}-{name}", f"{broker}-{name}", 1000 * RECORD, meta=ids)


@dataclass
class World:
    """Brokers of two disks each, one partition that all of them have, and a producer that asks for all."""

    elr: bool
    brokers: int
    min_isr: int
    kernel: Kernel = field(default_factory=lambda: Kernel(1))
    runs: int = 0

    def __post_init__(self) -> None:
        self.kafka = KafkaSim(self.kernel, elr=self.elr, metadata_version=30)
        metadata = FileSystem("metadata", "metadata", 10**12, meta={"cluster.id": "c"})
        self.kafka.start_controller("c", 1000, "C", "c", fs=metadata, voters=[(1000, "C")])
        self.dirs: dict[int, dict[str, FileSystem | None]] = {
            broker: {f"/{index}": disk(broker, str(index)) for index in range(2)}
            for broker in range(self.brokers)
        }
        self.uids: dict[int, str] = {}
        for broker in self.dirs:
            self.start(broker)
        self.wait(30)
        self.kafka.request(
            None,
            "create_topics",
            topic="t",
            assignments=[list(self.dirs)],
            configs={"min.insync.replicas": str(self.min_isr)},
        )
        self.kafka.load_also("t")
        self.kafka.loading = True
        self.wait(120)
        assert self.log(0).end > 0

    def start(self, broker: int) -> None:
        self.runs += 1
        self.uids[broker] = f"{broker}.{self.runs}"
        self.kafka.start_broker(self.uids[broker], broker, None, dict(self.dirs[broker]), {}, f"n{broker}")

    def stop(self, broker: int, *, clean: bool = True) -> None:
        self.kafka.stop(self.uids[broker], clean=clean)
        self.wait(30)

    def wait(self, seconds: float) -> None:
        self.kernel.run_until(self.kernel.now + seconds)

    def at(self, broker: int) -> str:
        """The log dir of a broker's replica."""
        return next(p for p, fs in self.dirs[broker].items() if fs is not None and (KEY, "") in fs.logs)

    def fs(self, broker: int) -> FileSystem:
        found = self.dirs[broker][self.at(broker)]
        assert found is not None
        return found

    def log(self, broker: int) -> Log:
        return self.fs(broker).logs[KEY, ""]


@pytest.mark.parametrize("elr", [True, False])
def test_a_blank_disk_under_the_last_member_of_the_isr_loses_everything(elr: bool) -> None:
    world = World(elr, brokers=2, min_isr=1)
    world.stop(1, clean=False)
    world.kafka.stop_load()
    world.fs(0).state = "dead"
    world.start(1)
    world.wait(40)
    assert world.kafka.parts[KEY].leader is None, "the survivor may not lead"
    assert world.log(1).end > 0
    assert not world.kafka.ledger.lost()
    path = world.at(0)
    world.stop(0)
    world.dirs[0][path] = disk(0, "blank")
    world.start(0)
    world.wait(40)
    assert world.kafka.parts[KEY].leader == 0
    assert (world.log(0).end, world.log(1).end) == (0, 0)
    assert world.kafka.ledger.lost()


@pytest.mark.parametrize("elr", [True, False])
def test_brokers_that_start_without_a_dir_that_holds_replicas_lose_all_three(elr: bool) -> None:
    world = World(elr, brokers=3, min_isr=2)
    for broker in world.dirs:
        path = world.at(broker)
        world.stop(broker)
        del world.dirs[broker][path]
    world.kafka.stop_load()
    for broker in world.dirs:
        world.start(broker)
    world.wait(60)
    assert [world.log(broker).end for broker in world.dirs] == [0, 0, 0]
    assert world.kafka.ledger.lost()


def test_a_broker_whose_disk_hangs_goes_on_to_lead_and_nobody_can_write() -> None:
    world = World(elr=True, brokers=3, min_isr=2)
    leader = world.kafka.parts[KEY].leader
    assert leader is not None
    world.fs(leader).state = "hung"
    end = world.log(leader).end
    world.wait(200)
    assert world.kafka.parts[KEY].leader == leader
    assert world.log(leader).end == end
    with pytest.raises(Timeout):
        world.kafka.request(leader, "describe_cluster")
    assert world.kafka.request(next(b for b in world.dirs if b != leader), "describe_cluster")
    world.stop(leader, clean=False)
    assert world.kafka.parts[KEY].leader not in (leader, None)


def test_a_broker_writes_to_the_disk_that_it_opened_whatever_stands_at_its_path_since() -> None:
    world = World(elr=True, brokers=1, min_isr=1)
    old, end = world.fs(0), world.log(0).end
    blank = world.dirs[0][world.at(0)] = disk(0, "blank")
    world.wait(120)
    assert old.logs[KEY, ""].end > end
    assert blank.logs == {}


def test_a_replica_that_leaves_by_a_shrink_stays_eligible() -> None:
    world = World(elr=True, brokers=3, min_isr=2)
    world.stop(2)
    world.stop(1)
    part = world.kafka.parts[KEY]
    assert (part.isr, part.elr) == ([0], [1])
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: [0]})
    assert (part.replicas, part.isr, part.elr) == ([0], [0], [1])


@pytest.mark.parametrize("how", ["placeholder", "blank"])
def test_a_start_is_clean_only_if_every_dir_tells_of_the_same_stop(how: str) -> None:
    world = World(elr=True, brokers=2, min_isr=2)
    world.stop(1)
    world.stop(0)
    part = world.kafka.parts[KEY]
    assert (part.isr, part.elr, part.last_known) == ([], [0, 1], 0)
    other = next(path for path in world.dirs[1] if path != world.at(1))
    world.dirs[1][other] = None if how == "placeholder" else disk(1, "blank")
    world.start(1)
    world.wait(40)
    assert (part.isr, part.elr, part.leader) == ([], [0], None)


def test_who_led_last_stays_on_record_until_there_is_a_leader() -> None:
    world = World(elr=True, brokers=2, min_isr=2)
    world.stop(1)
    world.stop(0)
    part = world.kafka.parts[KEY]
    for broker in (0, 1):
        world.fs(broker).clean = None
    world.start(0)
    world.kernel.call_later(0.5, lambda: setattr(world.fs(0), "state", "dead"))
    world.wait(25)
    world.start(1)
    world.wait(40)
    assert (part.isr, part.elr, part.last_known, part.leader) == ([], [], 0, None)


def test_without_a_quorum_a_broker_that_lost_a_dir_stops_after_half_a_minute() -> None:
    world = World(elr=True, brokers=3, min_isr=2)
    ended: list[str] = []
    world.kafka.on_exit = lambda uid, _: ended.append(uid)
    leader = world.kafka.parts[KEY].leader
    assert leader is not None
    world.kafka.stop("c", clean=False)
    world.fs(leader).state = "dead"
    world.wait(20)
    process = world.kafka.processes[world.uids[leader]]
    assert (world.kafka.parts[KEY].leader, process.stopping) == (leader, False)
    world.wait(20)
    assert process.stopping
    assert not ended, "it waits for the controllers to let it go"
    world.wait(320)
    assert ended == [world.uids[leader]]


def test_the_controllers_hear_of_a_dir_once_there_is_a_quorum_again() -> None:
    world = World(elr=True, brokers=3, min_isr=2)
    leader = world.kafka.parts[KEY].leader
    assert leader is not None
    world.kafka.stop("c", clean=False)
    world.fs(leader).state = "dead"
    world.wait(8)
    metadata = FileSystem("metadata", "metadata", 10**12, meta={"cluster.id": "c"})
    world.kafka.start_controller("c", 1000, "C", "c", fs=metadata)
    world.wait(5)
    assert world.kafka.parts[KEY].leader not in (leader, None)


def test_what_is_nobodys_any_more_is_set_aside_at_the_next_start() -> None:
    world = World(elr=True, brokers=3, min_isr=2)
    world.stop(2)
    fs, end = world.fs(2), world.log(2).end
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: [0, 1]})
    world.start(2)
    world.wait(120)
    ((key, suffix),) = fs.logs
    assert key == KEY
    assert suffix.startswith("stray")
    assert fs.logs[key, suffix].end == end


def test_a_crashed_broker_comes_back_only_once_its_session_is_over() -> None:
    world = World(elr=False, brokers=2, min_isr=1)
    world.kafka.stop(world.uids[1], clean=False)
    before = world.kafka.brokers[1].incarnation
    world.start(1)
    world.wait(6)
    assert world.kafka.brokers[1].incarnation == before
    world.wait(30)
    assert world.kafka.brokers[1].incarnation != before


def test_a_reassignment_is_undone_by_a_cancel_and_not_by_naming_the_replicas_from_before() -> None:
    world = World(elr=True, brokers=3, min_isr=1)
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: [0, 1]})
    world.stop(2)
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: [0, 2]})
    part = world.kafka.parts[KEY]
    assert (part.adding, part.removing) == ([2], [1])
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: [0, 1]})
    world.wait(60)
    assert (part.adding, part.removing) == ([2], [2])
    world.kafka.request(0, "alter_partition_reassignments", assignments={KEY: None})
    assert (part.replicas, part.adding, part.removing) == ([0, 1], [], [])


@pytest.mark.parametrize("elr", [True, False])
def test_a_replica_on_its_way_joins_only_with_all_records_also_when_its_leader_was_away(elr: bool) -> None:
    world = World(elr, brokers=2, min_isr=1)
    part = world.kafka.parts[KEY]
    world.kafka.reassign(part, [0], by_spindle=False)
    world.wait(120)
    world.kafka.stop_load()
    world.kafka.copy_rate = RECORD
    end = world.log(0).end

    world.kafka.reassign(part, [1], by_spindle=False)
    world.stop(0)
    assert world.kafka.parts[KEY].leader is None
    world.start(0)
    world.wait(end + 60)

    assert (part.replicas, part.isr, part.leader) == ([1], [1], 1)
    assert world.log(1).end == end > 2
    assert not world.kafka.ledger.lost()


def test_a_reassignment_whose_new_replica_is_elected_uncleanly_is_not_over_until_it_is_asked_for_again() -> (
    None
):
    """As `tests/kafka/test_unclean_elections.py` sees it on real processes."""
    world = World(elr=True, brokers=2, min_isr=1)
    world.kafka.reassign(world.kafka.parts[KEY], [1], by_spindle=True)
    world.wait(5)
    part = world.kafka.parts[KEY]
    assert (part.replicas, part.isr) == ([1], [1])
    world.stop(1, clean=False)
    world.wait(30)
    assert (part.leader, part.isr, part.elr) == (None, [], [1])
    world.kafka.reassign(part, [0], by_spindle=True)
    world.wait(5)
    assert world.log(0).end == 0, "made, though nobody leads"
    assert world.kafka.cancel(part)[0] == 39
    world.kafka.reassign(part, [1, 0], by_spindle=True)
    assert (part.replicas, part.adding, part.removing) == ([1, 0], [0], [1])
    assert world.kafka.elect(part, "unclean") == (0, "")
    world.wait(60)
    assert (part.leader, part.isr, part.adding, part.removing) == (0, [0], [0], [1])
    world.kafka.reassign(part, [0], by_spindle=True)
    assert (part.replicas, part.isr, part.adding, part.removing) == ([0], [0], [], [])


def test_a_blank_disk_of_one_that_is_only_eligible_does_no_harm_while_another_is_in_sync() -> None:
    """Its first start is never a clean one, so the broker is eligible nowhere before it could lead."""
    world = World(elr=True, brokers=2, min_isr=2)
    part = world.kafka.parts[KEY]
    world.stop(0)
    world.wait(60)
    assert (part.isr, part.elr) == ([1], [0])
    path = world.at(0)
    world.dirs[0][path] = disk(0, "new")
    world.stop(1, clean=False)
    world.wait(30)
    assert (part.leader, part.isr, set(part.elr)) == (None, [], {0, 1})
    world.start(0)
    world.wait(60)
    assert (part.leader, part.elr) == (None, [1])
    world.start(1)
    world.wait(60)
    assert part.leader == 1
    assert set(part.isr) == {0, 1}
    assert world.kafka.ledger.losses == []


def test_the_ledger_notices_that_the_last_copy_goes() -> None:
    ledger, one, other = AcknowledgedRecords(), disk(0, "0"), disk(1, "1")
    for fs in (one, other):
        fs.logs[KEY, ""] = Log("id", [(1, 7)])
        ledger.knows(fs)
    ledger.acknowledge(("id", 0), [7])
    for fs in (one, other):
        log = fs.logs[KEY, ""]
        ledger.destroys(fs, KEY, log, log.entries, "deleted")
        assert bool(ledger.lost()) == (fs is other)
        del fs.logs[KEY, ""]


def test_the_ledger_remembers_what_only_a_sick_disk_has() -> None:
    ledger, sick = AcknowledgedRecords(), disk(0, "0")
    sick.logs[KEY, ""] = Log("id", [(1, 7)])
    sick.state = "dead"
    ledger.knows(sick)
    ledger.acknowledge(("id", 0), [7])
    ledger.serves(KEY, ("id", 0), Log("id"), "led by broker 1 now")
    assert not ledger.lost()
    sick.state = "well"
    assert [loss.records for loss in ledger.lost()] == [1]


@pytest.mark.parametrize("suffix", ["stray 3", "delete 3", "renamed 8f03c1-stray", ""])
def test_the_ledger_counts_no_replica_that_left_once_the_loss_of_the_last_one_is_accepted(
    suffix: str,
) -> None:
    ledger, dead, other = AcknowledgedRecords(), disk(0, "0"), disk(1, "1")
    dead.logs[KEY, ""] = other.logs[KEY, suffix] = Log("id", [(1, 7)])
    dead.state = "dead"
    for fs in (dead, other):
        ledger.knows(fs)
    ledger.acknowledge(("id", 0), [7])
    ledger.accept(0, str((dead.meta or {})["directory.id"]), [KEY])
    ledger.serves(KEY, ("id", 0), Log("id"), "led by broker 1 now")
    assert bool(ledger.lost()) == (suffix in ("renamed 8f03c1-stray", ""))
