"""State of Kafka's processes and controllers, and queries on it for all parts of the simulated Kafka."""

import base64
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.sim.disks import RECORD, FileSystem, Key, Log
from tests.sim.kafka.acknowledged import AcknowledgedRecords
from tests.sim.kernel import Kernel

Exited = Callable[[str, str], None]  # a process's uid, why
Linked = Callable[[str, str], bool]  # two nodes

LAG = 30.0  # replica.lag.time.max.ms
SESSION = 9.0  # broker.session.timeout.ms
LATE = 60.0  # file.delete.delay.ms
DIR_FAILURE = 30.0  # log.dir.failure.timeout.ms
SHUTDOWN = 300.0  # seconds for which a stopping broker waits for the controllers
PREFERRED_EVERY = 300.0  # leader.imbalance.check.interval.seconds
CORDONS_FROM = 30  # metadata.version 4.3-IV0


class KafkaFault(Exception):  # noqa: N818 - an answer of Kafka's
    """A request that gets an error."""

    def __init__(self, code: int, name: str, message: str = "") -> None:
        super().__init__(f"{name}: {message}")
        self.code, self.name, self.message = code, name, message


class Timeout(Exception):  # noqa: N818 - by this name the callers know it
    """A request that gets no answer."""


class StartError(Exception):
    """Kafka does not start."""


@dataclass
class Part:
    """One partition in the controllers' metadata.

    Attributes:
        epoch: leader epoch.
        last_known: the last leader while there is none; None while there is one.
        dirs: broker → directory id that the controllers know, None if they know none.
        caught: broker → last time at which it had all records of the leader.
        rf: intended replication factor.
        reassigned: whether another client than Spindle reassigned it last.
        changes: whether its reassignment in progress changes the replication factor, as a KafkaTopic asks.
        judged: leader epoch whose log was judged last.
        replaced: leader and its epoch, when a copy from another of its dirs replaced its log.
    """

    topic: str
    index: int
    topic_id: str
    replicas: list[int]
    isr: list[int]
    leader: int | None
    epoch: int = 0
    elr: list[int] = field(default_factory=list)
    last_known: int | None = None
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)
    dirs: dict[int, str | None] = field(default_factory=dict)
    caught: dict[int, float] = field(default_factory=dict)
    rf: int = 0
    reassigned: bool = False
    changes: bool = False
    judged: int = -1
    replaced: tuple[int, int] | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.index

    @property
    def ident(self) -> tuple[str, int]:
        """The partition of this topic, not of a former topic with the same name."""
        return self.topic_id, self.index

    def has_epoch(self, log: Log) -> bool:
        """Whether the leader's log has its epoch: a copy that replaced it has only those of its records (KAFKA-20961)."""
        if self.leader is None or self.replaced != (self.leader, self.epoch):
            return True
        return any(epoch == self.epoch for epoch, _ in log.entries)

    def settle_factor(self) -> None:
        """A replica that a KafkaTopic asks for counts when it is complete."""
        if self.changes and not (self.adding or self.removing):
            self.rf, self.changes = len(self.replicas), False


@dataclass
class Broker:
    """A registration.

    Attributes:
        incarnation: of the registered process.
        dirs: directory ids that are online.
        leaving: whether its controlled shutdown was granted.
        heard: time of its last heartbeat.
    """

    id: int
    rack: str | None
    epoch: int
    incarnation: int
    dirs: set[str]
    fenced: bool = True
    leaving: bool = False
    heard: float = 0.0


@dataclass
class Process:
    """One process of a broker.

    Attributes:
        uid: of its pod.
        dirs: log dir → the file system that it opened there.
        previous: broker epoch of a clean stop that all dirs agree on; None if they do not.
        offline: log dir that failed → when.
        preferred: chosen dirs of replicas that do not exist yet.
        assignments: directory ids that were not reported to the controllers yet.
        loaded: whether it has loaded its logs.
        stuck: whether its request handlers wait for a hung disk.
        seen: version of the metadata that it has applied.
        down_at: end of its stop.
    """

    uid: str
    incarnation: int
    broker: int
    rack: str | None
    dirs: dict[str, FileSystem | None]
    props: dict[str, str]
    node: str
    up_at: float
    previous: int | None = None
    offline: dict[str, float] = field(default_factory=dict)
    preferred: dict[Key, str] = field(default_factory=dict)
    assignments: dict[Key, str] = field(default_factory=dict)
    registered: bool = False
    loaded: bool = False
    stopping: bool = False
    stopping_since: float = 0.0
    stuck: bool = False
    seen: int = -1
    down_at: float | None = None

    def live(self) -> dict[str, FileSystem]:
        """Log dirs that are online for it."""
        return {path: fs for path, fs in self.dirs.items() if fs is not None and path not in self.offline}

    def where(self, key: Key, suffix: str = "") -> tuple[str, FileSystem] | None:
        """The log dir of a replica, or of a future replica."""
        wanted = (key, suffix)
        for path, fs in self.dirs.items():  # called more often than anything else
            if fs is not None and wanted in fs.logs and path not in self.offline:
                return path, fs
        return None

    def hangs(self) -> bool:
        """Whether one of its disks hangs."""
        for path, fs in self.dirs.items():
            if fs is not None and fs.state == "hung" and path not in self.offline:
                return True
        return False


@dataclass
class Controller:
    """One process of a controller."""

    uid: str
    id: int
    directory: str
    node: str
    fs: FileSystem
    began: float


def cordons(settings: Mapping[str, str | None]) -> set[str]:
    """Log dirs that a broker's settings cordon."""
    return {each for each in (settings.get("cordoned.log.dirs") or "").split(",") if each}


