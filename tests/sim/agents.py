"""Agents: the real code (verdicts, moves, requests to the API server), with simulated disks, Kafka and time."""

import asyncio
import errno
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from spindle.api import names
from spindle.api.enums import DiskVerdict
from spindle.disks.starved import NO_PRESSURE, NodePressure
from spindle.model.view import CORDONED, LOG_DIRS_RATE
from spindle_agent import disk as disks
from spindle_agent import kube as kubes
from spindle_agent import node as nodes
from spindle_agent.broker import session
from spindle_agent.broker.client import Copy, LogDir, hidden
from spindle_agent.broker.connection import BrokerError
from spindle_agent.broker.credentials import Credentials
from spindle_agent.broker.keys import AgentKey
from spindle_agent.disk_settings import DiskSettings
from spindle_agent.heartbeat import Heartbeat
from spindle_agent.options import Options
from spindle_agent.probing import diskstats, timer_lag
from spindle_agent.probing.messages import Began, Inspected, Probed, QuickChecked
from spindle_agent.publish import Publisher
from spindle_agent.tasks import Tasks
from spindle_agent.watch import Brokers
from spindle_shared.api_answers import ApiError
from tests.sim import podfiles
from tests.sim.api import SYSTEM, Json, Refused, Request
from tests.sim.disks import FileSystem
from tests.sim.loop import Clock, Process

_ROOT = "/mnt/disks"
_BEAT = 2.0
_EVENTS_KEPT = 400


class SimKube(kubes.Kube):
    """The agent's own connection, whose requests go to the simulated server."""

    def __init__(self, world: Any, process: Process, node: str) -> None:
        self._world, self._process, self._node = world, process, node

    async def close(self) -> None:
        return None

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        asked = Request(names.FIELD_MANAGER_AGENT, method, path, dict(query or {}), body, content_type)
        try:
            answer: Json = await self._world.net.ask_api(self._process, asked, 10.0, self._node)
        except Refused as error:
            raise ApiError(error.status, error.reason, error.message) from None
        return answer

    async def watch_brokers(self, namespace: str, version: str, node: str = "") -> AsyncIterator[Json]:
        queue: list[tuple[str, Json]] = []
        news = asyncio.Event()
        world, began = self._world, Clock.monotonic()

        def changed(event: str, kind: str, obj: Json) -> None:
            if kind == "KafkaBroker" and self._process.alive:
                # For a watch that selects, an object that is not selected any more is deleted.
                event = event if not node or obj["spec"].get("node") == node else "DELETED"
                world.kernel.call_later(0.02 + 0.1 * world.kernel.rng.random(), lambda: deliver(event, obj))

        def deliver(event: str, obj: Json) -> None:
            if self._process.alive:
                queue.append((event, obj))
                news.set()

        world.api.watchers.append(changed)
        try:
            # Changes between the list and the watch.
            missed = [
                o
                for o in world.api.all("KafkaBroker")
                if int(o["metadata"]["resourceVersion"]) > int(version)
            ]
            queue.extend(
                ("MODIFIED" if node in ("", o["spec"].get("node")) else "DELETED", o) for o in missed
            )
            while Clock.monotonic() - began < 290:
                while queue:
                    if not world.net.linked(self._node, "api") or world.api.away:
                        raise ApiError(0, "ClientError", "the watch broke off")
                    event, obj = queue.pop(0)
                    yield {"type": event, "object": obj}
                news.clear()
                try:
                    async with asyncio.timeout(60.0):
                        await news.wait()
                except TimeoutError:
                    if not world.net.linked(self._node, "api") or world.api.away:
                        raise ApiError(0, "TimeoutError", "the watch fell silent") from None
        finally:
            world.api.watchers.remove(changed)


