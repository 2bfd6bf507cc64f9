"""The agent's samples: what is measured, how it is packed, kept and sent."""

import asyncio
import contextlib
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest

from spindle.samples.codec import decode
from spindle_agent.broker.client import LogDir
from spindle_agent.broker.connection import Access, BrokerError
from spindle_agent.node import seen_disks
from spindle_agent.probing.diskstats import Traffic, traffic
from spindle_agent.samples import sampler as module
from spindle_agent.samples.backlog import Backlog
from spindle_agent.samples.devices import Rates, kind, rates
from spindle_agent.samples.gathered import Gathered, Row, SeenDisk
from spindle_agent.samples.growth import Growth
from spindle_agent.samples.packing import coarse, pack
from spindle_agent.samples.sampler import Sampler
from tests.unit.agent_fakes import until

NAME = ("test", "demo-broker-0")
ACCESS = Access("host", 9091, b"", b"", b"")
TB = 10**12


def dirs(**sizes: int) -> list[LogDir]:
    """One dir; topic → bytes of its partition 0."""
    return [LogDir("/d0", replicas={(topic, 0): size for topic, size in sizes.items()})]


def test_rates_are_what_was_appended_by_the_time_in_which_it_was_looked_at() -> None:
    growth = Growth()
    growth.look(dirs(a=100, b=50), 0)
    growth.look(dirs(a=150, b=20), 10)  # a segment of b was deleted
    growth.look(dirs(a=350, b=40, late=7), 20)

    assert growth.take() == {("/d0", ("a", 0)): 12.5, ("/d0", ("b", 0)): 1.0}
    growth.look(dirs(a=350, b=40, late=107), 30)
    assert growth.take() == {("/d0", ("a", 0)): 0, ("/d0", ("b", 0)): 0, ("/d0", ("late", 0)): 10}


def test_what_happened_while_nobody_looked_is_not_known() -> None:
    growth = Growth()
    growth.look(dirs(a=100), 0)
    growth.look(dirs(a=10**9), 3600)

    assert growth.take() == {}


def test_a_replica_that_comes_back_begins_anew() -> None:
    growth = Growth()
    growth.look(dirs(a=100), 0)
    growth.look(dirs(), 10)
    growth.look(dirs(a=900), 20)

    assert growth.take() == {}


DISKSTATS = """\
   8       0 sda 1000 5 80000 400 2000 7 160000 9000 0 4000 9400 0 0 0 0 10 20
   8       1 sda1 10 0 80 4 20 0 160 90 0 40 94
"""


def test_counters_of_a_device() -> None:
    found = traffic(DISKSTATS)

    assert found["8:0"] == Traffic(1000, 80000 * 512, 400, 2000, 160000 * 512, 9000)
    assert found["8:1"].written_bytes == 160 * 512


def test_rates_of_a_device_and_no_latency_where_there_was_no_request() -> None:
    before = Traffic(100, 1000, 50, 10, 500, 90)
    after = Traffic(100, 1000, 50, 40, 3500, 150)

    assert rates(before, after, 10) == Rates(0, 3, 0, 300, None, 2)
    assert rates(after, before, 10) is None  # another device, or the machine started anew


@pytest.mark.parametrize(
    ("capacity", "size"),
    [(3840 * 10**9, "4T"), (TB, "1T"), (960 * 10**9, "1T"), (500 * 10**9, "512G"), (4 * TB, "4T")],
)
def test_disks_of_about_one_size_are_of_one_kind(tmp_path: Path, capacity: int, size: str) -> None:
    for device, says in (("8:0", "1"), ("259:0", "0")):
        (tmp_path / device / "queue").mkdir(parents=True)
        (tmp_path / device / "queue" / "rotational").write_text(says + "\n")
    (tmp_path / "8:0" / "8:1").mkdir()
    (tmp_path / "8:1").symlink_to(tmp_path / "8:0" / "8:1")  # a partition, as in sysfs

    assert kind("8:0", capacity, str(tmp_path)) == f"rotational-{size}"
    assert kind("8:1", capacity, str(tmp_path)) == f"rotational-{size}"
    assert kind("259:0", capacity, str(tmp_path)) == f"ssd-{size}"
    assert kind("7:7", capacity, str(tmp_path)) == f"unknown-{size}"
    assert kind(None, capacity, str(tmp_path)) == f"unknown-{size}"
    assert kind("8:0", None, str(tmp_path)) is None


