"""Takes samples of one broker when they are due, queues them, and sends them."""

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final

from spindle_agent.backoff import Backoff
from spindle_agent.broker.client import KafkaClient, LogDir
from spindle_agent.broker.connection import Access, BrokerError
from spindle_agent.probing import diskstats
from spindle_agent.samples.backlog import Backlog
from spindle_agent.samples.devices import between, kind
from spindle_agent.samples.gathered import Gathered, Row, SeenDisk
from spindle_agent.samples.growth import Growth
from spindle_shared.api_answers import ApiError

log = logging.getLogger(__name__)

Name = tuple[str, str]
Send = Callable[[Access, int, Sequence[tuple[int, bytes]]], int]

_AT_ONCE: Final = 20  # records per send
_LONGEST: Final = 60.0  # seconds between two attempts to send


class Sampler:
    """Samples one broker of this node. Runs in the event loop; records are packed and sent in threads.

    Attributes:
        backlog: records to send.
        sent: number of records sent since the start.
    """

    def __init__(
        self,
        name: Name,
        disks: Callable[[], Sequence[SeenDisk]],
        senders: Executor,
        send: Send,
        backlog: Backlog | None = None,
    ) -> None:
        """Create a sampler; it takes no samples until the KafkaBroker's spec requests them.

        Args:
            name: namespace and name of the KafkaBroker.
            disks: returns the current disks.
            senders: threads that send records.
            send: like the function `send` here, which blocks.
            backlog: queue of records.
        """
        self._name = name
        self._seen = disks
        self._senders = senders
        self._send = send
        self._growth = Growth()
        self._traffic: tuple[float, Mapping[str, diskstats.Traffic]] | None = None
        self._interval = 0.0
        self._due: float | None = None  # wall clock, so that all brokers of a cluster are sampled together
        self._taken_at = 0.0
        self._spec: Mapping[str, Any] = {}
        self._wake = asyncio.Event()
        self._problem = ""
        self._dropped = 0  # records dropped until the last send
        self.backlog = backlog if backlog is not None else Backlog()
        self.sent = 0

    def wants(self, spec: Mapping[str, Any]) -> None:
        """Take over the KafkaBroker's current spec."""
        self._spec = spec
        interval = float(spec.get("samplesEverySeconds") or 0)
        if interval == self._interval:
            return
        self._interval, self._due, self._traffic = interval, None, None
        self._growth = Growth()

    # Taking samples

    async def step(self, link: KafkaClient, dirs: Sequence[LogDir]) -> None:
        """Process the broker's log dirs, and take a sample if it is due.

        Raises:
            BrokerError: the broker did not report the leaders of its partitions.
        """
        if not self._interval:
            return
        now, wall = time.monotonic(), time.time()
        self._growth.look(dirs, now)
        if self._due is None:
            self._begin(now, wall)
        elif wall >= self._due or self._due - wall > 2 * self._interval:  # the clock was set back
            await self._take(link, dirs, now, wall)

    def _begin(self, now: float, wall: float) -> None:
        """Start measuring rates; the first sample is due at the end of the next full interval."""
        self._traffic = now, _traffic()
        self._taken_at = now
        self._due = (wall // self._interval + 1) * self._interval

    async def _take(self, link: KafkaClient, dirs: Sequence[LogDir], now: float, wall: float) -> None:
        topics = sorted({topic for log_dir in dirs for topic, _ in log_dir.replicas})
        cluster_id, leaders = await link.leaders(topics)
        broker = int(self._spec["id"])
        gathered = Gathered(
            cluster_id=cluster_id,
            broker=broker,
            rack=str(self._spec.get("rack") or ""),
            at_ms=int(1000 * wall),
            interval_s=max(0.001, now - self._taken_at),
            dirs=dirs,
            rates=self._growth.take(),
            led={replica: leader == broker for replica, leader in leaders.items()},
            disks=self._rows(dirs, now),
        )
        self._begin(now, wall)
        try:
            records = await asyncio.to_thread(_pack, gathered)
        except (
            ValueError,
            ImportError,
        ) as error:  # the broker's data is impossible, or pyarrow is not installed
            log.warning("%s/%s: taking a sample failed: %s", *self._name, error)
            return
        for record in records:
            self._keep(gathered.at_ms, record)
        self._wake.set()

    def _rows(self, dirs: Sequence[LogDir], now: float) -> list[Row]:
        told = {log_dir.path: log_dir for log_dir in dirs}
        before, after = self._traffic or (now, {}), _traffic()
        rows = []
        for disk in self._seen():
            seen = _sized(disk, told.get(disk.log_dir))
            moved = between(before[1], after, disk.device, now - before[0])
            rows.append(Row(seen, kind(disk.device, seen.capacity), moved))
        return rows

    # Sending samples

    async def run(self, access: Callable[[], Awaitable[Access]], doubt: Callable[[], None]) -> None:
        """Send until cancelled.

        Args:
            access: returns the broker's address and the credentials for it.
            doubt: called when the credentials may be the cause of a failure.
        """
        backoff = Backoff(longest=_LONGEST)
        while True:
            self._wake.clear()
            if not self.backlog.kept:
                await self._wake.wait()
            records = self.backlog.first(_AT_ONCE)
            try:
                where = await access()
                loop = asyncio.get_running_loop()
                done = await loop.run_in_executor(
                    self._senders, self._send, where, int(self._spec["id"]), records
                )
            except (BrokerError, ApiError, LookupError, OSError, ValueError) as error:
                doubt()
                self._note(str(error) or type(error).__name__)
                await asyncio.sleep(backoff.failed())
                continue
            backoff.worked()
            self.sent += done
            self.backlog.sent(records[:done])
            self._note("")

    def _note(self, problem: str) -> None:
        """Log a problem when it changes, because each attempt fails the same way while Kafka is unreachable."""
        if problem and not self._problem:
            log.warning(
                "%s/%s: sending samples failed; they are queued (now %d): %s",
                *self._name,
                self.backlog.kept,
                problem,
            )
        elif self._problem and not problem:
            lost = self.backlog.dropped - self._dropped
            log.info("%s/%s: samples are sent again; dropped in the meantime: %d", *self._name, lost)
        if not problem:
            self._dropped = self.backlog.dropped
        self._problem = problem

    def _keep(self, at_ms: int, record: bytes) -> None:
        before = self.backlog.dropped
        self.backlog.add(at_ms, record)
        if before == self._dropped < self.backlog.dropped:
            log.warning(
                "%s/%s: the queue of unsent samples is full (%d records, %d bytes); the oldest are dropped",
                *self._name,
                self.backlog.kept,
                self.backlog.bytes,
            )


def _sized(disk: SeenDisk, told: LogDir | None) -> SeenDisk:
    """The disk with the size that the broker reports, if the agent cannot inspect it."""
    if disk.capacity is not None or told is None or told.total_bytes is None or told.usable_bytes is None:
        return disk
    used = max(0, told.total_bytes - told.usable_bytes)
    return SeenDisk(disk.name, disk.log_dir, disk.state, disk.device, told.total_bytes, used)


def _traffic() -> dict[str, diskstats.Traffic]:
    try:
        return diskstats.read_traffic()
    except (OSError, ValueError):
        return {}


def send(access: Access, broker: int, records: Sequence[tuple[int, bytes]]) -> int:
    """As `sending.send`, whose producer of kafka-python is loaded with the first record."""
    done: int = importlib.import_module("spindle_agent.samples.sending").send(access, broker, records)
    return done


def _pack(gathered: Gathered) -> list[bytes]:
    """Loads pyarrow with the first sample, in a thread because it takes a part of a second."""
    made: list[bytes] = importlib.import_module("spindle_agent.samples.packing").pack(gathered)
    return made