def known_dirs(process: Process, settings: Mapping[str, str | None]) -> bool:
    """Whether a process has all dirs that these settings cordon, so that it applies them (`KafkaConfig.validateCordonedLogDirs`)."""
    return cordons(settings) <= {*process.dirs, "*"}


_IN_PASS = 60.0  # seconds after a change for which Spindle may act on the former replication factor


class State:
    """The whole state of one cluster's Kafka, with queries that change nothing."""

    def __init__(self, kernel: Kernel, *, elr: bool, metadata_version: int) -> None:
        self.kernel, self.elr, self.level = kernel, elr, metadata_version
        self.ledger = AcknowledgedRecords()
        self.on_exit: Exited = lambda *_: None
        self.links: Linked = lambda *_: True
        self.skew: Callable[[str], float] = lambda _: (
            0.0
        )  # offset of a node's clock, which dates what is written there
        # Called before Spindle changes a partition's replicas, and before a broker is unregistered.
        self.on_reassign: Callable[[Part, list[int]], None] = lambda *_: None
        self.on_unregister: Callable[[int], None] = lambda *_: None
        self.on_copy: Callable[[Process, str, Key], None] = lambda *_: None  # between dirs
        # Topic → the replication factor that its KafkaTopic asks for, the one before, and when it was changed.
        self.factors: dict[str, tuple[int, int, float]] = {}
        self.rng = random.Random(kernel.seed ^ 0xCAFE)
        self.processes: dict[str, Process] = {}
        self.controllers: dict[str, Controller] = {}
        self.voters: list[tuple[int, str]] = []
        self.brokers: dict[int, Broker] = {}
        self.parts: dict[Key, Part] = {}
        self.configs: dict[tuple[str, str], dict[str, str]] = {}
        self.quota: dict[str, float] = {}
        self.cluster_id = ""
        self.loaded: dict[str, bool] = {}  # topic → acks=all
        self.loading = False
        self.copy_rate = 20 * RECORD
        self.version = 0  # version of the metadata that brokers apply
        self._serial = 0

    def asked_factors(self, topic: str) -> range:
        """Replication factors that Spindle may be bringing a topic to; empty if no KafkaTopic asks for one."""
        if topic not in self.factors:
            return range(0)
        now, before, since = self.factors[topic]
        other = before if self.kernel.now - since < _IN_PASS else now
        return range(min(now, other), max(now, other) + 1)

    def next_serial(self) -> int:
        """A new unique number: for epochs, incarnations, directory names."""
        self._serial += 1
        return self._serial

    def new_uuid(self) -> str:
        """A topic's id."""
        return base64.urlsafe_b64encode(self.rng.randbytes(16)).decode().rstrip("=")

    # -- the quorum

    def _well(self) -> list[Controller]:
        return [c for c in self.controllers.values() if (c.id, c.directory) in self.voters and c.fs.writable]

    def majority(self) -> bool:
        """Whether the controllers have a quorum."""
        return self._are_majority(self._well())

    def _are_majority(self, well: list[Controller]) -> bool:
        return bool(self.voters) and 2 * len({c.id for c in well}) > len(self.voters)

    def leading(self) -> Controller | None:
        """The active controller."""
        well = self._well()
        return min(well, key=lambda c: (c.began, c.id)) if self._are_majority(well) else None

    def hears(self, process: Process) -> bool:
        """Whether a broker can connect to the active controller."""
        leading = self.leading()
        return leading is not None and self.links(process.node, leading.node)

    # -- brokers

    def process_of(self, broker: int | None) -> Process | None:
        """The registered process of a broker, None if it has ended."""
        found = self.brokers.get(broker) if broker is not None else None
        if found is not None:
            for process in self.processes.values():
                if process.incarnation == found.incarnation:
                    return process
        return None

    def able(self, part: Part, broker: int) -> bool:
        """Whether the controllers accept a broker as leader of a partition, as in `LeaderAcceptor`."""
        found = self.brokers.get(broker)
        if found is None or found.fenced or found.leaving or broker not in part.replicas:
            return False
        at = part.dirs.get(broker)
        return at is None or at in found.dirs

    def default_dir(self, broker: int) -> str | None:
        """The directory that the controllers assign to a new replica: that of a broker with a single one."""
        found = self.brokers.get(broker)
        return next(iter(found.dirs)) if found is not None and len(found.dirs) == 1 else None

    def own_settings(self, process: Process) -> dict[str, str]:
        """A broker's dynamic settings as applied by its process: none if the cordon names a dir that it was started without."""
        held = self.configs.get(("broker", str(process.broker)), {})
        return held if known_dirs(process, held) else {}

    def cordoned(self, process: Process) -> set[str]:
        """Log dirs that accept no replicas."""
        return cordons(self.own_settings(process)) if self.level >= CORDONS_FROM else set()

    # -- topics

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas."""
        held = self.configs.get(("topic", topic), {}).get("min.insync.replicas")
        for process in self.processes.values():
            held = held or process.props.get("min.insync.replicas")
        return int(held or 1)

    def effective_min_isr(self, topic: str) -> int:
        """min.insync.replicas for the controllers: at most the number of replicas of the first partition."""
        first = self.parts.get((topic, 0))
        return min(self.min_isr(topic), len(first.replicas)) if first is not None else self.min_isr(topic)

    def writable(self, part: Part) -> bool:
        """Whether enough replicas are in sync for acks=all, for the leader."""
        return len(part.isr) >= min(self.min_isr(part.topic), len(part.replicas))