class SimKafkaClient:
    """The agent's connection to its broker."""

    def __init__(self, wire: Any, broker_id: int) -> None:
        self.wire = wire
        self._process: Any = asyncio.get_running_loop()
        self._broker = broker_id

    def close(self) -> None:
        return None

    async def _ask(self, api: str, **args: Any) -> Any:
        agent = self._process.agent
        world = agent.world
        process: Process = self._process
        future = process.create_future()
        limit = 5.0
        rng = world.kernel.rng
        mishap = world.net.mishap(world.net.kafka_mishaps)

        answer = partial(process.answer, future)

        def perform() -> None:
            silent = BrokerError("no answer in time")
            if mishap == "lost" or not world.net.linked(agent.node.name, world.node_of(self._broker)):
                world.kernel.call_later(limit, lambda: answer(None, silent))
                return
            if not world.answers(self._broker):
                answer(None, BrokerError("connection refused"))
                return
            if mishap == "refused":
                answer(None, BrokerError("REQUEST_TIMED_OUT"))
                return
            if not world.acls.may_alter(agent.principal):
                answer(None, BrokerError("ClusterAuthorizationFailed"))
                return
            try:
                value = world.kafka.request(self._broker, api, **args)
            except Exception as error:
                name = type(error).__name__
                if name == "Timeout":
                    world.kernel.call_later(limit, lambda: answer(None, silent))
                elif name == "KafkaFault":
                    answer(None, BrokerError(str(error)))
                else:
                    raise
                return
            if mishap == "unanswered":
                world.kernel.call_later(limit, lambda: answer(None, silent))
            elif mishap == "late":
                world.kernel.call_later(limit * 0.9 * rng.random(), lambda: answer(value, None))
            else:
                answer(value, None)

        world.kernel.call_later(0.001 + 0.01 * rng.random(), perform)
        return await future

    async def log_dirs(self) -> tuple[LogDir, ...]:
        told = await self._ask("describe_log_dirs")
        return tuple(
            LogDir(
                each["path"],
                each["error"],
                dict(each["replicas"]),
                {key: Copy(size, lag) for key, (size, lag) in each["futures"].items()},
                each["total"],
                each["usable"],
            )
            for each in told
        )

    async def leaders(self, topics: Sequence[str]) -> tuple[str, dict[tuple[str, int], int]]:
        raise BrokerError("nobody asks in a simulation")

    async def move(self, moves: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
        if not moves:
            return {}
        dirs: dict[str, list[tuple[str, int]]] = {}
        for replica, path in moves.items():
            dirs.setdefault(path, []).append(replica)
        told = await self._ask("alter_replica_log_dirs", dirs=dirs)
        return {replica: f"error {code}" for replica, code in told.items() if code}

    async def throttle(self, dirs: Sequence[LogDir]) -> str | None:
        keys = [LOG_DIRS_RATE, CORDONED]
        told = await self._ask("describe_configs", kind="broker", name=str(self._broker), keys=keys)
        own = {
            name: str(value)
            for entry in told.values()
            for name, value, source in entry["synonyms"]
            if source == 2
        }
        hidden(own.get(CORDONED), dirs)
        return own.get(LOG_DIRS_RATE)


class SimBrokerConnection:
    """Address of a broker."""

    def __init__(self, access: Any, timeout: float) -> None:
        self.access = access


class SimSampler:
    """No samples in a simulation."""

    def __init__(self, *_: Any) -> None:
        return

    def wants(self, spec: Any) -> None:
        return

    async def step(self, *_: Any) -> None:
        return

    async def run(self, *_: Any) -> None:
        await asyncio.get_running_loop().create_future()


class SimKey(AgentKey):
    """Certificates as in `tests.sim.standin`."""

    def fits(self, certificate: str) -> bool:
        return sha256(self.request).hexdigest() in certificate


class SimPool:
    """Workers that probe disks and write to them."""

    def __init__(self, agent: "Agent", process: Process) -> None:
        self._agent, self._process = agent, process
        self._watches: dict[Any, Any] = {}
        self._seen: dict[Any, Any] = {}
        self._writing: dict[Any, float] = {}
        self._told: dict[Any, tuple[float, int]] = {}
        self._late: dict[Any, float] = {}

    def set(self, watches: Mapping[Any, Any]) -> None:
        for key in watches.keys() - self._watches.keys():
            self._later(key, 0.1)
        for key in [k for k in self._watches if k not in watches]:
            self._seen.pop(key, None)
            self._writing.pop(key, None)
        self._watches = dict(watches)

    def again(self, key: Any) -> None:
        self._agent.world.kernel.call_later(0.05, lambda: self._beat(key, once=True))

    def remember(self, key: Any, message: Any) -> None:
        return

    def replace_stuck(self, now: float) -> None:
        return

    def close(self) -> None:
        return

    def _later(self, key: Any, delay: float) -> None:
        self._agent.world.kernel.call_later(delay, lambda: self._beat(key))

    def _beat(self, key: Any, *, once: bool = False) -> None:
        if not self._process.alive or key not in self._watches:
            return
        agent, kernel = self._agent, self._agent.world.kernel
        watch = self._watches[key]
        starved = max(0.0, agent.node.starved - kernel.now)
        if not once:
            pause = max(0.5, getattr(watch, "interval", _BEAT))
            late = 10.0 * kernel.rng.random() if starved else 0.0
            self._late[key], passed = late, self._late.get(key, 0.0)
            self._later(key, pause + late)
        else:
            passed = 0.0
        if self._process.paused_until > kernel.now:
            return
        slot = agent.node.slots.get(watch.path)
        fs = slot.fs if slot is not None else None
        if fs is not None and not starved and self._is_quiet(key, fs):
            return
        with self._process.current():
            self._report(key, watch, fs, starved > 0, passed)

    def _is_quiet(self, key: Any, fs: FileSystem) -> bool:
        """Compute the rounds of a disk that has been healthy for long, and in which nothing changes, in a cheaper way: most rounds are like that."""
        disk, now = self._agent.real.disks.get(key), Clock.monotonic()
        if (
            disk is None
            or fs.state != "well"
            or key in self._writing
            or disk.judged is None
            or disk.glanced is None
        ):
            return False
        full, used = self._told.get(key, (0.0, -1))
        calm = disk.judged.verdict is DiskVerdict.HEALTHY and now - disk.judged.since > 60.0
        same = (
            key in self._seen and self._seen[key][0] == _mark(fs) and abs(used - fs.used) < fs.capacity // 100
        )
        if not (calm and same and now - full < 15.0) or disk.kafka_error:
            return False
        disk.glanced = _with(disk.glanced, at=now)
        if disk.probed is not None:
            disk.probed = _with(disk.probed, at=now)
        disk._watch = _with(disk._watch, round_at=now)
        return True

    def _report(self, key: Any, watch: Any, fs: FileSystem | None, starved: bool, late: float) -> None:
        """The result of a disk worker's probe whose timer was late by this many seconds."""
        node, now = self._agent.real, Clock.monotonic()
        kernel = self._agent.world.kernel
        if fs is None:
            self._look(key, None, now)
            node.take(key, QuickChecked(at=now, mounted=False, late=late))
            return
        if fs.state == "dead":
            self._look(key, fs, now)
            node.take(key, QuickChecked(at=now, mounted=True, errno=errno.EIO, late=late))
            return
        if fs.state != "hung":
            self._look(key, fs, now)
        node.take(
            key,
            QuickChecked(
                at=now,
                mounted=True,
                readonly=fs.state == "readonly",
                total_bytes=fs.capacity,
                used_bytes=fs.used,
                late=late,
            ),
        )
        if key in self._writing:
            return
        ours = (fs.identity or {}).get("directoryId") == watch.directory_id or (fs.meta or {}).get(
            "directory.id"
        ) == watch.directory_id
        if not ours:
            node.take(key, Probed(at=now, seconds=0.0, skipped=True))
            return
        node.take(key, Began(at=now))
        if fs.state == "hung":
            self._writing[key] = now
            self._retry_hung(key, fs)
        elif fs.state == "slow" or starved:
            took = 1.0 + 10.0 * kernel.rng.random()
            self._writing[key] = now
            kernel.call_later(took, lambda: self._written(key, took))
        elif fs.state == "readonly":
            node.take(key, Probed(at=now, seconds=0.001, errno=errno.EROFS, doing="open"))
        elif fs.free <= 0:
            node.take(key, Probed(at=now, seconds=0.001, errno=errno.ENOSPC, doing="write"))
        else:
            node.take(key, Probed(at=now, seconds=0.002))

    def _written(self, key: Any, took: float) -> None:
        self._writing.pop(key, None)
        if self._process.alive and key in self._watches:
            with self._process.current():
                self._agent.real.take(key, Probed(at=Clock.monotonic(), seconds=took))

    def _retry_hung(self, key: Any, fs: FileSystem) -> None:
        """A hung write ends when the disk answers again, or fails when the disk dies."""
        kernel = self._agent.world.kernel
        if not self._process.alive or key not in self._watches:
            return
        if fs.state == "hung" and self._held(key) is fs:
            kernel.call_later(1.0, lambda: self._retry_hung(key, fs))
            return
        began = self._writing.pop(key, None)
        if began is not None:
            with self._process.current():
                error = errno.EIO if fs.state == "dead" else 0
                self._agent.real.take(
                    key,
                    Probed(
                        at=Clock.monotonic(),
                        seconds=Clock.monotonic() - began,
                        errno=error,
                        doing="write" if error else "",
                    ),
                )

    def _held(self, key: Any) -> FileSystem | None:
        slot = self._agent.node.slots.get(self._watches[key].path)
        return slot.fs if slot is not None else None

    def _look(self, key: Any, fs: FileSystem | None, now: float) -> None:
        """A complete round, where it may show something new."""
        mark = None if fs is None else _mark(fs)
        if fs is not None:
            self._told[key] = now, fs.used
        before = self._seen.get(key)
        if before is not None and before[0] == mark and now - before[1] < 60.0:
            return
        self._seen[key] = (mark, now)
        self._agent.real.take(key, Inspected(at=now, found=podfiles.found(fs)))


def _with(made: Any, **fields: Any) -> Any:
    """Like `dataclasses.replace`, but several times as fast; for rounds without changes."""
    copy = object.__new__(type(made))
    copy.__dict__.update(made.__dict__, **fields)
    return copy


def _mark(fs: FileSystem) -> tuple[Any, ...]:
    """What must not change for the result of the last complete round to stay valid."""
    return (
        fs.uuid,
        fs.state,
        repr(fs.identity),
        repr(fs.meta),
        bool(fs.logs),
        fs.disk,
        "somebody" in fs.files,
    )


class Agent:
    """The agent of one node."""

    def __init__(self, world: Any, node: Any) -> None:
        self.world, self.node = world, node
        self.name = f"agent {node.name}"
        self.principal = names.agent_principal(node.name)
        self.starts = 0
        self.process: Process | None = None
        self.real: Any = None

    def start(self) -> None:
        """A new process, unless one runs."""
        if not self.node.up or self.process is not None:
            return
        process = Process(self.world.kernel, self.name, lambda: self.node.skew)
        process.agent = self
        process.on_error = self._unhandled
        self.process = process
        with process.current():
            tasks = Tasks(lambda: self.world.kernel.call_later(0, lambda: self.kill(again_in=5.0)) and None)
            kube = SimKube(self.world, process, self.node.name)
            publisher = Publisher(kube, tasks)
            options = _options(self.node.name)
            self.starts += 1
            key = SimKey(b"", json.dumps({"cn": self.principal, "n": self.starts}).encode(), b"")
            credentials = Credentials(kube, SYSTEM, self.node.name, key)
            real = nodes.Node(options, publisher, credentials, DiskSettings(kube), tasks)
            self.real = real
            real.pool = SimPool(self, process)  # type: ignore[assignment]
            brokers = Brokers(kube, (), self.node.name, lambda: real.sees(brokers.mine))
            for name, part in (
                ("watch", brokers.run()),
                ("clock", real.run()),
                ("disk settings", real.follow_disk_settings()),
                ("lease", Heartbeat(kube, SYSTEM, self.node.name, key.request).run()),
            ):
                tasks.start(part, name)

    def kill(self, *, again_in: float | None = 5.0) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.world.graves.append((self.process, self.real))
            self.process = None
        if again_in is not None:
            self.world.kernel.call_later(again_in, lambda: self.start() if self.process is None else None)

    def _unhandled(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self.world.bug(self.name, error)


def _options(node: str) -> Options:
    fields: dict[str, Any] = {
        "node": node, "namespaces": (), "own_namespace": SYSTEM, "roots": (_ROOT,), "prefix": "", "api_server": "", "token_file": Path("/"),
        "ca_file": Path("/"), "port": 0, "json_logs": False, "broker_port": names.PORT_REPLICATION, "broker_host": "",
    }  # fmt: skip
    return Options(**fields)


_CONTENT = disks.Disk._content


def _content_once(self: Any) -> tuple[str, str]:
    """The content of a disk, computed once per change: it is needed in every round."""
    mark = (self._found, self.slot, self._mounted)
    known = self.__dict__.get("_sim_content")
    if known is None or any(a is not b for a, b in zip(known[0], mark, strict=True)):
        known = self.__dict__["_sim_content"] = (mark, _CONTENT(self))
    return known[1]  # type: ignore[no-any-return]


def _pressure() -> NodePressure:
    """Pressure figures of the kernel below the calling agent; other machines report none."""
    running: Any = asyncio.get_running_loop()
    node = running.agent.node
    if not node.starved or int(node.name[-1], 36) % 2:
        return NO_PRESSURE
    return NodePressure(cpu=95.0)


def patches() -> list[tuple[Any, str, Any]]:
    """The parts of the agent's edge that are replaced."""
    return [
        (session, "KafkaClient", SimKafkaClient),
        (session, "BrokerConnection", SimBrokerConnection),
        (nodes, "Sampler", SimSampler),
        (nodes, "TICK", 2.0),
        (disks.Disk, "_content", _content_once),
        (diskstats, "read", dict),
        (timer_lag, "read_pressure", _pressure),
    ]