def gathered(topics: int = 2, partitions: int = 3) -> Gathered:
    replicas = {(f"t{t:03}", p): 1000 * t + p for t in range(topics) for p in range(partitions)}
    half = len(replicas) // 2
    both = [
        LogDir("/d1", replicas=dict(list(replicas.items())[half:])),
        LogDir("/d0", replicas=dict(list(replicas.items())[:half])),
    ]
    return Gathered(
        cluster_id="id",
        broker=4,
        rack="zone-a",
        at_ms=1_795_000_000_000,
        interval_s=300.0,
        dirs=both,
        rates={("/d0", ("t000", 0)): 1234.5678},
        led={("t000", 0): True, ("t001", 2): False},
        disks=[
            Row(SeenDisk("disk0", "/d0", "Active", "8:0", TB, TB // 2), "ssd-1T", Rates(1, 2, 3, 4, None, 6)),
            Row(SeenDisk("disk1", "/d1", ""), None, None),
        ],
    )


def test_what_was_gathered_is_what_is_read() -> None:
    (record,) = pack(gathered())
    found = decode(record)

    assert (found.cluster_id, found.broker, found.rack, found.at_ms) == ("id", 4, "zone-a", 1_795_000_000_000)
    rows = found.replicas.to_pylist()
    assert rows[0] == {
        "topic": "t000", "partition": 0, "dir": "/d0", "bytes": 0, "append_rate": coarse(1234.5678), "leader": True,
    }  # fmt: skip
    assert [(row["topic"], row["partition"]) for row in rows] == [
        (f"t00{t}", p) for t in range(2) for p in range(3)
    ]
    assert (rows[5]["leader"], rows[5]["append_rate"], rows[4]["leader"]) == (False, None, None)
    assert found.disks.to_pylist()[0] == {
        "dir": "/d0", "disk": "disk0", "kind": "ssd-1T", "capacity": TB, "used": TB // 2, "reads_per_s": 1.0,
        "writes_per_s": 2.0, "read_bytes_per_s": 3.0, "write_bytes_per_s": 4.0, "read_ms": None, "write_ms": 6.0,
        "state": "Active",
    }  # fmt: skip
    assert found.disks.to_pylist()[1]["state"] is None


@pytest.mark.parametrize("value", [0.0, 1e-300, 0.1, 1234.5678, 1e12])
def test_a_rate_keeps_three_digits(value: float) -> None:
    made = coarse(value)
    assert made is not None
    assert abs(made - value) <= value / 4096


def test_a_broker_with_very_many_replicas_is_told_in_parts_none_of_which_is_too_large() -> None:
    one = gathered(topics=60, partitions=50)
    limit = 6_000
    assert len(pack(one)) == 1
    assert len(pack(one)[0]) > limit

    records = pack(one, most=limit)

    assert len(records) > 1
    assert max(map(len, records)) <= limit
    parts = [decode(record) for record in records]
    assert [(part.part, part.parts) for part in parts] == [(i, len(parts)) for i in range(len(parts))]
    assert [part.disks.num_rows for part in parts] == [2, *[0] * (len(parts) - 1)]
    together = [(row["topic"], row["partition"]) for part in parts for row in part.replicas.to_pylist()]
    assert together == sorted(replica for each in one.dirs for replica in each.replicas)


def test_an_agent_without_samples_does_not_load_what_packs_them() -> None:
    code = "import sys, spindle_agent.service; sys.exit('pyarrow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WITHOUT_PANDAS = """
import sys
from importlib.abc import MetaPathFinder

class NoPandas(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())  # as in the image: where there is pandas, pyarrow loads it by itself
from spindle.samples.codec import decode
from spindle_agent.samples.packing import pack
from tests.unit.test_agent_samples import gathered
decode(pack(gathered())[0])
sys.exit("pyarrow._compute" in sys.modules)
"""


def test_packing_does_without_pyarrows_compute_functions() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_PANDAS], check=False).returncode == 0


def test_the_backlog_is_bounded_by_number_and_drops_the_oldest() -> None:
    backlog = Backlog(most_records=3)
    for at in range(5):
        backlog.add(at, bytes([at]))

    assert [at for at, _ in backlog.first(9)] == [2, 3, 4]
    assert (backlog.kept, backlog.bytes, backlog.dropped) == (3, 3, 2)


def test_the_backlog_is_bounded_by_bytes() -> None:
    backlog = Backlog(most_bytes=10)
    backlog.add(1, b"aaaa")
    backlog.add(2, b"bbbb")
    backlog.add(3, b"cccc")
    assert [at for at, _ in backlog.first(9)] == [2, 3]
    backlog.add(4, bytes(11))  # there is no room for it, whatever goes

    assert (backlog.kept, backlog.bytes, backlog.dropped) == (0, 0, 4)


def test_what_was_sent_leaves_the_backlog_though_some_of_it_was_dropped_meanwhile() -> None:
    backlog = Backlog(most_records=2)
    backlog.add(1, b"a")
    backlog.add(2, b"b")
    sending = backlog.first(2)
    backlog.add(3, b"c")
    backlog.sent(sending)

    assert [at for at, _ in backlog.first(9)] == [3]
    assert (backlog.bytes, backlog.dropped) == (1, 1)


def test_a_sample_tells_of_disks_that_cannot_be_looked_at_too() -> None:
    obj = {
        "spec": {"disks": [{"name": "disk0"}, {"name": "disk1"}]},
        "status": {"disks": [{"name": "disk1", "logDir": "/elsewhere", "state": "Cordoned"}]},
    }

    assert seen_disks(obj, {}) == [
        SeenDisk("disk0", "/var/lib/kafka/disks/disk0/log", ""),
        SeenDisk("disk1", "/elsewhere", "Cordoned"),
    ]


class Broker:
    """Answers what a sampler asks; and the topic, which may be away."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.away = False
        self.attempts = 0
        self.lock = threading.Lock()

    async def leaders(self, topics: Sequence[str]) -> tuple[str, dict[tuple[str, int], int]]:
        return "id", {(topic, 0): 0 if topic == "a" else 1 for topic in topics}

    def send(self, access: Access, broker: int, records: Sequence[tuple[int, bytes]]) -> int:
        assert (access, broker) == (ACCESS, 0)
        with self.lock:
            self.attempts += 1
            if self.away:
                raise BrokerError("no answer")
            self.records += [value for _, value in records]
            return len(records)


class Clock:
    """In place of the time module."""

    def __init__(self) -> None:
        self.now = 1_795_000_020.0  # a whole minute

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now - 1_000_000


@contextlib.asynccontextmanager
async def sampling(
    monkeypatch: pytest.MonkeyPatch, **backlog: int
) -> AsyncIterator[tuple[Sampler, Broker, Clock]]:
    clock, broker = Clock(), Broker()
    monkeypatch.setattr(module, "time", clock)
    with ThreadPoolExecutor(1) as senders:
        disks = [SeenDisk("disk0", "/d0", "Active")]
        made = Sampler(NAME, lambda: disks, senders, broker.send, Backlog(**backlog))
        made.wants({"id": 0, "rack": "r", "samplesEverySeconds": 60})

        async def access() -> Access:
            return ACCESS

        task = asyncio.create_task(made.run(access, lambda: None))
        try:
            yield made, broker, clock
        finally:
            task.cancel()


async def interval(sampler: Sampler, broker: Broker, clock: Clock, size: int = 0) -> None:
    for _ in range(6):
        clock.now += 10
        log_dir = LogDir("/d0", replicas={("a", 0): size, ("b", 0): 5}, total_bytes=100, usable_bytes=40)
        await sampler.step(cast("Any", broker), [log_dir])


async def test_a_sample_in_each_interval_with_rates_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sampling(monkeypatch) as (sampler, broker, clock):
        await interval(sampler, broker, clock)
        await until(lambda: len(broker.records) == 1)
        await interval(sampler, broker, clock, 6000)
        await until(lambda: len(broker.records) == 2)
        await until(lambda: sampler.sent == 2)

    first, second = map(decode, broker.records)
    assert (first.at_ms, second.at_ms) == (1_795_000_080_000, 1_795_000_140_000)
    assert (first.interval_s, second.interval_s) == (50, 60)
    (a, b) = second.replicas.to_pylist()
    assert (a["leader"], b["leader"]) == (True, False)
    assert (a["append_rate"], b["append_rate"]) == (100, 0)
    (disk,) = first.disks.to_pylist()
    assert (disk["capacity"], disk["used"], disk["kind"]) == (100, 60, "unknown-128B")


async def test_nothing_is_sampled_where_it_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sampling(monkeypatch) as (sampler, broker, clock):
        sampler.wants({"id": 0})
        for _ in range(3):
            await interval(sampler, broker, clock)
        assert (sampler.backlog.kept, broker.attempts) == (0, 0)


async def test_what_cannot_be_sent_is_kept_the_oldest_dropped_and_each_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "_LONGEST", 0.02)
    async with sampling(monkeypatch, most_records=3) as (sampler, broker, clock):
        broker.away = True
        for _ in range(7):
            await interval(sampler, broker, clock)
        await until(lambda: broker.attempts >= 3)
        assert (sampler.backlog.kept, sampler.backlog.dropped, sampler.sent) == (3, 4, 0)
        kept = [at for at, _ in sampler.backlog.first(9)]
        broker.away = False
        await until(lambda: sampler.sent == 3)

    assert [decode(record).at_ms for record in broker.records] == kept
    told = [record.message for record in caplog.records]
    assert sum("sending samples failed; they are queued" in line for line in told) == 1
    assert sum("the queue of unsent samples is full" in line for line in told) == 1
    assert sum("samples are sent again; dropped in the meantime: 4" in line for line in told) == 1


async def test_a_broker_that_says_what_cannot_be_gives_no_sample_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with sampling(monkeypatch) as (sampler, broker, clock):
        await interval(sampler, broker, clock, -1)
        await interval(sampler, broker, clock, -1)
        assert "replicas.bytes is -1" in caplog.text
        await interval(sampler, broker, clock, 5)
        await until(lambda: len(broker.records) == 1)
