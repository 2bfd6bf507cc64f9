"""What Kafka's processes and controllers hold, and the questions that all parts of the simulated Kafka ask of it."""

import base64
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.sim.disks import RECORD, FileSystem, Key
from tests.sim.kafka.acknowledged import AcknowledgedRecords
from tests.sim.kernel import Kernel

Exited = Callable[[str, str], None]  # a process's uid, why
Linked = Callable[[str, str], bool]  # two nodes

LAG = 30.0  # replica.lag.time.max.ms
SESSION = 9.0  # broker.session.timeout.ms
LATE = 60.0  # file.delete.delay.ms
DIR_FAILURE = 30.0  # log.dir.failure.timeout.ms
SHUTDOWN = 300.0  # for which a broker that stops waits for the controllers
PREFERRED_EVERY = 300.0  # leader.imbalance.check.interval.seconds
CORDONS_FROM = 30  # metadata.version 4.3-IV0


class KafkaFault(Exception):  # noqa: N818 - an answer of Kafka's
    """A request that is answered by an error."""

    def __init__(self, code: int, name: str, message: str = "") -> None:
        super().__init__(f"{name}: {message}")
        self.code, self.name, self.message = code, name, message


class Timeout(Exception):  # noqa: N818 - by this name the callers know it
    """A request that gets no answer."""


class StartError(Exception):
    """Kafka does not start."""


