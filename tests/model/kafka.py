"""Kafka as `kafka-facts` describes it, as far as disks go: offline dirs, ISR and ELR, reassignments, restarts, last copies.

A record is a number; a log is how many of them it holds, always a beginning of what was written. What was acknowledged
is counted, so that it can be told when an election throws some of it away although a disk still has it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spindle.api import names
from spindle.model.view import CORDONED, DEFAULT_USERS, Broker, KafkaView, LogDir, Partition, Quorum

Key = tuple[str, int]
SIZE = 100  # bytes of a log, unless told otherwise
CAPACITY = 10_000
DELETED_AFTER = 12  # beats: what has left a dir takes up room for a minute more
TOPIC_DEFAULTS = {
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "cleanup.policy": "delete",
}


@dataclass
class Volume:
    """One disk with a file system on it.

    Attributes:
        state: ``well``, ``slow``, ``suspect <reason>``, ``dead`` (EIO), ``hung``, ``readonly``, ``missing`` (not mounted).
        id: Kafka's directory id on it, None while blank.
        logs: what is on it, by partition.
        others: bytes on it that are not Kafka's.
        going: logs whose replica has left: partition → the beats until they are deleted.
    """

    name: str
    fs: str
    state: str = "well"
    id: str | None = None
    cluster: bool = True
    logs: dict[Key, int] = field(default_factory=dict)
    others: int = 0
    going: dict[Key, int] = field(default_factory=dict)
    log_dirs: str = ""  # the list of its broker's log dirs, in its identity file

    def give_up(self, key: Key) -> None:
        """Kafka renames the folder, and deletes it later."""
        del self.logs[key]
        self.going[key] = DELETED_AFTER


@dataclass
class Process:
    """One run of a broker.

    Attributes:
        dirs: path → volume, None for a placeholder.
        offline: paths that are in error.
        given_up: replicas that were on a dir when it went offline.
        preferred: dirs chosen by AlterReplicaLogDirs for replicas that are to come.
    """

    broker: int
    dirs: dict[str, Volume | None]
    offline: set[str] = field(default_factory=set)
    given_up: set[Key] = field(default_factory=set)
    preferred: dict[Key, str] = field(default_factory=dict)

    def live(self) -> dict[str, Volume]:
        return {path: v for path, v in self.dirs.items() if v is not None and path not in self.offline}

    def where(self, key: Key) -> str | None:
        return next((path for path, volume in self.live().items() if key in volume.logs), None)


@dataclass
class State:
    """One partition as the controller and its producer know it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    elr: tuple[int, ...] = ()
    last_leader: int | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    target: tuple[int, ...] = ()
    acked: int = 0
    dirs: dict[int, str] = field(default_factory=dict)


