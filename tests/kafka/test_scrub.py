"""The scrubber on real brokers' segments: what is damaged is found and made anew, nothing is invented while Kafka works on them."""

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from spindle.evacuation.repair import repair
from spindle.evacuation.restore_replicas import restore_replicas
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.moves.journal import render
from spindle.scrub.catalog import file_name, inactive
from spindle.scrub.confirmation import Confirmations, SegmentPlace
from spindle.scrub.schedule import Known
from spindle_agent.probing.fork_server import ForkServer
from spindle_agent.scrub import worker
from spindle_agent.scrub.messages import Scrub
from spindle_agent.scrub.reader import Reader
from spindle_agent.scrub.scrubs import Scrubs
from spindle_agent.scrub.survey import names_in, open_folder, survey
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.proposals import until
from tests.kafka.test_moves import FAST, Operator, tell
from tests.model.moving import execute

KEY = ("test", "demo-broker-0", "disk0")
SCANS = 10_000
PAGE = 4096
LIVELY = {
    "log.retention.check.interval.ms": "500",
    "log.segment.delete.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.threads": "1",
}


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=1, config=LIVELY)
    made.up()
    return made


def volume(cluster: Cluster) -> Path:
    return Path(cluster.brokers[0].log_dir("disk0")).parent


# Damage


def flip(file: Path, at: int, bit: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        (byte,) = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte ^ 1 << bit]))


def zero(file: Path, page: int) -> None:
    with file.open("r+b") as opened:
        opened.seek(page * PAGE)
        opened.write(bytes(PAGE))


