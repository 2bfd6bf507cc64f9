"""Brokers: start, load logs, fetch, copy between dirs, lose dirs, stop. Once a second each does what it would do in that second."""

from tests.sim.disks import RECORD, FileSystem, Key, Log
from tests.sim.kafka.quorum import Quorum
from tests.sim.kafka.state import DIR_FAILURE, LAG, LATE, SHUTDOWN, Part, Process, StartError

FETCHED = 4  # records that a follower fetches per second without disturbances
Place = tuple[str, FileSystem]


class Brokers(Quorum):
    """The brokers' processes."""

    # -- start and stop

    def start_broker(
        self,
        uid: str,
        broker: int,
        rack: str | None,
        dirs: dict[str, FileSystem | None],
        props: dict[str, str],
        node: str,
    ) -> None:
        """Start a broker's process.

        Args:
            dirs: log dir → file system; None: a file in its place.

        Raises:
            StartError: it exits at once.
        """
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
        if not live:
            raise StartError("Shutdown broker because none of the specified log dirs are available")
        self._no_duplicates(broker, live)
        now = self.kernel.now
        dirty = any(fs.clean is None and fs.logs for fs in live.values())
        took = self.rng.uniform(2.0, 5.0) + (self.rng.uniform(2.0, 15.0) if dirty else 0.0)
        process = Process(uid, self.next_serial(), broker, rack, dict(dirs), dict(props), node, now + took)
        process.offline = {path: now for path in dirs if path not in live}
        process.previous = _clean_epoch(dirs, live)
        self.processes[uid] = process

    def _no_duplicates(self, broker: int, live: dict[str, FileSystem]) -> None:
        held: dict[Key, str] = {}
        for path, fs in live.items():
            for (key, suffix), log in fs.logs.items():
                if suffix or self._is_stray(broker, key, log):
                    continue
                if key in held:
                    raise StartError(f"Duplicate log directories for {key} in both {held[key]} and {path}")
                held[key] = path

    def stop(self, uid: str, *, clean: bool) -> None:
        """Terminate a process (SIGTERM), or kill it (SIGKILL)."""
        process = self.processes.get(uid)
        if not clean:
            self.controllers.pop(uid, None)
            self.processes.pop(uid, None)
        elif uid in self.controllers:
            self.kernel.call_later(1.0, lambda: self._controller_ended(uid))
        elif process is not None:
            self._begin_stop(process)

    def _begin_stop(self, process: Process) -> None:
        if not process.stopping:
            process.stopping, process.stopping_since = True, self.kernel.now

    def _controller_ended(self, uid: str) -> None:
        if self.controllers.pop(uid, None) is not None:
            self.on_exit(uid, "stopped")

    def _stopping(self, process: Process) -> None:
        """One second of a stop: the controllers grant it, logs are closed, each dir is marked as clean."""
        found = self.brokers.get(process.broker)
        mine = found is not None and found.incarnation == process.incarnation
        if process.down_at is None:
            if found is not None and mine:
                if self.hears(process):
                    self.grant_shutdown(found)
                elif self.kernel.now - process.stopping_since < SHUTDOWN:
                    return
            process.down_at = self.kernel.now + self.rng.uniform(1.0, 6.0)
            return
        if self.kernel.now < process.down_at or process.hangs():
            return  # closing the logs of a hung dir does not return
        for fs in process.live().values():
            if fs.writable:
                fs.clean = found.epoch if found is not None and mine else None
        self.processes.pop(process.uid)
        if found is not None and mine and self.hears(process):
            self.fence(found)
        self.on_exit(process.uid, "stopped")

    def alive(self, uid: str) -> bool:
        """Whether a process accepts connections."""
        process = self.processes.get(uid)
        return uid in self.controllers or (process is not None and self.kernel.now >= process.up_at - 1.0)

    def ready(self, uid: str) -> bool:
        """The result of Kafka's own readiness probe."""
        if uid in self.controllers:
            return self.majority()
        process = self.processes.get(uid)
        if process is None or not process.registered or process.stopping:
            return False
        found = self.brokers.get(process.broker)
        if found is None or found.incarnation != process.incarnation or found.fenced:
            return False
        return not any(
            process.broker in p.replicas and process.broker not in p.isr and process.where(p.key) and p.leader is not None
            and process.broker not in p.adding
            for p in self.parts.values()
        )  # fmt: skip

    # -- one second of a process

    def run_second(self, process: Process) -> None:
        """The actions of a broker in one second, except fetching."""
        if self.kernel.now < process.up_at or not self._dirs_seen(process):
            return
        if not process.loaded and process.hangs():
            return  # it loads the logs of all dirs first
        blank = next((path for path, fs in process.live().items() if fs.meta is None), None)
        if not process.loaded and blank is not None:  # a dir that did not answer when the process started
            self.processes.pop(process.uid)
            self.on_exit(process.uid, f"No `meta.properties` found in {blank}")
            return
        process.stuck = process.stuck and process.hangs()
        if self.hears(process) and not self._heard(process):
            return
        if process.loaded and process.seen != self.version and self.hears(process):
            process.seen = self.version
            self._drop_unassigned(process)
            for part in list(self.parts.values()):
                if process.broker in part.replicas and process.where(part.key) is None:
                    self.ensure(process, part)  # also without a leader to copy from
        if process.stopping and process.uid in self.processes:
            self._stopping(process)

    def _heard(self, process: Process) -> bool:
        """A heartbeat, which reports dirs, and other reports to the controllers; returns whether the process is registered."""
        if not process.registered:
            if process.stopping or not self.register(process):
                return process.stopping
            process.registered = True
            self._load(process)
        found = self.brokers.get(process.broker)
        if found is None or found.incarnation != process.incarnation:
            return True  # it was unregistered
        found.heard = self.kernel.now
        gone = {_directory(process.dirs[path]) for path in process.offline}
        self.dirs_offline(found, {each for each in gone if each is not None})
        for key, directory in list(process.assignments.items()):
            self.assign_dir(found, key, directory)
        process.assignments.clear()
        if found.fenced and not process.stopping:
            self.unfence(found)
        return True

    def _dirs_seen(self, process: Process) -> bool:
        """Writes reveal dead dirs; returns whether the process continues."""
        for path, fs in list(process.live().items()):
            full = fs.free <= 0 and any(not suffix for _, suffix in fs.logs)
            if fs.state == "dead" or full or (fs.state == "readonly" and self.rng.random() < 0.3):
                process.offline[path] = self.kernel.now
        if not process.live():
            self.processes.pop(process.uid)
            self.on_exit(process.uid, "all log dirs have failed")
            return False
        if any(self._unheard(process, path) for path in process.offline):
            self._begin_stop(process)
        return True

    def _unheard(self, process: Process, path: str) -> bool:
        found = self.brokers.get(process.broker)
        directory = _directory(process.dirs[path])
        waits = found is not None and found.incarnation == process.incarnation and directory in found.dirs
        return waits and self.kernel.now - process.offline[path] > DIR_FAILURE

    # -- logs

    def _is_stray(self, broker: int, key: Key, log: Log) -> bool:
        part = self.parts.get(key)
        return part is None or part.topic_id != log.topic_id or broker not in part.replicas

    def _load(self, process: Process) -> None:
        """Load the logs of all dirs, rename stray ones, create missing ones."""
        process.loaded = True
        for fs in process.live().values():
            fs.clean = None
            for (key, suffix), log in list(fs.logs.items()):
                if suffix.startswith("delete"):
                    self._delete_late(process, fs, key, suffix)
                elif suffix in ("", "future") and self._is_stray(process.broker, key, log):
                    fs.logs[key, f"stray {self.next_serial()}"] = fs.logs.pop((key, suffix))
                elif suffix == "" and (directory := _directory(fs)) != self.parts[key].dirs.get(
                    process.broker
                ):
                    process.assignments[key] = directory or ""
        for part in list(self.parts.values()):
            if process.broker in part.replicas:
                self.ensure(process, part)

    def ensure(self, process: Process, part: Part) -> Place | None:
        """The log of a replica; created if necessary and allowed, as in `createLogInAssignedDirectoryId`."""
        held = process.where(part.key)
        if held is not None and held[1].logs[part.key, ""].topic_id == part.topic_id:
            return held
        if not process.loaded or not self.hears(process):
            return None
        if held is not None:
            self._delete(process, held[1], part.key, "")
        path = self._place(process, part)
        if path is None:
            return None
        fs = process.live()[path]
        if fs.state == "hung":
            process.stuck = True
        if not fs.writable:
            return None
        fs.logs[part.key, ""] = Log(part.topic_id, written_at=self.kernel.now + self.skew(process.node))
        directory = _directory(fs)
        if directory and directory != part.dirs.get(process.broker):
            process.assignments[part.key] = directory
        return path, fs

    def _place(self, process: Process, part: Part) -> str | None:
        live = process.live()
        assigned = part.dirs.get(process.broker)
        for path, fs in live.items():
            if assigned is not None and _directory(fs) == assigned:
                return path
        if assigned is not None and process.offline:
            return None  # it may be on the offline dir
        wanted = process.preferred.get(part.key)
        if wanted in live:
            return wanted
        cordoned = self.cordoned(process)
        open_to = [p for p in live if p not in cordoned] or list(live)
        return min(open_to, key=lambda p: (sum(not s for _, s in live[p].logs), p)) if open_to else None

    def _drop_unassigned(self, process: Process) -> None:
        for fs in process.live().values():
            for (key, suffix), log in list(fs.logs.items()):
                if suffix in ("", "future") and self._is_stray(process.broker, key, log):
                    self._delete(process, fs, key, suffix)

    def _delete(self, process: Process, fs: FileSystem, key: Key, suffix: str) -> None:
        gone = f"delete {self.next_serial()}"
        fs.logs[key, gone] = fs.logs.pop((key, suffix))
        self._delete_late(process, fs, key, gone)

    def _delete_late(self, process: Process, fs: FileSystem, key: Key, suffix: str) -> None:
        """A renamed directory is deleted after a while, by the process that renamed it or the next one."""

        def gone() -> None:
            if (
                self.processes.get(process.uid) is not process
                or (key, suffix) not in fs.logs
                or not fs.writable
            ):
                return
            log = fs.logs[key, suffix]
            self.ledger.destroys(
                fs, key, log, log.entries, f"deleted on {fs.disk} by broker {process.broker}"
            )
            del fs.logs[key, suffix]

        self.kernel.call_later(LATE, gone)

    # -- one second of a partition

    def run_partition(self, part: Part) -> None:
        """The actions of a partition's leader and followers in one second."""
        leader = self.process_of(part.leader)
        if leader is None or not leader.registered or self.kernel.now < leader.up_at:
            return
        held = self.ensure(leader, part)
        if held is None or leader.stuck:
            return
        source = held[1].logs[part.key, ""]
        if part.judged != part.epoch:
            part.judged = part.epoch
            self.ledger.serves(part.key, part.ident, source, f"led by broker {part.leader} now")
        for broker in part.replicas:
            if broker != part.leader:
                self._follow(part, leader, source, broker)
        self._judge_followers(part, leader, source)
        for broker in part.replicas:
            process = self.process_of(broker)
            if process is not None:
                self._copy_between_dirs(process, part)

    def slow(self, fs: FileSystem) -> bool:
        """Whether nothing is written in this second."""
        return fs.blocks or (fs.state == "slow" and self.rng.random() < 0.85)

    def _fetcher_hangs(self, process: Process, leader: int) -> bool:
        """One thread fetches everything from one leader: it waits if one of its partitions is on a hung disk."""
        return process.hangs() and any(
            (held := process.where(p.key)) is not None and held[1].blocks
            for p in self.parts.values()
            if p.leader == leader and process.broker in p.replicas and p.topic in self.loaded
        )

    def _follow(self, part: Part, leader: Process, source: Log, broker: int) -> None:
        process = self.process_of(broker)
        if process is None or not process.registered or (process.stopping and process.down_at is not None):
            return
        if not self.links(process.node, leader.node) or self._fetcher_hangs(process, leader.broker):
            return
        held = self.ensure(process, part)
        if held is None or self.slow(held[1]) or not held[1].appends:
            return
        fs, log = held[1], held[1].logs[part.key, ""]
        same = _alike(log.entries, source.entries)
        if log.start != source.start and not log.entries:
            log.start = source.start
        if len(log.entries) > same:
            cut = log.entries[same:]
            del log.entries[same:]
            how = f"truncated on {fs.disk}, which follows broker {leader.broker}"
            self.ledger.destroys(fs, part.key, log, cut, how)
        if len(source.entries) > same:
            room = max(0, fs.free // RECORD)
            rate = FETCHED if broker in part.isr else max(1, self._rate(part, process) // RECORD)
            taken = source.entries[same:][: min(rate, room)]
            if taken:
                log.entries += taken
                log.written_at = fs.used_at = self.kernel.now + self.skew(process.node)
        if len(log.entries) >= len(source.entries):
            part.caught[broker] = self.kernel.now

    def _rate(self, part: Part, process: Process) -> int:
        rate = self.copy_rate
        text = self.own_settings(process).get("follower.replication.throttled.rate")
        listed = self.configs.get(("topic", part.topic), {}).get(
            "follower.replication.throttled.replicas", ""
        )
        if text and f"{part.index}:{process.broker}" in listed.split(","):
            rate = min(rate, int(text))
        return rate

    def _has_all(self, part: Part, broker: int, source: Log) -> bool:
        """Whether a follower has all that its leader has, so at least the high watermark (`Partition.isFollowerInSync`)."""
        process = self.process_of(broker)
        held = process.where(part.key) if process is not None else None
        return held is not None and held[1].logs[part.key, ""].entries == source.entries

    def _judge_followers(self, part: Part, leader: Process, source: Log) -> None:
        if not self.hears(leader):
            return
        for broker in [b for b in part.replicas if b != part.leader]:
            behind = self.kernel.now - part.caught.get(broker, -1e12)
            if broker in part.isr and behind > LAG:
                self.alter_isr(part, [b for b in part.isr if b != broker])
            elif (
                broker not in part.isr
                and behind < 1.5
                and self._has_all(part, broker, source)
                and self.able(part, broker)
            ):
                self.alter_isr(part, [*part.isr, broker])
            if part.leader != leader.broker:
                return

    def _copy_between_dirs(self, process: Process, part: Part) -> None:
        made, held = process.where(part.key, "future"), process.where(part.key)
        if made is None or held is None or not process.loaded:
            return
        fs, old = made[1], held[1]
        log, source = fs.logs[part.key, "future"], old.logs[part.key, ""]
        if self.slow(fs) or self.slow(old) or not fs.writable:
            return
        text = self.own_settings(process).get("replica.alter.log.dirs.io.max.bytes.per.second")
        rate = max(1, min(self.copy_rate, int(text) if text else self.copy_rate) // RECORD)
        log.entries = log.entries[: len(source.entries)]
        log.entries += source.entries[len(log.entries) : len(log.entries) + rate]
        log.start = source.start
        found = self.brokers.get(process.broker)
        if len(log.entries) >= len(source.entries) and found is not None and self.hears(process):
            self.assign_dir(
                found, part.key, _directory(fs) or ""
            )  # the controllers know it before the copy is used
            fs.logs[part.key, ""] = fs.logs.pop((part.key, "future"))
            self._delete(process, old, part.key, "")
            if part.leader == process.broker:
                part.replaced = process.broker, part.epoch


def _alike(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """Number of equal entries at the start of two logs."""
    if one == other:
        return len(one)
    most = min(len(one), len(other))
    if one[:most] == other[:most]:
        return most
    return next(i for i in range(most) if one[i] != other[i])


def _directory(fs: FileSystem | None) -> str | None:
    return (fs.meta or {}).get("directory.id") if fs is not None else None


def _clean_epoch(dirs: dict[str, FileSystem | None], live: dict[str, FileSystem]) -> int | None:
    """Broker epoch of the previous stop, if every dir has the same one: an offline or new dir has none."""
    epochs = {fs.clean for fs in live.values()}
    return epochs.pop() if len(live) == len(dirs) and len(epochs) == 1 else None