@dataclass
class Kafka:
    """The brokers and the controller.

    Attributes:
        running: by broker id; changed by whoever starts and stops pods.
        volumes: every disk that exists, plugged in or not, so that it is known what could still be saved.
        losses: (partition, acknowledged, kept) of elections that threw acknowledged records away.
        sizes: bytes of a topic's logs.
    """

    min_isr: int = 2
    with_elr: bool = True
    running: dict[int, Process] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    partitions: dict[Key, State] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    settings: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    losses: list[tuple[Key, int, int]] = field(default_factory=list)
    unclean: set[Key] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    traffic: bool = True
    ids: dict[str, str] = field(default_factory=dict)
    refuses: str = ""  # what a policy of the brokers says to each change of a topic
    _made: int = 0

    # -- what happens by itself ---------------------------------------------------------------------------------------

    def start(self, process: Process, *, clean: bool) -> None:
        """A broker's process comes up; an unclean one leaves every ISR and ELR (KIP-966)."""
        self.running[process.broker] = process
        for path, volume in process.dirs.items():
            if volume is None or volume.state in ("dead", "missing"):
                process.offline.add(path)
        if process.offline or not clean:
            for state in self.partitions.values():
                self._out(state, process.broker, to_elr=False)

    def stop(self, broker: int) -> None:
        self.running.pop(broker, None)

    def step(self) -> None:
        """One beat: dirs that fail are noticed, logs are made and copied, leaders are elected, records are written."""
        for volume in self.volumes.values():
            volume.going = {key: beats - 1 for key, beats in volume.going.items() if beats > 1}
        for process in self.running.values():
            self._notice(process)
        for key, state in self.partitions.items():
            for broker in state.replicas:
                self._make(key, state, broker)
        for key, state in self.partitions.items():
            self._shrink(key, state)
            self._elect(key, state)
            self._copy(key, state)
            self._complete(key, state)
            self._elect(key, state)
            self._produce(key, state)

    def _notice(self, process: Process) -> None:
        for path, volume in process.live().items():
            failed = volume.state in ("dead", "readonly", "missing")
            if failed and self.traffic and (volume.logs or volume.state == "missing"):
                process.offline.add(path)
                process.given_up |= set(volume.logs)

    def _make(self, key: Key, state: State, broker: int) -> None:
        """Create a log where one is due: on the chosen dir, else on the one with the fewest logs."""
        process = self.running.get(broker)
        if process is None or process.where(key) is not None:
            return
        if process.offline and (key in process.given_up or broker not in state.adding):
            return
        live = {
            p: v for p, v in process.live().items() if v.state not in ("dead", "hung", "readonly", "missing")
        }
        if not live:
            return
        chosen = process.preferred.get(key)
        open_dirs = {p: v for p, v in live.items() if p not in self._cordoned(broker)} or live
        path = chosen if chosen in live else min(open_dirs, key=lambda p: (len(live[p].logs), p))
        live[path].logs[key] = 0
        state.dirs[broker] = live[path].id or ""

    def _cordoned(self, broker: int) -> set[str]:
        found = cordons(self.settings.get(("broker", str(broker)), {}))
        return found if found <= self.running[broker].dirs.keys() else set()

    def holds(self, key: Key, broker: int) -> bool:
        process = self.running.get(broker)
        return process is not None and process.where(key) is not None

    def log(self, key: Key, broker: int) -> tuple[Volume, int] | None:
        process = self.running.get(broker)
        path = process.where(key) if process else None
        if process is None or path is None:
            return None
        volume = process.live()[path]
        return volume, volume.logs[key]

    def _stuck(self, key: Key, broker: int) -> bool:
        found = self.log(key, broker)
        return found is not None and found[0].state == "hung"

    def _out(self, state: State, broker: int, *, to_elr: bool) -> None:
        if broker in state.isr:
            state.isr = tuple(b for b in state.isr if b != broker)
            if to_elr and self.with_elr and len(state.isr) < self.min_isr:
                state.elr = (*state.elr, broker)
            if not state.isr:
                state.last_leader = broker
        elif not to_elr:
            state.elr = tuple(b for b in state.elr if b != broker)
        if state.leader == broker:
            state.leader = None

    def _shrink(self, key: Key, state: State) -> None:
        """Take out of the ISR whoever has no live log; without ELR the last member stays in it."""
        for broker in state.isr:
            alone = state.isr == (broker,) and not self.with_elr
            if self.holds(key, broker):
                continue
            if alone:
                state.leader = None
            else:
                # With the dir gone the log is gone for the controller, too: no ELR membership from a dead dir.
                self._out(state, broker, to_elr=True)

    def _elect(self, key: Key, state: State) -> None:
        if state.leader is not None and state.leader in state.isr:
            return
        able = [b for b in state.replicas if self.holds(key, b)]
        chosen = next((b for b in able if b in state.isr), None)
        if chosen is None:
            chosen = next((b for b in able if b in state.elr), None)
        if chosen is None and not state.isr and not state.elr and state.last_leader in able:
            chosen = state.last_leader
        state.leader = None
        if chosen is not None:
            self.lead(key, chosen)

    def lead(self, key: Key, broker: int) -> None:
        """Make a broker leader; the others are cut to what it has."""
        state = self.partitions[key]
        found = self.log(key, broker)
        assert found is not None
        end = found[1]
        if end < state.acked:
            saved = any(volume.logs.get(key, -1) > end for volume in self.volumes.values())
            if saved and key not in self.unclean:
                self.losses.append((key, state.acked, end))
            state.acked = end
        self.unclean.discard(key)
        state.leader = broker
        if broker not in state.isr:
            state.isr = (broker,)
        state.elr = tuple(b for b in state.elr if b != broker)

    def _copy(self, key: Key, state: State) -> None:
        """Followers take over what the leader has, and come back into the ISR."""
        if state.leader is None or self._stuck(key, state.leader):
            return
        found = self.log(key, state.leader)
        if found is None:
            return
        for broker in state.replicas:
            mine = self.log(key, broker)
            if broker == state.leader or mine is None or mine[0].state == "hung":
                if mine is not None and mine[0].state == "hung" and broker != state.leader:
                    self._out(state, broker, to_elr=True)
                continue
            mine[0].logs[key] = found[1]
            if broker not in state.isr:
                state.isr = tuple(b for b in state.replicas if b in {*state.isr, broker})
        if len(state.isr) >= self.min_isr:
            state.elr = ()

    def _complete(self, key: Key, state: State) -> None:
        if not (state.adding or state.removing):
            return
        needed = state.adding or state.target
        if not set(needed) <= set(state.isr):
            return
        for broker in state.removing:
            if (found := self.log(key, broker)) is not None:
                found[0].give_up(key)
            state.dirs.pop(broker, None)
        state.replicas, state.adding, state.removing = state.target, (), ()
        state.isr = tuple(b for b in state.isr if b in state.replicas)
        if state.leader not in state.replicas:
            state.leader = None

    def _produce(self, key: Key, state: State) -> None:
        """One record with acks=all, if the partition takes it."""
        if state.leader is None or len(state.isr) < min(self.min_isr, len(state.replicas)):
            return
        if any(self._stuck(key, b) for b in state.isr):
            return
        found = self.log(key, state.leader)
        if found is None or not self.traffic:
            return
        end = found[1] + 1
        for broker in state.isr:
            if (mine := self.log(key, broker)) is not None:
                mine[0].logs[key] = end
        state.acked = end

    # -- what it is asked to do ---------------------------------------------------------------------------------------

    def create(self, topic: str, index: int, replicas: tuple[int, ...], disks: Callable[[int], str]) -> None:
        """A topic's partition, each replica on a named disk."""
        key = (topic, index)
        if topic not in self.ids:
            self._made += 1
            self.ids[topic] = f"id-{topic}-{self._made}"[:22]
        self.partitions[key] = state = State(replicas, replicas, replicas[0])
        for broker in replicas:
            volume = self.running[broker].dirs[disks(broker)]
            assert volume is not None
            volume.logs[key] = 0
            state.dirs[broker] = volume.id or ""

    def make_topic(
        self, topic: str, assignments: tuple[tuple[int, ...], ...], configs: dict[str, str]
    ) -> None:
        """A topic as CreateTopics makes it: each broker takes the chosen dir, else the one with the fewest logs."""
        if any(name == topic for name, _ in self.partitions):
            raise RuntimeError(f"{topic}: TopicAlreadyExistsError")
        self.ids.pop(topic, None)  # of one that a test took away
        if self.refuses:
            raise RuntimeError(f"{topic}: PolicyViolationError ({self.refuses})")
        self._add(topic, 0, assignments)
        self.settings["topic", topic] = configs

    def _add(self, topic: str, first: int, assignments: tuple[tuple[int, ...], ...]) -> None:
        for index, replicas in enumerate(assignments, first):
            key = (topic, index)

            def chosen(broker: int, key: Key = key) -> str:
                process = self.running[broker]
                live = process.live()
                wanted = process.preferred.get(key)
                return wanted if wanted in live else min(live, key=lambda path: len(live[path].logs))

            self.create(topic, index, replicas, chosen)

    def add_partitions(self, topic: str, first: int, assignments: tuple[tuple[int, ...], ...]) -> None:
        """CreatePartitions."""
        if sum(name == topic for name, _ in self.partitions) != first:
            raise RuntimeError(f"{topic}: InvalidPartitionsError")
        self._add(topic, first, assignments)

    def configure_topic(self, topic: str, values: dict[str, str | None]) -> None:
        """IncrementalAlterConfigs of a topic."""
        if self.refuses:
            raise RuntimeError(f"{topic}: PolicyViolationError ({self.refuses})")
        self.configure("topic", topic, values)

    def delete_topic(self, topic_id: str) -> None:
        """DeleteTopics by id."""
        topic = next((name for name, known in self.ids.items() if known == topic_id), None)
        if topic is None:
            return
        del self.ids[topic]
        for key in [key for key in self.partitions if key[0] == topic]:
            del self.partitions[key]
            for process in self.running.values():
                process.preferred.pop(key, None)
                for volume in process.live().values():
                    if key in volume.logs:
                        volume.give_up(key)
        self.settings.pop(("topic", topic), None)

    def managed(self, read: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
        """The requested settings that are set on topics themselves."""
        return {
            topic: {k: v for k, v in self.settings.get(("topic", topic), {}).items() if k in keys}
            for topic, keys in read.items()
            if topic in self.ids
        }

    def place(self, broker: int, placements: tuple[tuple[str, int, str], ...]) -> None:
        process = self.running.get(broker)
        for topic, index, path in placements:
            if process is not None:
                if path not in process.dirs:
                    raise RuntimeError("LOG_DIR_NOT_FOUND")
                process.preferred[topic, index] = path

    def reassign(self, topic: str, index: int, replicas: tuple[int, ...] | None) -> None:
        state = self.partitions.get((topic, index))
        if state is None:
            return
        if replicas is None:
            for broker in state.adding:
                if (found := self.log((topic, index), broker)) is not None:
                    found[0].give_up((topic, index))
            state.replicas = tuple(b for b in state.replicas if b not in state.adding)
            state.isr = tuple(b for b in state.isr if b in state.replicas)
            state.adding = state.removing = ()
            if state.leader not in state.isr:
                state.leader = None
            return
        before = tuple(b for b in state.replicas if b not in state.adding)
        state.target = tuple(replicas)
        state.adding = tuple(b for b in replicas if b not in before)
        state.removing = tuple(b for b in before if b not in replicas)
        state.replicas = (*replicas, *state.removing)
        self._complete((topic, index), state)
        if not state.adding and not state.removing:
            state.replicas = state.target

    def configure(self, kind: str, name: str, values: dict[str, str | None]) -> None:
        there = {**self.settings.get((kind, name), {}), **values}
        made = {key: value for key, value in there.items() if value is not None}
        process = self.running.get(int(name)) if kind == "broker" and name else None
        if process is not None and not cordons(made) <= process.dirs.keys():
            raise RuntimeError("INVALID_REQUEST: all cordoned log dirs must be entries of log.dirs")
        self.settings[kind, name] = made

    def trim(self, partitions: tuple[tuple[str, int, int, float], ...]) -> None:
        """Delete the oldest records; of a topic's logs all become smaller."""
        for topic, share in {topic: share for topic, _, _, share in partitions}.items():
            self.sizes[topic] = int(self.sizes.get(topic, SIZE) * (1 - share))

    def elect_preferred(self, partitions: tuple[tuple[str, int], ...]) -> None:
        for key in partitions:
            state = self.partitions[key]
            preferred = state.replicas[0]
            if state.leader is not None and preferred in state.isr and self.holds(key, preferred):
                self.lead(key, preferred)

    def elect_unclean(self, partitions: tuple[tuple[str, int], ...]) -> None:
        for key in partitions:
            state = self.partitions[key]
            able = [b for b in state.replicas if self.holds(key, b)]
            if state.leader is None and able:
                self.unclean.add(key)
                state.isr = ()
                self.lead(key, max(able, key=lambda b: (self.log(key, b) or (None, 0))[1]))

    def move_within(self, broker: int, key: Key, to: str) -> None:
        """What the agent does with one of ``spec.moves``."""
        process = self.running.get(broker)
        at = process.where(key) if process else None
        if process is None or process.offline or at is None or at == to or to not in process.live():
            return
        live = process.live()
        live[to].logs[key] = live[at].logs[key]
        live[at].give_up(key)
        self.partitions[key].dirs[broker] = live[to].id or ""

    # -- what it answers ----------------------------------------------------------------------------------------------

    def view(
        self, registered: set[int], quorum: Quorum | None = None, cluster_id: str | None = None
    ) -> KafkaView:
        return KafkaView(
            cluster_id=cluster_id,
            brokers={i: self._broker(i) for i in sorted(registered)},
            partitions=tuple(
                Partition(t, p, s.leader, s.replicas, s.isr, s.elr, s.adding, s.removing)
                for (t, p), s in sorted(self.partitions.items())
            ),
            min_isr={
                topic: int(self.settings.get(("topic", topic), {}).get("min.insync.replicas", self.min_isr))
                for topic, _ in self.partitions
            },
            quorum=quorum,
            metadata_version=30,
            topic_ids={topic: self.ids.get(topic, topic) for topic, _ in self.partitions},
            topics={topic: self._holds(topic) for topic, _ in self.partitions},
            settings={
                **{("broker", str(i)): {} for i in registered},
                **{("topic", topic): {} for topic, _ in self.partitions},
                DEFAULT_USERS: {},
                **{key: dict(values) for key, values in self.settings.items()},
            },
        )

    def _holds(self, topic: str) -> dict[str, str]:
        return dict(TOPIC_DEFAULTS) | self.settings.get(("topic", topic), {})

    def _broker(self, broker: int) -> Broker:
        process = self.running.get(broker)
        if process is None:
            return Broker(broker, self.racks.get(broker), fenced=True)
        if any(volume.state == "hung" for volume in process.live().values()):
            return Broker(broker, self.racks.get(broker), fenced=False)
        dirs = tuple(self._dir(process, path, volume) for path, volume in sorted(process.dirs.items()))
        return Broker(broker, self.racks.get(broker), fenced=False, log_dirs=dirs)

    def _dir(self, process: Process, path: str, volume: Volume | None) -> LogDir:
        if volume is None or path in process.offline:
            return LogDir(path, error=56)
        # Only what belongs there: a log whose replica has left is a stray that Kafka puts aside.
        held = {
            key: self.sizes.get(key[0], SIZE)
            for key in volume.logs
            if key in self.partitions and process.broker in self.partitions[key].replicas
        }
        going = sum(self.sizes.get(topic, SIZE) for topic, _ in volume.going)
        return LogDir(
            path,
            total_bytes=CAPACITY,
            usable_bytes=max(0, CAPACITY - volume.others - sum(held.values()) - going),
            cordoned=path in self._cordoned(process.broker),
            replicas=held,
        )


def cordons(settings: Mapping[str, str]) -> set[str]:
    """Log dirs that a broker's settings cordon."""
    return set(filter(None, settings.get(CORDONED, "").split(",")))


def path_of(disk: str) -> str:
    return names.log_dir(disk)
