"""Kafka in small: controllers, registrations, leaders, ISR and ELR, logs on file systems, reassignments, copies between dirs.

Once a second each broker does what it would do in that second. Records are numbers; what was acknowledged to producers that asked for all is in
the ledger, with every file system that ever held a copy.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from spindle.cluster.ids import uuid_from_entropy
from tests.sim.disks import RECORD, FileSystem, Key, Log
from tests.sim.kernel import Kernel

LAG = 30.0  # replica.lag.time.max.ms
SESSION = 9.0  # broker.session.timeout.ms
LATE = 60.0  # file.delete.delay.ms
STORAGE_ERROR, NO_DIR, NOT_THERE, BAD_TOPIC = 56, 57, 9, 17
FETCHED = 4  # records that a follower takes in a second where nothing slows it down


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
    """One partition as the controllers have it."""

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
    target: list[int] = field(default_factory=list)
    dirs: dict[int, str | None] = field(default_factory=dict)
    caught: dict[int, float] = field(default_factory=dict)
    rf: int = 0
    reassigned: bool = False
    no_leader_since: float | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.index


@dataclass
class Broker:
    """A registration."""

    id: int
    rack: str | None
    epoch: int
    uid: str
    dirs: set[str]
    fenced: bool = True
    heard: float = 0.0


@dataclass
class Process:
    """One run of a broker."""

    uid: str
    broker: int
    rack: str | None
    dirs: dict[str, FileSystem | None]
    props: dict[str, str]
    node: str
    began: float
    up_at: float
    offline: set[str] = field(default_factory=set)
    preferred: dict[Key, str] = field(default_factory=dict)
    registered: bool = False
    stopping: bool = False

    def live(self) -> dict[str, FileSystem]:
        return {path: fs for path, fs in self.dirs.items() if fs is not None and path not in self.offline}

    def where(self, key: Key, suffix: str = "") -> tuple[str, FileSystem] | None:
        return next(((path, fs) for path, fs in self.live().items() if (key, suffix) in fs.logs), None)


@dataclass
class Controller:
    """One run of a controller."""

    uid: str
    id: int
    directory: str
    node: str
    fs: FileSystem
    began: float


@dataclass(frozen=True)
class Loss:
    """Acknowledged records that an election threw away although a disk has them."""

    topic: str
    partition: int
    records: int
    leader: int
    disk: str

    def __str__(self) -> str:
        return f"{self.records} of {self.topic[:20]}-{self.partition}, led by broker {self.leader} now; they are on disk {self.disk}"


class Ledger:
    """What was promised."""

    def __init__(self) -> None:
        self.acked: dict[tuple[str, int], set[int]] = {}  # topic id and partition → records
        self.gone: dict[tuple[str, int], set[int]] = {}  # deleted on purpose
        self.accepted: list[tuple[int, str, frozenset[Key]]] = []
        self.losses: list[Loss] = []
        self.disks: list[FileSystem] = []

    def lost(self) -> list[Loss]:
        return self.losses

    def accept(self, broker: int, directory_id: str, partitions: Iterable[Key]) -> None:
        self.accepted.append((broker, directory_id, frozenset(partitions)))

    def knows(self, fs: FileSystem) -> None:
        if not any(each is fs for each in self.disks):
            self.disks.append(fs)

    def check(self, part: Part, log: Log | None, leader: int) -> None:
        """A leader was elected: is everything there that was acknowledged?"""
        ident = (part.topic_id, part.index)
        have = {record for _, record in log.entries} if log is not None else set()
        missing = self.acked.get(ident, set()) - have - self.gone.get(ident, set())
        if not missing:
            return
        for fs in self.disks:
            if fs.state in ("dead", "hung"):
                continue
            for (key, _), other in fs.logs.items():
                if key == part.key and other.topic_id == part.topic_id:
                    kept = missing & {record for _, record in other.entries}
                    if kept and not any(
                        part.key in keys and (fs.meta or {}).get("directory.id") == d
                        for _, d, keys in self.accepted
                    ):
                        self.losses.append(Loss(part.topic, part.index, len(kept), leader, fs.disk))
                        self.acked[ident] -= missing
                        return
        self.acked[ident] -= missing


class KafkaSim:
    """All of one cluster's Kafka."""

    def __init__(self, kernel: Kernel, *, elr: bool, metadata_version: int) -> None:
        self.kernel, self.elr, self.level = kernel, elr, metadata_version
        self.ledger = Ledger()
        self.on_exit: Callable[[str, str], None] = lambda *_: None
        self.links: Callable[[str, str], bool] = lambda *_: True
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
        self._epochs = 0
        self._records = 0
        self._topics = 0
        self._pending: list[tuple[Part, int, int]] = []
        kernel.call_later(1.0, self._tick)

    # -- processes

    def start_controller(
        self,
        uid: str,
        node_id: int,
        directory_id: str,
        node: str,
        *,
        fs: FileSystem,
        voters: Any = None,
        props: Any = None,
    ) -> None:
        if fs.state in ("dead", "readonly"):
            raise StartError("its metadata log cannot be written")
        self.controllers[uid] = Controller(uid, node_id, directory_id, node, fs, self.kernel.now)
        if voters and not self.voters:
            self.voters = list(voters)
        if fs.meta:
            self.cluster_id = self.cluster_id or fs.meta["cluster.id"]

    def start_broker(
        self,
        uid: str,
        broker: int,
        rack: str | None,
        dirs: dict[str, FileSystem | None],
        props: dict[str, str],
        node: str,
    ) -> None:
        live = {
            path: fs for path, fs in dirs.items() if fs is not None and fs.state not in ("dead", "readonly")
        }
        if props.get("num.network.threads", "3").isdigit() is False:
            raise StartError("ConfigException: Invalid value many for configuration num.network.threads")
        for path, fs in live.items():
            self.ledger.knows(fs)
            if fs.state == "hung":
                continue
            if fs.meta is None:
                raise StartError(
                    f"No `meta.properties` found in {path} (have you run `kafka-storage.sh` to format the directory?)"
                )
            if fs.meta["node.id"] != str(broker):
                raise StartError(f"Stored node id {fs.meta['node.id']} doesn't match {broker} in {path}")
        held: dict[Key, str] = {}
        for path, fs in live.items():
            for key, suffix in fs.logs:
                if suffix:
                    continue
                if key in held:
                    raise StartError(f"Duplicate log directories for {key} in both {held[key]} and {path}")
                held[key] = path
        if not live:
            raise StartError("Shutdown broker because none of the specified log dirs are available")
        now = self.kernel.now
        dirty = any(fs.clean is None and fs.logs for fs in live.values())
        took = self.rng.uniform(2.0, 5.0) + (self.rng.uniform(2.0, 15.0) if dirty else 0.0)
        process = Process(uid, broker, rack, dict(dirs), dict(props), node, now, now + took)
        process.offline = {path for path in dirs if path not in live}
        self.processes[uid] = process

    def stop(self, uid: str, *, clean: bool) -> None:
        self.controllers.pop(uid, None) if not clean else None
        process = self.processes.get(uid)
        if process is None:
            if clean and uid in self.controllers:
                self.kernel.call_later(1.0, lambda: self._ended(uid))
            return
        if not clean:
            self._drop(process)
            return
        if process.stopping:
            return
        process.stopping = True
        for part in list(self.parts.values()):
            if process.broker in part.isr and len(part.isr) > 1 and self._majority():
                self._leave(part, process.broker)
        hung = any(fs.state == "hung" for fs in process.live().values())
        if not hung:
            self.kernel.call_later(self.rng.uniform(1.0, 6.0), lambda: self._ended(uid))

    def _ended(self, uid: str) -> None:
        if self.controllers.pop(uid, None) is not None:
            self.on_exit(uid, "stopped")
            return
        process = self.processes.get(uid)
        if process is None:
            return
        for fs in process.live().values():
            if fs.writable:
                fs.clean = self.brokers[process.broker].epoch if process.broker in self.brokers else 0
        self._drop(process)
        self.on_exit(uid, "stopped")

    def _drop(self, process: Process) -> None:
        self.processes.pop(process.uid, None)
        found = self.brokers.get(process.broker)
        if found is not None and found.uid == process.uid and process.stopping:
            self._fence(found)

    def alive(self, uid: str) -> bool:
        process = self.processes.get(uid)
        return uid in self.controllers or (process is not None and self.kernel.now >= process.up_at - 1.0)

    def ready(self, uid: str) -> bool:
        if uid in self.controllers:
            return self._majority()
        process = self.processes.get(uid)
        if process is None or not process.registered or process.stopping:
            return False
        return not self.brokers[process.broker].fenced and not any(
            process.broker in p.replicas and process.broker not in p.isr and process.where(p.key) and p.leader is not None
            and process.broker not in p.adding
            for p in self.parts.values()
        )  # fmt: skip

    def disk_changed(self, fs: FileSystem) -> None:
        self.ledger.knows(fs)

    # -- the quorum

    def _majority(self) -> bool:
        well = [c for c in self.controllers.values() if (c.id, c.directory) in self.voters and c.fs.writable]
        return bool(self.voters) and 2 * len({c.id for c in well}) > len(self.voters)

    def _leading(self) -> Controller | None:
        if not self._majority():
            return None
        well = [c for c in self.controllers.values() if (c.id, c.directory) in self.voters and c.fs.writable]
        return min(well, key=lambda c: (c.began, c.id))

    def _process(self, broker: int) -> Process | None:
        found = self.brokers.get(broker)
        return self.processes.get(found.uid) if found is not None else None

    def _hears(self, process: Process) -> bool:
        leading = self._leading()
        return leading is not None and self.links(process.node, leading.node)

    # -- each second

    def _tick(self) -> None:
        self.kernel.call_later(1.0, self._tick)
        for process in list(self.processes.values()):
            self._broker(process)
        if self._majority():
            self._sessions()
        for part in list(self.parts.values()):
            self._partition(part)
        if self.loading:
            self._produce()
        self._acknowledge()

    def _broker(self, process: Process) -> None:
        now = self.kernel.now
        if now < process.up_at:
            return
        for path, fs in list(process.live().items()):
            touched = (
                fs.state == "dead"
                or (fs.state == "readonly" and self.rng.random() < 0.3)
                or (fs.free <= 0 and any(not s for _, s in fs.logs))
            )
            if touched:
                self._dir_fails(process, path)
                if process.uid not in self.processes:
                    return
        if not self._hears(process):
            return
        if not process.registered:
            self._register(process)
        found = self.brokers.get(process.broker)
        if found is not None and found.uid == process.uid:
            found.heard = now
            if found.fenced and not process.stopping:
                found.fenced = False
                self._elect_all()

    def _dir_fails(self, process: Process, path: str) -> None:
        fs = process.dirs[path]
        process.offline.add(path)
        if not process.live():
            self._drop(process)
            self.on_exit(process.uid, "all log dirs have failed")
            return
        found = self.brokers.get(process.broker)
        if fs is None or found is None or fs.meta is None:
            return
        found.dirs.discard(fs.meta["directory.id"])
        for part in list(self.parts.values()):
            if part.dirs.get(process.broker) == fs.meta["directory.id"] and self._majority():
                self._leave(part, process.broker)

    def _register(self, process: Process) -> None:
        before = self.brokers.get(process.broker)
        other = self.processes.get(before.uid) if before is not None else None
        if (
            before is not None
            and other is not None
            and other is not process
            and self.kernel.now - before.heard < SESSION
        ):
            return
        self._epochs += 1
        clean = before is None or all(fs.clean == before.epoch for fs in process.live().values() if fs.logs)
        ids = {fs.meta["directory.id"] for fs in process.live().values() if fs.meta}
        self.brokers[process.broker] = Broker(
            process.broker, process.rack, self._epochs, process.uid, ids, True, self.kernel.now
        )
        process.registered = True
        for fs in process.live().values():
            fs.clean = None
        for part in list(self.parts.values()):
            if process.broker not in part.replicas:
                continue
            if (self.elr and not clean) or part.dirs.get(process.broker) not in ids | {None}:
                self._leave(part, process.broker, unclean=self.elr and not clean)
        self._load(process)

    def _load(self, process: Process) -> None:
        """Find each replica's log, or make one, as `createLogInAssignedDirectoryId` has it."""
        for fs in process.live().values():
            for (key, suffix), log in list(fs.logs.items()):
                part = self.parts.get(key)
                if suffix == "" and (
                    part is None or part.topic_id != log.topic_id or process.broker not in part.replicas
                ):
                    del fs.logs[key, suffix]
                    if part is None or part.topic_id != log.topic_id:
                        fs.logs[key, "stray gone"] = log
                elif suffix == "" and part is not None and fs.meta:
                    part.dirs[process.broker] = fs.meta["directory.id"]
        for part in self.parts.values():
            if process.broker in part.replicas:
                self._ensure(process, part)

    def _ensure(self, process: Process, part: Part) -> tuple[str, FileSystem] | None:
        """The log of a replica; made if need be and allowed."""
        held = process.where(part.key)
        if held is not None:
            log = held[1].logs[part.key, ""]
            if log.topic_id == part.topic_id:
                return held
            del held[1].logs[part.key, ""]
        assigned = part.dirs.get(process.broker)
        live = process.live()
        by_id = {fs.meta["directory.id"]: path for path, fs in live.items() if fs.meta}
        path = by_id.get(assigned or "")
        if path is None:
            if assigned is not None and process.offline:
                return None  # it may stand on the dir that is offline
            path = process.preferred.get(part.key)
            if path not in live:
                cordoned = self._cordoned(process.broker)
                open_to = [p for p in live if p not in cordoned] or list(live)
                path = (
                    min(open_to, key=lambda p: (sum(not s for _, s in live[p].logs), p)) if open_to else None
                )
        if path is None or not live[path].writable:
            return None
        fs = live[path]
        fs.logs[part.key, ""] = Log(part.topic_id, written_at=self.kernel.now)
        assert fs.meta is not None
        part.dirs[process.broker] = fs.meta["directory.id"]
        return path, fs

    def _cordoned(self, broker: int) -> set[str]:
        if self.level < 30:
            return set()
        text = self.configs.get(("broker", str(broker)), {}).get("cordoned.log.dirs", "")
        return {each for each in text.split(",") if each}

    def _sessions(self) -> None:
        for found in self.brokers.values():
            process = self.processes.get(found.uid)
            silent = self.kernel.now - found.heard > SESSION
            if not found.fenced and (silent or (process is None and silent)):
                self._fence(found)

    def _fence(self, found: Broker) -> None:
        found.fenced = True
        if not self._majority():
            return
        for part in list(self.parts.values()):
            if found.id in part.isr or part.leader == found.id:
                self._leave(part, found.id)

    # -- leaders

    def _min_isr(self, topic: str) -> int:
        held = self.configs.get(("topic", topic), {}).get("min.insync.replicas")
        for process in self.processes.values():
            held = held or process.props.get("min.insync.replicas")
        return int(held or 1)

    def _able(self, part: Part, broker: int) -> bool:
        found, process = self.brokers.get(broker), self._process(broker)
        if found is None or found.fenced or process is None or process.stopping:
            return False
        assigned = part.dirs.get(broker)
        return assigned is None or assigned in found.dirs

    def _leave(self, part: Part, broker: int, *, unclean: bool = False) -> None:
        """A broker leaves a partition's ISR, as far as the rules about the last ones allow."""
        least = min(self._min_isr(part.topic), len(part.replicas))
        if broker in part.isr:
            left = [b for b in part.isr if b != broker]
            if self.elr:
                part.isr = left
                if len(left) < least and not unclean and broker not in part.elr:
                    part.elr.append(broker)
                if not left:
                    part.last_known = broker
            elif left:
                part.isr = left
        if unclean and broker in part.elr:
            part.elr.remove(broker)
            part.last_known = broker if not part.isr and not part.elr else part.last_known
        if part.leader == broker or part.leader is None:
            self._elect(part)

    def _elect_all(self) -> None:
        for part in self.parts.values():
            if part.leader is None or not self._able(part, part.leader):
                self._elect(part)

    def _elect(self, part: Part, *, unclean: bool = False) -> bool:
        """Find a leader; whether there is one."""
        if not self._majority():
            return False
        choice = next((b for b in part.replicas if b in part.isr and self._able(part, b)), None)
        isr = part.isr
        if choice is None and self.elr:
            choice = next((b for b in part.replicas if b in part.elr and self._able(part, b)), None)
            if (
                choice is None
                and not part.isr
                and not part.elr
                and part.last_known is not None
                and self._able(part, part.last_known)
            ):
                choice = part.last_known
            isr = [choice] if choice is not None else isr
        if choice is None and unclean:
            choice = next(
                (
                    b
                    for b in part.replicas
                    if self._able(part, b) and (p := self._process(b)) and p.where(part.key)
                ),
                None,
            )
            isr = [choice] if choice is not None else isr
        if choice == part.leader and choice is not None:
            return True
        part.leader = choice
        if choice is None:
            return False
        part.epoch += 1
        part.isr = list(isr)
        part.elr = [b for b in part.elr if b not in part.isr]
        process = self._process(choice)
        held = self._ensure(process, part) if process is not None else None
        self.ledger.check(part, held[1].logs[part.key, ""] if held else None, choice)
        part.caught = dict.fromkeys(part.replicas, self.kernel.now)
        return True

    # -- one partition's second

    def _partition(self, part: Part) -> None:
        if part.leader is None or not self._able(part, part.leader):
            if (
                self._majority() and part.leader is not None and (self.brokers[part.leader].fenced)
            ) or part.leader is None:
                self._elect(part)
            if part.leader is None:
                return
        leader = self._process(part.leader)
        if leader is None:
            return
        held = self._ensure(leader, part)
        if held is None:
            return
        source = held[1].logs[part.key, ""]
        for broker in part.replicas:
            if broker != part.leader:
                self._follow(part, leader, held[1], source, broker)
        for broker in [b for b in part.replicas if b != part.leader]:
            self._judge_follower(part, broker)
        if part.adding or part.removing:
            self._progress(part)
        for broker in part.replicas:
            process = self._process(broker)
            if process is not None:
                self._future(process, part)

    def _slow(self, fs: FileSystem) -> bool:
        return fs.state == "hung" or (fs.state == "slow" and self.rng.random() < 0.85)

    def _follow(self, part: Part, leader: Process, from_fs: FileSystem, source: Log, broker: int) -> None:
        process = self._process(broker)
        if (
            process is None
            or not process.registered
            or process.stopping
            or self.kernel.now < process.up_at
            or not self.links(process.node, leader.node)
        ):
            return
        held = self._ensure(process, part)
        if held is None or self._slow(held[1]) or not held[1].writable:
            return
        log = held[1].logs[part.key, ""]
        same = 0
        for mine, theirs in zip(log.entries, source.entries, strict=False):
            if mine != theirs:
                break
            same += 1
        if log.start != source.start and not log.entries:
            log.start = source.start
        del log.entries[same:]
        behind = source.entries[same:]
        room = max(0, held[1].free // RECORD)
        rate = FETCHED if broker in part.isr else max(1, self._rate(part, broker) // RECORD)
        taken = behind[: min(rate, room)]
        if taken:
            log.entries += taken
            log.written_at = held[1].used_at = self.kernel.now
        if len(log.entries) >= len(source.entries):
            part.caught[broker] = self.kernel.now

    def _rate(self, part: Part, broker: int) -> int:
        rate = self.copy_rate
        text = self.configs.get(("broker", str(broker)), {}).get("follower.replication.throttled.rate")
        listed = self.configs.get(("topic", part.topic), {}).get(
            "follower.replication.throttled.replicas", ""
        )
        if text and f"{part.index}:{broker}" in listed.split(","):
            rate = min(rate, int(text))
        return rate

    def _judge_follower(self, part: Part, broker: int) -> None:
        behind = self.kernel.now - part.caught.get(broker, self.kernel.now - LAG * 2)
        process = self._process(broker)
        leader = self._process(part.leader) if part.leader is not None else None
        hears = leader is not None and self._hears(leader)
        if broker in part.isr:
            if behind > LAG and hears:
                self._leave(part, broker)
        elif behind < 1.5 and hears and process is not None and self._able(part, broker):
            part.isr.append(broker)
            if len(part.isr) >= min(self._min_isr(part.topic), len(part.replicas)):
                part.elr = []
            elif broker in part.elr:
                part.elr.remove(broker)

    def _progress(self, part: Part) -> None:
        """A reassignment completes once all of its target are in sync."""
        if not self._majority() or not part.target or not set(part.target) <= set(part.isr):
            return
        gone = [b for b in part.replicas if b not in part.target]
        part.replicas = list(part.target)
        part.isr = [b for b in part.isr if b in part.target]
        part.elr = [b for b in part.elr if b in part.target]
        part.adding, part.removing, part.target = [], [], []
        for broker in gone:
            self._delete_replica(part, broker)
        if part.leader not in part.replicas:
            part.leader = None
            self._elect(part)

    def _delete_replica(self, part: Part, broker: int) -> None:
        part.dirs.pop(broker, None)
        process = self._process(broker)
        if process is None:
            return
        for suffix in ("", "future"):
            held = process.where(part.key, suffix)
            if held is not None:
                fs = held[1]
                self._epochs += 1
                gone = f"delete {self._epochs}"
                fs.logs[part.key, gone] = fs.logs.pop((part.key, suffix))
                self._delete_late(fs, part.key, gone)

    def _delete_late(self, fs: FileSystem, key: Key, suffix: str) -> None:
        def gone() -> None:
            fs.logs.pop((key, suffix), None)

        self.kernel.call_later(LATE, gone)

    def _future(self, process: Process, part: Part) -> None:
        """A copy between two dirs of one broker."""
        made = process.where(part.key, "future")
        held = process.where(part.key)
        if made is None or held is None:
            return
        fs = made[1]
        log, source = fs.logs[part.key, "future"], held[1].logs[part.key, ""]
        if self._slow(fs) or self._slow(held[1]):
            return
        text = self.configs.get(("broker", str(process.broker)), {}).get(
            "replica.alter.log.dirs.io.max.bytes.per.second"
        )
        rate = max(1, min(self.copy_rate, int(text) if text else self.copy_rate) // RECORD)
        log.entries = log.entries[: len(source.entries)]
        log.entries += source.entries[len(log.entries) : len(log.entries) + rate]
        log.start = source.start
        if len(log.entries) >= len(source.entries):
            fs.logs[part.key, ""] = fs.logs.pop((part.key, "future"))
            self._epochs += 1
            gone, old = f"delete {self._epochs}", held[1]
            old.logs[part.key, gone] = old.logs.pop((part.key, ""))
            self._delete_late(old, part.key, gone)
            assert fs.meta is not None
            part.dirs[process.broker] = fs.meta["directory.id"]

    # -- load

    def start_load(self, topics: Iterable[Any]) -> None:
        for topic in topics:
            self._make_topic(
                topic.name,
                topic.partitions,
                topic.rf,
                {"min.insync.replicas": str(topic.min_isr)},
                records=topic.records,
            )
            self.loaded[topic.name] = topic.acks_all
        self.loading = True

    def load_also(self, name: str) -> None:
        self.loaded[name] = True

    def stop_load(self) -> None:
        self.loading = False

    def _produce(self) -> None:
        for topic, acks_all in self.loaded.items():
            mine = [p for p in self.parts.values() if p.topic == topic]
            if not mine or self.rng.random() > 0.1:
                continue
            part = self.rng.choice(mine)
            if part.leader is None or not self._able(part, part.leader):
                continue
            process = self._process(part.leader)
            held = process.where(part.key) if process is not None else None
            if (
                process is None
                or held is None
                or self._slow(held[1])
                or not held[1].writable
                or held[1].free < RECORD
            ):
                continue
            if acks_all and len(part.isr) < min(self._min_isr(topic), len(part.replicas)):
                continue
            if len(held[1].logs[part.key, ""].entries) > 60:
                continue
            self._records += 1
            held[1].logs[part.key, ""].entries.append((part.epoch, self._records))
            held[1].logs[part.key, ""].written_at = held[1].used_at = self.kernel.now
            if acks_all:
                self._pending.append((part, part.epoch, self._records))

    def _acknowledge(self) -> None:
        left = []
        for part, epoch, record in self._pending:
            if part.epoch != epoch or self.parts.get(part.key) is not part:
                continue  # its producer heard of an error, and counts on nothing
            if len(part.isr) < min(self._min_isr(part.topic), len(part.replicas)):
                left.append((part, epoch, record))
                continue
            if all(self._has(part, broker, record) for broker in part.isr):
                self.ledger.acked.setdefault((part.topic_id, part.index), set()).add(record)
            else:
                left.append((part, epoch, record))
        self._pending = left[-400:]

    def _has(self, part: Part, broker: int, record: int) -> bool:
        process = self._process(broker)
        held = process.where(part.key) if process is not None else None
        return held is not None and any(r == record for _, r in held[1].logs[part.key, ""].entries[-40:])

    def _make_topic(
        self,
        name: str,
        partitions: int,
        rf: int,
        configs: dict[str, str],
        *,
        records: int = 0,
        assignments: list[list[int]] | None = None,
    ) -> None:
        able = sorted(b.id for b in self.brokers.values() if not b.fenced)
        racks = {b: self.brokers[b].rack for b in able}
        self._topics += 1
        ident = uuid_from_entropy(self.rng.randbytes(32), "topic", name)
        self.configs["topic", name] = dict(configs)
        if assignments is None and len(able) < rf:
            raise KafkaFault(38, "INVALID_REPLICATION_FACTOR")
        for index in range(len(assignments) if assignments is not None else partitions):
            chosen = (
                list(assignments[index]) if assignments is not None else self._spread(able, racks, rf, index)
            )
            part = Part(
                name, index, ident, chosen, list(chosen), None, dirs=dict.fromkeys(chosen), rf=len(chosen)
            )
            self.parts[part.key] = part
            for broker in chosen:
                process = self._process(broker)
                if process is not None:
                    self._ensure(process, part)
            self._elect(part)
            first = [(part.epoch, self._records + 1 + i) for i in range(records)]
            self._records += records
            for broker in chosen:
                process = self._process(broker)
                held = process.where(part.key) if process is not None else None
                if held is not None:
                    held[1].logs[part.key, ""].entries = list(first)
            if all((p := self._process(b)) and p.where(part.key) for b in chosen):
                self.ledger.acked.setdefault((ident, index), set()).update(r for _, r in first)

    def _spread(self, able: list[int], racks: dict[int, str | None], rf: int, index: int) -> list[int]:
        order = able[index % len(able) :] + able[: index % len(able)]
        chosen: list[int] = []
        while len(chosen) < rf:
            used = [racks[b] for b in chosen]
            chosen.append(
                min(
                    (b for b in order if b not in chosen),
                    key=lambda b: (used.count(racks[b]), order.index(b)),
                )
            )
        return chosen

    # -- the truth

    def truth_partitions(self) -> list[dict[str, Any]]:
        return [
            {
                "topic": p.topic, "partition": p.index, "leader": p.leader, "replicas": list(p.replicas), "isr": list(p.isr), "elr": list(p.elr),
                "dirs": dict(p.dirs), "rf": p.rf, "min_isr": self._min_isr(p.topic), "reassigned": p.reassigned,
            }
            for p in self.parts.values()
        ]  # fmt: skip

    def truth_reassignments(self) -> dict[Key, Any]:
        return {p.key: (p.adding, p.removing) for p in self.parts.values() if p.adding or p.removing}

    def truth_offline(self) -> dict[int, list[str]]:
        return {p.broker: sorted(p.offline) for p in self.processes.values() if p.offline}

    def truth_effective(self, key: str) -> dict[int, str | None]:
        """What holds on each running broker, wherever it is set."""
        default = self.configs.get(("broker", ""), {})
        return {
            p.broker: self.configs.get(("broker", str(p.broker)), {}).get(
                key, default.get(key, p.props.get(key))
            )
            for p in self.processes.values()
            if p.registered
        }

    def truth_settings(self) -> list[tuple[str, str, str]]:
        return [
            (f"{kind} {name}", key, value)
            for (kind, name), held in sorted(self.configs.items())
            for key, value in held.items()
            if key != "min.insync.replicas"
        ]

    # -- requests

    def request(self, to: int | None, api: str, /, **args: Any) -> Any:
        process = self._process(to) if to is not None else next(iter(self.processes.values()), None)
        if process is None:
            process = next((p for p in self.processes.values() if p.broker == to), None)
        if process is None:
            raise KafkaFault(8, "BROKER_NOT_AVAILABLE")
        return getattr(self, f"_on_{api}")(process, **args)

    def _controllers_only(self, process: Process) -> None:
        if not self._hears(process):
            raise Timeout

    def _on_describe_quorum(self, process: Process) -> Any:
        leading = self._leading()
        if leading is None or not self.links(process.node, leading.node):
            raise Timeout
        now = self.kernel.now

        def told(ident: int, directory: str, well: bool) -> dict[str, Any]:
            return {
                "id": ident, "directory_id": directory, "log_end_offset": 1000 if well else 10, "last_fetch": now if well else now - 60,
                "last_caught_up": now if well else now - 60,
            }  # fmt: skip

        running = {(c.id, c.directory): c for c in self.controllers.values()}
        voters = [
            told(i, d, (i, d) in running and self.kernel.now - running[i, d].began > 3.0)
            for i, d in self.voters
        ]
        observers = [
            told(c.id, c.directory, True)
            for k, c in sorted(running.items())
            if k not in self.voters and now - c.began > 3.0
        ]
        observers += [
            told(p.broker, "A" * 22, self._hears(p)) for p in self.processes.values() if p.registered
        ]
        return {"leader": leading.id, "epoch": 1, "voters": voters, "observers": observers}

    def _on_describe_cluster(self, process: Process) -> Any:
        found = [
            {"id": b.id, "rack": b.rack, "fenced": b.fenced}
            for b in sorted(self.brokers.values(), key=lambda b: b.id)
        ]
        return {"cluster_id": self.cluster_id, "brokers": found}

    def _on_describe_topic_partitions(self, process: Process) -> Any:
        return [
            {
                "topic": p.topic,
                "partition": p.index,
                "leader": p.leader,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "elr": list(p.elr),
            }
            for p in self.parts.values()
        ]

    def _on_list_reassignments(self, process: Process) -> Any:
        self._controllers_only(process)
        return {k: (list(a), list(r)) for k, (a, r) in self.truth_reassignments().items()}

    def _on_describe_log_dirs(self, process: Process) -> Any:
        told = []
        for path, fs in process.dirs.items():
            if fs is None or path in process.offline:
                told.append(
                    {
                        "path": path,
                        "error": STORAGE_ERROR,
                        "total": None,
                        "usable": None,
                        "cordoned": False,
                        "replicas": {},
                        "futures": {},
                    }
                )
                continue
            replicas = {key: log.bytes for (key, suffix), log in fs.logs.items() if not suffix}
            futures = {}
            for (key, suffix), log in fs.logs.items():
                held = process.where(key)
                if suffix == "future" and held is not None:
                    futures[key] = (log.bytes, max(0, held[1].logs[key, ""].end - log.end))
            told.append(
                {
                    "path": path, "error": 0, "total": fs.capacity, "usable": fs.free, "cordoned": path in self._cordoned(process.broker),
                    "replicas": replicas, "futures": futures,
                }
            )  # fmt: skip
        return told

    def _on_describe_configs(self, process: Process, *, kind: str, name: str, keys: list[str]) -> Any:
        dynamic = self.configs.get((kind, name), {})
        default = self.configs.get(("broker", ""), {}) if kind == "broker" else {}
        told: dict[str, Any] = {}
        for key in keys:
            layers = []
            if key in dynamic:
                layers.append((key, dynamic[key], 1 if kind == "topic" else 2))
            if key in default:
                layers.append((key, default[key], 3))
            if key in process.props:
                layers.append((key, process.props[key], 4))
            if key in _DEFAULTS:
                layers.append((key, _DEFAULTS[key], 5))
            if layers:
                told[key] = {"value": layers[0][1], "source": layers[0][2], "synonyms": layers}
        return told

    def _on_describe_features(self, process: Process) -> Any:
        return {
            "metadata.version": self.level,
            "kraft.version": 1,
            **({"eligible.leader.replicas.version": 1} if self.elr else {}),
        }

    def _on_describe_quota(self, process: Process) -> Any:
        return dict(self.quota)

    def _on_alter_quota(self, process: Process, *, values: dict[str, float | None]) -> Any:
        for key, value in values.items():
            if value is None:
                self.quota.pop(key, None)
            else:
                self.quota[key] = value

    def _on_alter_replica_log_dirs(self, process: Process, *, dirs: dict[str, list[Key]]) -> Any:
        told: dict[Key, int] = {}
        for path, keys in dirs.items():
            for key in keys:
                told[key] = self._alter_dir(process, path, key)
        return told

    def _alter_dir(self, process: Process, path: str, key: Key) -> int:
        if len(f"{key[0]}-{key[1]}") + 40 > 255:
            return BAD_TOPIC
        if path not in process.dirs:
            return NO_DIR
        live = process.live()
        if path not in live:
            return STORAGE_ERROR
        held = process.where(key)
        made = process.where(key, "future")
        if held is None:
            process.preferred[key] = path
            return NOT_THERE
        if process.offline:
            return STORAGE_ERROR
        if made is not None and made[0] != path:
            del made[1].logs[key, "future"]
        if held[0] != path and (key, "future") not in live[path].logs:
            live[path].logs[key, "future"] = Log(held[1].logs[key, ""].topic_id)
        return 0

    def _on_alter_partition_reassignments(
        self, process: Process, *, assignments: dict[Key, list[int] | None], who: str = "somebody"
    ) -> Any:
        self._controllers_only(process)
        told = {}
        for key, target in assignments.items():
            told[key] = self._reassign(key, target, who)
        return told

    def _reassign(self, key: Key, target: list[int] | None, who: str) -> tuple[int, str]:
        part = self.parts.get(key)
        if part is None:
            return 3, "UNKNOWN_TOPIC_OR_PARTITION"
        if target is None:
            if not part.adding and not part.removing:
                return 85, "NO_REASSIGNMENT_IN_PROGRESS"
            back = [b for b in part.replicas if b not in part.adding]
            gone = list(part.adding)
            part.replicas, part.adding, part.removing, part.target = back, [], [], []
            part.isr = [b for b in part.isr if b in back] or part.isr
            for broker in gone:
                self._delete_replica(part, broker)
            return 0, ""
        if any(b not in self.brokers for b in target) or not target or len(set(target)) != len(target):
            return 39, "INVALID_REPLICA_ASSIGNMENT"
        if who != "spindle-operator":
            part.reassigned, part.rf = True, len(target)
        now = [b for b in part.replicas if b not in part.adding]
        for broker in part.adding:
            if broker not in target:
                self._delete_replica(part, broker)
        part.adding = [b for b in target if b not in now]
        part.removing = [b for b in now if b not in target]
        part.target = list(target)
        part.replicas = [*target, *part.removing]
        for broker in part.adding:
            part.dirs.setdefault(broker, None)
            part.caught[broker] = self.kernel.now - 2 * LAG
        if not part.adding and not part.removing:
            part.target = []
        self._progress(part)
        return 0, ""

    def _on_incremental_alter_configs(
        self, process: Process, *, kind: str, name: str, values: dict[str, str | None]
    ) -> Any:
        self._controllers_only(process)
        if kind == "topic" and not any(p.topic == name for p in self.parts.values()):
            return 3, "UNKNOWN_TOPIC_OR_PARTITION"
        if "many" in values.values():
            return 40, "INVALID_CONFIG"
        held = self.configs.setdefault((kind, name), {})
        for key, value in values.items():
            if value is None:
                held.pop(key, None)
            else:
                held[key] = value
        return 0, ""

    def _on_elect_leaders(self, process: Process, *, partitions: list[Key], unclean: bool) -> Any:
        self._controllers_only(process)
        told = {}
        for key in partitions:
            part = self.parts.get(key)
            if part is None:
                told[key] = (3, "UNKNOWN_TOPIC_OR_PARTITION")
            elif unclean:
                told[key] = (
                    (84, "ELECTION_NOT_NEEDED")
                    if part.leader is not None
                    else (0, "")
                    if self._elect(part, unclean=True)
                    else (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
                )
            else:
                best = part.replicas[0]
                if best == part.leader:
                    told[key] = (84, "ELECTION_NOT_NEEDED")
                elif best in part.isr and self._able(part, best):
                    part.leader, part.epoch = best, part.epoch + 1
                    held = (self._process(best) or process).where(key)
                    self.ledger.check(part, held[1].logs[key, ""] if held else None, best)
                    told[key] = (0, "")
                else:
                    told[key] = (80, "PREFERRED_LEADER_NOT_AVAILABLE")
        return told

    def _on_create_topics(
        self,
        process: Process,
        *,
        topic: str,
        configs: dict[str, str],
        assignments: Any = None,
        partitions: int = 1,
        rf: int = 1,
    ) -> Any:
        self._controllers_only(process)
        if any(p.topic == topic for p in self.parts.values()):
            return 36, "TOPIC_ALREADY_EXISTS"
        self._make_topic(topic, partitions, rf, configs, assignments=assignments)
        return 0, ""

    def _on_delete_topics(self, process: Process, *, topic: str) -> Any:
        self._controllers_only(process)
        for key in [k for k in self.parts if k[0] == topic]:
            part = self.parts.pop(key)
            for broker in part.replicas:
                self._delete_replica(part, broker)
        self.configs.pop(("topic", topic), None)
        return 0, ""

    def _on_list_offsets(self, process: Process, *, partitions: list[Key], which: str) -> Any:
        told = {}
        for key in partitions:
            held = process.where(key)
            log = held[1].logs[key, ""] if held else None
            told[key] = (6, -1) if log is None else (0, log.start if which == "earliest" else log.end)
        return told

    def _on_delete_records(self, process: Process, *, offsets: dict[Key, int]) -> Any:
        for key, offset in offsets.items():
            part = self.parts[key]
            held = process.where(key)
            if held is None:
                continue
            log = held[1].logs[key, ""]
            gone = {record for _, record in log.entries[: max(0, offset - log.start)]}
            self.ledger.gone.setdefault((part.topic_id, part.index), set()).update(gone)
        return dict.fromkeys(offsets, 0)

    def _on_unregister_broker(self, process: Process, *, broker: int) -> Any:
        self._controllers_only(process)
        if broker not in self.brokers:
            return 102, "BROKER_ID_NOT_REGISTERED"
        del self.brokers[broker]
        return 0, ""

    def _on_add_voter(self, process: Process, *, voter: int, directory_id: str) -> Any:
        self._controllers_only(process)
        if any(i == voter for i, _ in self.voters):
            return 126, "DUPLICATE_VOTER"
        self.voters.append((voter, directory_id))
        return 0, ""

    def _on_remove_voter(self, process: Process, *, voter: int, directory_id: str) -> Any:
        self._controllers_only(process)
        if (voter, directory_id) not in self.voters:
            return 127, "VOTER_NOT_FOUND"
        self.voters.remove((voter, directory_id))
        return 0, ""

    def _on_update_features(self, process: Process, *, levels: dict[str, int]) -> Any:
        self._controllers_only(process)
        self.level = max(self.level, levels.get("metadata.version", 0))
        return 0, ""


_DEFAULTS = {
    "retention.ms": "604800000", "retention.bytes": "-1", "max.message.bytes": "1048588", "cleanup.policy": "delete", "min.insync.replicas": "1",
}  # fmt: skip
