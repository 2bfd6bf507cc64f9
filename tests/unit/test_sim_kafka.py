"""Hazards of Kafka that the simulated one has to have, or lives could not show that Spindle keeps clear of them."""

from dataclasses import dataclass, field

import pytest

from tests.sim.disks import RECORD, FileSystem, Log
from tests.sim.kernel import Kernel
from tests.sim.smallkafka import KafkaSim

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
    world.stop(leader, clean=False)
    assert world.kafka.parts[KEY].leader not in (leader, None)


def test_a_broker_writes_to_the_disk_that_it_opened_whatever_stands_at_its_path_since() -> None:
    world = World(elr=True, brokers=1, min_isr=1)
    old, end = world.fs(0), world.log(0).end
    blank = world.dirs[0][world.at(0)] = disk(0, "blank")
    world.wait(120)
    assert old.logs[KEY, ""].end > end
    assert blank.logs == {}