@dataclass
class Part:
    """One partition as the controllers have it.

    Attributes:
        epoch: of its leader.
        last_known: who led it when it lost its last leader; None while it has one.
        dirs: broker → directory id that the controllers know, None while they know none.
        caught: broker → when it had last all that the leader had.
        rf: how many replicas it is meant to have.
        reassigned: whether somebody other than Spindle said so last.
        judged: the leader's epoch whose log the ledger has seen.
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
    judged: int = -1

    @property
    def key(self) -> Key:
        return self.topic, self.index

    @property
    def ident(self) -> tuple[str, int]:
        """The partition of this very topic, not of one of the same name that was there before."""
        return self.topic_id, self.index


@dataclass
class Broker:
    """A registration.

    Attributes:
        incarnation: of the process that it is of.
        dirs: directory ids that are online.
        leaving: whether its controlled shutdown was granted.
        heard: when it was last heard of.
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
    """One run of a broker.

    Attributes:
        uid: of its pod.
        dirs: log dir → the file system that it opened there.
        previous: broker epoch that all dirs tell of a clean stop; None if they do not.
        offline: log dir that failed → when.
        preferred: where replicas that are not here yet are to come.
        assignments: directory ids that the controllers have not heard of yet.
        loaded: whether it has found its logs.
        stuck: whether its request handlers wait for a disk that hangs.
        seen: version of the metadata that it has acted upon.
        down_at: when its stop will be over.
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
        """Log dirs that it takes for online."""
        return {path: fs for path, fs in self.dirs.items() if fs is not None and path not in self.offline}

    def where(self, key: Key, suffix: str = "") -> tuple[str, FileSystem] | None:
        """The log dir on which a replica, or a copy that is to become one, stands."""
        wanted = (key, suffix)
        for path, fs in self.dirs.items():  # asked more often than anything else
            if fs is not None and wanted in fs.logs and path not in self.offline:
                return path, fs
        return None

    def hangs(self) -> bool:
        """Whether one of its disks answers nothing."""
        for path, fs in self.dirs.items():
            if fs is not None and fs.state == "hung" and path not in self.offline:
                return True
        return False


@dataclass
class Controller:
    """One run of a controller."""

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
    """Whether a process has all dirs that these settings cordon, and so takes them (`KafkaConfig.validateCordonedLogDirs`)."""
    return cordons(settings) <= {*process.dirs, "*"}


class State:
    """All of one cluster's Kafka, and what can be asked without doing anything."""

    def __init__(self, kernel: Kernel, *, elr: bool, metadata_version: int) -> None:
        self.kernel, self.elr, self.level = kernel, elr, metadata_version
        self.ledger = AcknowledgedRecords()
        self.on_exit: Exited = lambda *_: None
        self.links: Linked = lambda *_: True
        self.skew: Callable[[str], float] = lambda _: (
            0.0
        )  # of a node's clock, which dates what is written there
        # Whoever judges is asked before Spindle has a partition's replicas changed, and before a broker is forgotten.
        self.on_reassign: Callable[[Part, list[int]], None] = lambda *_: None
        self.on_unregister: Callable[[int], None] = lambda *_: None
        self.on_copy: Callable[[Process, str, Key], None] = lambda *_: None  # between dirs
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
        self.version = 0  # of what brokers have to act upon
        self._serial = 0

    def next_serial(self) -> int:
        """A number that was not given before: epochs, incarnations, names of folders."""
        self._serial += 1
        return self._serial

    def new_uuid(self) -> str:
        """A topic's id."""
        return base64.urlsafe_b64encode(self.rng.randbytes(16)).decode().rstrip("=")

    # -- the quorum

    def _well(self) -> list[Controller]:
        return [c for c in self.controllers.values() if (c.id, c.directory) in self.voters and c.fs.writable]

    def majority(self) -> bool:
        """Whether the controllers can decide anything."""
        return self._are_majority(self._well())

    def _are_majority(self, well: list[Controller]) -> bool:
        return bool(self.voters) and 2 * len({c.id for c in well}) > len(self.voters)

    def leading(self) -> Controller | None:
        """The controller that decides."""
        well = self._well()
        return min(well, key=lambda c: (c.began, c.id)) if self._are_majority(well) else None

    def hears(self, process: Process) -> bool:
        """Whether a broker reaches the controller that decides."""
        leading = self.leading()
        return leading is not None and self.links(process.node, leading.node)

    # -- brokers

    def process_of(self, broker: int | None) -> Process | None:
        """The process that is registered as a broker, None if it has ended."""
        found = self.brokers.get(broker) if broker is not None else None
        if found is not None:
            for process in self.processes.values():
                if process.incarnation == found.incarnation:
                    return process
        return None

    def able(self, part: Part, broker: int) -> bool:
        """Whether the controllers would have a broker lead a partition, as `LeaderAcceptor` has it."""
        found = self.brokers.get(broker)
        if found is None or found.fenced or found.leaving or broker not in part.replicas:
            return False
        at = part.dirs.get(broker)
        return at is None or at in found.dirs

    def default_dir(self, broker: int) -> str | None:
        """The directory that the controllers write down for a new replica: that of a broker which has just one."""
        found = self.brokers.get(broker)
        return next(iter(found.dirs)) if found is not None and len(found.dirs) == 1 else None

    def own_settings(self, process: Process) -> dict[str, str]:
        """What was set on a broker, as its process has it: none of it where the cordon names a dir that it was started without."""
        held = self.configs.get(("broker", str(process.broker)), {})
        return held if known_dirs(process, held) else {}

    def cordoned(self, process: Process) -> set[str]:
        """Log dirs that take no replicas."""
        return cordons(self.own_settings(process)) if self.level >= CORDONS_FROM else set()

    # -- topics

    def min_isr(self, topic: str) -> int:
        """min.insync.replicas."""
        held = self.configs.get(("topic", topic), {}).get("min.insync.replicas")
        for process in self.processes.values():
            held = held or process.props.get("min.insync.replicas")
        return int(held or 1)

    def effective_min_isr(self, topic: str) -> int:
        """As the controllers count: no more than the first partition has replicas."""
        first = self.parts.get((topic, 0))
        return min(self.min_isr(topic), len(first.replicas)) if first is not None else self.min_isr(topic)

    def writable(self, part: Part) -> bool:
        """Whether enough are in sync for acks=all, as the leader counts."""
        return len(part.isr) >= min(self.min_isr(part.topic), len(part.replicas))