def batch_starts(data: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return starts


def do_damage(folder: Path, bases: list[int], rng: random.Random) -> dict[int, str]:
    """Twenty segments, each in another way; returns what was done to which."""
    kinds = [
        *["payload"] * 5, "base offset", "leader epoch", "magic", "length", *["index"] * 3, *["timeindex"] * 2,
        *["truncated"] * 3, *["zeroed"] * 3,
    ]  # fmt: skip
    assert len(kinds) == 20
    done = {}
    for base, kind in zip(rng.sample(bases, len(kinds)), kinds, strict=True):
        log = folder / file_name(base, "log")
        start = rng.choice(batch_starts(log.read_bytes())[1:-1])
        size = log.stat().st_size
        field_at = {"base offset": 7, "leader epoch": 15, "magic": 16, "length": 10}
        if kind in field_at:
            flip(log, start + field_at[kind], rng.randrange(3))
        elif kind == "payload":
            flip(log, start + 61 + rng.randrange(900), rng.randrange(8))
        elif kind in ("index", "timeindex"):
            file = folder / file_name(base, kind)
            entry = 8 if kind == "index" else 12
            flip(file, rng.randrange(1, file.stat().st_size // entry - 1) * entry + 6, rng.randrange(8))
        elif kind == "truncated":
            os.truncate(log, size - rng.randrange(100, 900))
        else:
            zero(log, rng.randrange(size // PAGE))
        done[base] = kind
    return done


def settle(folder: Path) -> None:
    """To the disk, and as if it had been written an hour ago."""
    os.sync()
    for file in folder.iterdir():
        os.utime(file, (time.time() - 3600,) * 2)


@contextlib.asynccontextmanager
async def scrubbing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scrubs]:
    monkeypatch.setattr(worker, "CONFIRM_AFTER", 2.0)
    monkeypatch.setattr(worker, "_SURVEY_SOON", 1.0)
    monkeypatch.setattr(worker, "_TELL_EVERY", 0.5)
    monkeypatch.setattr(worker, "_TOUCHED_EVERY", 0.5)
    fork_server = ForkServer.start()
    made = Scrubs(fork_server, lambda _: None)
    directory_id = cluster.directory_id(0, "disk0")
    made.sees(KEY, directory_id, None)
    order = Scrub(
        path=str(volume(cluster)),
        cluster_id=cluster.cluster_id,
        node_id=0,
        disk="disk0",
        directory_id=directory_id,
        rate=200_000_000,
        every_days=30,
    )
    made.set({KEY: order})
    try:
        yield made
    finally:
        made.close()
        fork_server.channel.close()


@pytest.mark.slow
async def test_twenty_damaged_segments_are_found_and_no_other(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(8)
    cluster.make_topic("still", [[0]], **{"segment.bytes": "1048576"})
    for _ in range(15):  # in parts: on a loaded machine the last of so many small batches would wait too long
        values = (rng.randbytes(1000) for _ in range(2_000))
        cluster.produce("still", 0, values, batch_size=2000, linger_ms=0)
    folder = volume(cluster) / "log" / "still-0"
    bases = [segment.base for segment in inactive(each.name for each in folder.iterdir())]
    assert len(bases) >= 24
    settle(folder)
    async with scrubbing(cluster, monkeypatch) as scrubs:
        # First the whole of it in good health.
        await until("all checked", lambda: scrubs.told(KEY).get("scrub", {}).get("percent") == 100, 300)
        assert scrubs.told(KEY)["scrub"]["corrupt"] == 0
        ((_, report, _, _),) = scrubs.reports()
        assert report.direct
    (volume(cluster) / ".spindle-scrub").unlink(missing_ok=True)
    done = do_damage(folder, bases, rng)
    settle(folder)
    async with scrubbing(cluster, monkeypatch) as scrubs:
        with contextlib.suppress(TimeoutError):
            await until("all found", lambda: len(scrubs.told(KEY).get("corrupt", ())) >= len(done), 120)
        found = {entry["segment"]: entry["kind"] for entry in scrubs.told(KEY).get("corrupt", ())}
        print({base: (kind, found.get(base)) for base, kind in sorted(done.items())})
        assert found.keys() == done.keys()
        assert scrubs.told(KEY)["scrub"]["corrupt"] == len(done)


# Health


@dataclass
class Writer:
    """Writes to three topics for as long as it is let, so that there is always something to roll, compact and delete."""

    cluster: Cluster
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        rng = random.Random(1)
        producer = KafkaProducer(
            bootstrap_servers=self.cluster.bootstrap(), **self.cluster.ssl(), linger_ms=5
        )
        number = 0
        while not self.ended.wait(0.01):
            with contextlib.suppress(KafkaError):
                for topic in ("compacted", "deleted", "both"):
                    for _ in range(6):
                        number += 1
                        value = rng.randbytes(rng.randrange(1, 900)) if number % 11 else None
                        if topic == "deleted":
                            value = value or b"-"
                        producer.send(
                            topic, value, key=str(rng.randrange(300)).encode(), partition=number % 2
                        )
        producer.close(timeout=5)


@contextlib.contextmanager
def writing(cluster: Cluster) -> Iterator[None]:
    writer = Writer(cluster)
    thread = threading.Thread(target=writer.run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        writer.ended.set()
        thread.join(30)


class Round:
    """What a disk's process does, without its patience: segments are read as soon as they are inactive."""

    def __init__(self) -> None:
        self.reader = Reader(1 << 20, lambda _: None)
        self.doubts = Confirmations(confirm_after=3.0)
        self.scans = self.changed = self.doubted = 0

    def scan(self, log_dir: int, known: Known) -> None:
        folder = open_folder(log_dir, known.folder)
        if folder is None:
            return
        try:
            segments = inactive(names_in(folder))
            segment = next((each for each in segments if each.base == known.segment.base), None)
            if segment is None:
                self.doubts.gone(SegmentPlace(known.folder, known.segment.base))
                return
            number = segments.index(segment)
            found = self.reader.scan(folder, segment, segments[number - 1].base if number else None)
        finally:
            os.close(folder)
        self.scans += 1
        if found is None:
            self.changed += 1
            return
        self.doubted += bool(found.finds)
        if found.finds:
            print(known.folder, known.segment, found.finds)
        self.doubts.saw(
            SegmentPlace(known.folder, known.segment.base), found.identity, found.finds, time.time()
        )


@pytest.mark.slow
async def test_nothing_is_invented_while_kafka_rolls_compacts_and_deletes(cluster: Cluster) -> None:
    quick = {"segment.ms": "400", "segment.bytes": "1048576"}
    compact = {
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100",
        "max.compaction.lag.ms": "1000",
    }
    cluster.make_topic("compacted", [[0], [0]], **quick, **compact, **{"cleanup.policy": "compact"})
    cluster.make_topic("deleted", [[0], [0]], **quick, **{"retention.ms": "15000"})
    both = {"cleanup.policy": "compact,delete", "retention.ms": "20000"}
    cluster.make_topic("both", [[0], [0]], **quick, **compact, **both)
    rounds, seen = Round(), set()
    log_dir = os.open(volume(cluster) / "log", os.O_RDONLY)
    try:
        with writing(cluster):
            while rounds.scans < SCANS:
                for known in list(survey(log_dir, lambda _folder, error: pytest.fail(str(error)))):
                    if known.folder.rpartition("-")[0] in ("compacted", "deleted", "both"):
                        seen.add((known.folder, known.segment.base))
                        await asyncio.to_thread(rounds.scan, log_dir, known)
                await asyncio.sleep(0.05)
    finally:
        os.close(log_dir)
    print(
        f"{rounds.scans} scans of {len(seen)} segments, {rounds.changed} changed meanwhile, {rounds.doubted} doubted at first"
    )
    assert rounds.doubts.troubles == ()
    assert len(seen) > 100


# Repair


def scan_all(log_dir: Path, topic: str) -> dict[int, int]:
    """Segment of a topic's first partition → how much is wrong with it."""
    reader, found = Reader(1 << 20, lambda _: None), {}
    folder = os.open(log_dir / f"{topic}-0", os.O_RDONLY)
    try:
        for segment in inactive(names_in(folder)):
            scanned = reader.scan(folder, segment, None)
            assert scanned is not None
            found[segment.base] = len(scanned.finds)
    finally:
        os.close(folder)
    return found


class Repairer(Operator):
    """The executor with what the step of scrubbing, and that of growing back, want of it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.fewest = 2

    def turn(self, broker: int, key: Key, *, corrupt: bool) -> None:
        link = self.link()
        try:
            view = link.look(ask_rights=False)[0]
            replica_index = ReplicaIndex(view)
            self.fewest = min(self.fewest, len(replica_index.partitions[key].replicas))
            moving = {move.key for move in self.journal.moves}
            shrinks = tuple(
                entry
                for entry in self.journal.dropped
                if entry.key not in moving and replica_index.holds(entry.broker, entry.key)
            )
            if corrupt and not self.journal:
                others = set(replica_index.partitions[key].replicas) - {broker}
                made = repair(replica_index, broker, key, {key: {broker}}, {key: others})
                assert made.refusal is None
                shrinks = made.shrunk
            wanted = restore_replicas(view, self.journal.dropped).moves
            outcome = execute(view, self.journal, wanted, FAST, shrinks=shrinks)
            self.record = render(outcome.journal)
            for intent in outcome.actions:
                tell(link, intent)
        finally:
            link.close()


def test_a_corrupt_leader_of_two_is_dropped_and_made_anew_from_the_other(
    make_cluster: Callable[..., Cluster],
) -> None:
    two = make_cluster(brokers=2, disks=1)
    two.up()
    rng = random.Random(3)
    values = [rng.randbytes(1000) for _ in range(6000)]
    two.make_topic("two", [[0, 1]], **{"segment.bytes": "1048576", "min.insync.replicas": "1"})
    two.produce("two", 0, values)
    wait_for("both in sync", lambda: two.isr("two")[0] == [0, 1])
    assert two.partitions("two")[0].leader == 0
    log_dirs = [Path(node.log_dir("disk0")) for node in two.brokers]
    clean = scan_all(log_dirs[0], "two")
    assert set(clean.values()) == {0}
    flip(log_dirs[0] / "two-0" / file_name(max(clean), "log"), 300_000, 5)
    os.sync()
    assert scan_all(log_dirs[0], "two") == {**clean, max(clean): 1}
    operator = Repairer(two)
    operator.turn(0, ("two", 0), corrupt=True)

    def back() -> bool:
        operator.turn(0, ("two", 0), corrupt=False)
        return not operator.journal

    wait_for("the way back", back, 120, 0.3)
    wait_for("both in sync", lambda: two.isr("two")[0] == [0, 1])
    assert operator.fewest == 1
    assert set(scan_all(log_dirs[0], "two").values()) == {0}
    consumer = KafkaConsumer(bootstrap_servers=two.bootstrap(), auto_offset_reset="earliest", **two.ssl())
    try:
        consumer.assign([TopicPartition("two", 0)])
        consumer.seek_to_beginning()
        read: list[bytes] = []

        def all_read() -> bool:
            read.extend(record.value for records in consumer.poll(500).values() for record in records)
            return len(read) >= len(values)

        wait_for("all read back", all_read, 60, 0)
        assert read == values
    finally:
        consumer.close()
