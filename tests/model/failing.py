"""The model cluster with disks that fail, and Kafka and the agents as they behave then."""

import copy
import json
from dataclasses import dataclass, field, replace
from typing import Any

from spindle.api import names
from spindle.model.actions import (
    Action,
    AddPartitions,
    ConfigureTopic,
    CreateTopic,
    Delete,
    DeleteTopic,
    ElectPreferred,
    ElectUnclean,
    Evict,
    PlaceReplicas,
    Reassign,
    SetConfigs,
    TrimPartitions,
    UnregisterBroker,
)
from spindle.model.agents import Agent
from spindle.model.dir_list import newest, parse_list
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.times import seconds, stamp
from spindle.model.view import KafkaView, Quorum, Voter
from spindle.topics.wanted import keys_to_read
from tests.model.kafka import CAPACITY, Kafka, Process, Volume, path_of
from tests.model.nodes import answers, ended, nonce
from tests.model.store import merge
from tests.model.world import World, kafka_state

_UNREADABLE = ("dead", "missing")
_SPEAKS_AFTER = 10.0  # seconds until a Kafka that was started answers its agent


@dataclass
class Failing(World):
    """A world with volumes that have a state of their own, agents that look at them, and a Kafka that minds.

    Attributes:
        silent: nodes whose agent does not report (its Lease is not renewed either).
        lingering: pods (by uid) whose process cannot be killed yet, because a disk does not answer.
        forecasts: (broker, disk) → seconds until the agent expects the disk to be cordoned.
        corrupt: (broker, disk) → replicas on it in which its agent found something, and when.
        ahead: node → seconds by which its clock is ahead; its agent and its kubelet write times by it.
        unread: brokers whose agent has not come to check what it was asked about.
    """

    kafkas: Kafka = field(default_factory=Kafka)
    registered: set[int] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    forecasts: dict[tuple[int, str], float] = field(default_factory=dict)
    corrupt: dict[tuple[int, str], list[tuple[tuple[str, int], float]]] = field(default_factory=dict)
    unread: set[int] = field(default_factory=set)
    renewed: dict[str, float] = field(default_factory=dict)
    ahead: dict[str, float] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    _fs: int = 0

    # -- disks ---------------------------------------------------------------------------------------------------------

    def volume_of(self, broker: int, disk: str) -> str:
        claim = self.get("PersistentVolumeClaim", names.claim_name("demo", broker, disk))
        return str(claim["spec"]["volumeName"])

    def disk(self, broker: int, disk: str) -> Volume:
        return self.disk_on(self.volume_of(broker, disk))

    def disk_on(self, volume: str) -> Volume:
        if volume not in self.kafkas.volumes:
            self._fs += 1
            self.kafkas.volumes[volume] = Volume(volume, _fs_uuid(self._fs))
        return self.kafkas.volumes[volume]

    def swap(self, broker: int, disk: str, other: Volume | None = None) -> Volume:
        """Pull a disk and put another one in; what was on it is in nobody's reach any more."""
        name = self.volume_of(broker, disk)
        old = self.kafkas.volumes.pop(name, None)
        self._fs += 1
        self.kafkas.volumes[name] = other or Volume(name, _fs_uuid(self._fs))
        for process in self.kafkas.running.values():
            for path, volume in process.dirs.items():
                if volume is old and old is not None:
                    process.dirs[path] = copy.copy(old)
                    process.dirs[path].state = "dead"  # type: ignore[union-attr]
        assert old is not None
        return old

    def swap_under(self, broker: int, disk: str) -> Volume:
        """Mount a blank disk where another one was, while Kafka holds the old file system open and goes on with it."""
        name = self.volume_of(broker, disk)
        old = self.kafkas.volumes.pop(name)
        self._fs += 1
        self.kafkas.volumes[f"{name}-unmounted-{self._fs}"] = old
        self.kafkas.volumes[name] = Volume(name, _fs_uuid(self._fs))
        return old

    # -- observing -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> ClusterSnapshot:
        # What is planned on is not changed by planning, and changed by nobody else before the plan is there.
        seen = {
            node: Agent(age=self.now - at, unchanged=self.now - at, ahead=self.ahead.get(node, 0.0))
            for node, at in self.renewed.items()
        }
        return replace(self._snapshot(), agents=seen)

    def kafka(self) -> KafkaView:
        controllers = self.running("controller")
        identity = self.objects.get(("ConfigMap", "demo-identity"))
        voters = json.loads(identity["data"]["voters"]) if identity else []
        if not self.kafkas.running or 2 * len(controllers) <= len(voters) or not self.kafka_up:
            return KafkaView(error="no broker runs yet")
        quorum = Quorum(
            leader=controllers[0],
            voters=tuple(Voter(v["id"], v["directoryId"], v["id"] in controllers) for v in voters),
        )
        view = self.kafkas.view(self.registered, quorum, identity["data"]["clusterId"] if identity else None)
        read = keys_to_read([t for t in self.all("KafkaTopic") if t["spec"].get("cluster") == "demo"])
        return replace(view, managed=self.kafkas.managed(read))

    # -- acting ----------------------------------------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        match action:
            case PlaceReplicas():
                self.writes += 1
                self.kafkas.place(action.broker, action.placements)
            case Reassign():
                self.writes += 1
                for topic, index, replicas in action.assignments:
                    self.kafkas.reassign(topic, index, replicas)
            case SetConfigs():
                self.writes += 1
                self.kafkas.configure(action.target, action.name, dict(action.values))
            case CreateTopic() | AddPartitions() | ConfigureTopic() | DeleteTopic():
                self.writes += 1
                self._of_topic(action)
            case TrimPartitions():
                self.writes += 1
                self.kafkas.trim(action.partitions)
            case UnregisterBroker():
                self.writes += 1
                self.registered.discard(action.broker)
            case ElectUnclean():
                self.writes += 1
                self.kafkas.elect_unclean(action.partitions)
            case ElectPreferred():
                self.writes += 1
                self.kafkas.elect_preferred(action.partitions)
            case Evict():
                uid = self._guarded("Pod", action.pod, action.uid, action.resource_version)["metadata"]["uid"]
                super().act(action)
                self._end(uid, clean=True)
            case Delete(kind="Pod"):
                super().act(action)
                self.get("Pod", action.name)["metadata"]["graceSeconds"] = action.grace_seconds
            case _:
                super().act(action)

    def _of_topic(self, action: CreateTopic | AddPartitions | ConfigureTopic | DeleteTopic) -> None:
        """What Kafka rejects ends nothing."""
        if isinstance(action, CreateTopic) and action.record is not None:
            noted = self.get("KafkaTopic", action.record.name)
            if merge(noted, action.record.body) != noted:  # else the API server changes nothing
                super().act(action.record)
        dirs = action.dirs if isinstance(action, (CreateTopic, AddPartitions)) else ()
        for broker, index, path in dirs:
            self.kafkas.place(broker, ((action.topic, index, path),))
        self.rejected.pop((type(action).__name__, action.topic), None)
        try:
            match action:
                case CreateTopic():
                    self.kafkas.make_topic(action.topic, action.assignments, dict(action.configs))
                case AddPartitions():
                    self.kafkas.add_partitions(action.topic, action.first, action.assignments)
                case ConfigureTopic():
                    self.kafkas.configure_topic(action.topic, dict(action.values))
                case DeleteTopic():
                    self.kafkas.delete_topic(action.id)
        except RuntimeError as error:
            self.rejected[type(action).__name__, action.topic] = str(error)

    def _collect(self, kind: str, name: str) -> None:
        if kind == "Pod":
            return  # a pod goes when its process is gone
        super()._collect(kind, name)

    def _end(self, uid: str, *, clean: bool) -> None:
        process = self.processes.pop(uid, None)
        if process is not None:
            self.kafkas.stop(process.broker)
            self.clean[process.broker] = clean and not process.offline

    clean: dict[int, bool] = field(default_factory=dict)

    # -- what happens by itself --------------------------------------------------------------------------------------------

    def breathe(self) -> None:
        for pod in self.all("Pod"):
            if pod["metadata"].get("deletionTimestamp") and not self._stuck(pod):
                self._end(pod["metadata"]["uid"], clean=pod["metadata"].get("graceSeconds") is None)
                del self.objects["Pod", pod["metadata"]["name"]]
        self._exits()
        self._breathe()
        self.kafkas.step()
        self._run_agents()

    def _breathe(self) -> None:
        self.now += 5
        self._volumes()
        for pod in self.all("Pod"):
            if pod["metadata"].get("deletionTimestamp"):
                continue
            if not pod["spec"].get("nodeName"):
                self._schedule(pod)
            else:
                self._start(pod)

    def _stuck(self, pod: dict[str, Any]) -> bool:
        """Whether its process hangs in the kernel: it is dead to the network, but its pod does not go."""
        process = self.processes.get(pod["metadata"]["uid"])
        if process is None:
            return False
        hung = any(v is not None and v.state == "hung" for v in process.dirs.values())
        if hung:
            self.kafkas.stop(process.broker)
            self.clean[process.broker] = False
        return hung

    def _exits(self) -> None:
        """Kafka ends when its last dir is gone."""
        for uid, process in list(self.processes.items()):
            if process.broker in self.kafkas.running and not process.live():
                self.crash(process.broker, uid)

    def crash(self, broker: int, uid: str | None = None) -> None:
        """Kafka's process ends by itself; its container is started again if its volumes can be read."""
        pod = self.get("Pod", names.pod_name("demo", broker))
        uid = uid or pod["metadata"]["uid"]
        self._end(uid, clean=False)
        for entry in pod["status"]["containerStatuses"]:
            entry["state"] = {"waiting": {"reason": "CrashLoopBackOff"}}
            entry["ready"] = False
            entry["restartCount"] = entry.get("restartCount", 0) + 1
        self.put(pod)

    def _start(self, pod: dict[str, Any]) -> None:
        status = pod["status"]
        init = {e["name"] for e in status["initContainerStatuses"] if e["state"].get("terminated")}
        role = pod["metadata"]["labels"].get(names.LABEL_ROLE)
        if role != names.ROLE_BROKER:
            super()._start(pod)
            return
        if kafka_state(pod).get("running"):
            return
        unreadable = [v for _, v in self._disks(pod) if self.disk_on(v).state in ("dead", "hung")]
        where = "inspect" if "inspect" not in init else "preflight" if "preflight" not in init else "kafka"
        if unreadable:
            self._cannot_create(pod, where, unreadable[0])
        elif where == "inspect":
            status["initContainerStatuses"] = [ended("inspect", self._report(pod))]
        elif where == "preflight":
            if not self._preflight(pod):
                # A new look at what is there, as the kubelet would have with a new pod only.
                return
            done = [e for e in status["initContainerStatuses"] if e["name"] == "inspect"]
            status["initContainerStatuses"] = [*done, ended("preflight", {})]
        elif any(self._wrong(disk, volume) for disk, volume in self._disks(pod)):
            self._cannot_start(pod)
        else:
            self._run(pod)
        self.put(pod)

    def _wrong(self, disk: dict[str, Any], volume: str) -> bool:
        """What Kafka's start script asks of each disk."""
        there = self.disk_on(volume)
        return there.state == "missing" or there.id != disk["directoryId"]

    def _cannot_start(self, pod: dict[str, Any]) -> None:
        waiting = {"reason": "CrashLoopBackOff", "message": "the start script refuses"}
        pod["status"]["containerStatuses"] = [
            {"name": "kafka", "state": {"waiting": waiting}, "ready": False, "restartCount": 1}
        ]

    def _cannot_create(self, pod: dict[str, Any], container: str, volume: str) -> None:
        path = self.get("PersistentVolume", volume)["spec"]["local"]["path"]
        waiting = {"reason": "CreateContainerError", "message": f"stat {path}: input/output error"}
        entry = {"name": container, "state": {"waiting": waiting}, "ready": False, "restartCount": 0}
        if container == "kafka":
            pod["status"]["containerStatuses"] = [entry]
        else:
            rest = [e for e in pod["status"]["initContainerStatuses"] if e["name"] != container]
            pod["status"]["initContainerStatuses"] = [*rest, entry]
        self.put(pod)

    def _run(self, pod: dict[str, Any]) -> None:
        broker = int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
        volumes = {disk["name"]: self.disk_on(volume) for disk, volume in self._disks(pod)}
        named = json.loads(pod["metadata"]["annotations"][names.ANN_DISKS])
        process = Process(
            broker,
            {path_of(d["name"]): volumes.get(d["name"]) for d in named},
        )
        self._strays(process)
        given = parse_list(pod["metadata"]["annotations"].get(names.ANN_LOG_DIRS))
        for volume in volumes.values():
            if given.generation >= parse_list(volume.log_dirs).generation and given:
                volume.log_dirs = given.text()
        self.processes[pod["metadata"]["uid"]] = process
        self.registered.add(broker)
        self.kafkas.racks[broker] = self.get("KafkaBroker", names.broker_name("demo", broker))["spec"].get(
            "rack"
        )
        self.kafkas.start(process, clean=self.clean.get(broker, True))
        running = {
            "name": "kafka",
            "state": {"running": {"startedAt": self._stamp(broker)}},
            "ready": True,
            "restartCount": 0,
        }
        pod["status"]["containerStatuses"] = [running]
        pod["status"]["phase"] = "Running"

    def _strays(self, process: Process) -> None:
        """Preflight and Kafka put aside what does not belong on a dir: a second log, or one whose replica has left."""
        seen: dict[tuple[str, int], Volume] = {}
        for volume in process.dirs.values():
            for key in list(volume.logs) if volume is not None else ():
                assert volume is not None
                state = self.kafkas.partitions.get(key)
                if state is None or process.broker not in state.replicas:
                    del volume.logs[key]
                elif key in seen:
                    at = state.dirs.get(process.broker)
                    loser = volume if seen[key].id == at else seen[key]
                    del loser.logs[key]
                    seen[key] = seen[key] if loser is volume else volume
                else:
                    seen[key] = volume

    def _report(self, pod: dict[str, Any]) -> dict[str, Any]:
        """What inspect says: the disks, and the newest list of log dirs on those of this broker if the pod's own is older."""
        given = parse_list(pod["metadata"]["annotations"].get(names.ANN_LOG_DIRS))
        found = newest(parse_list(self.disk_on(name).log_dirs) for _, name in self._disks(pod))
        newer = {"logDirs": found.document()} if found.generation > given.generation else {}
        return {"disks": self._inspect(pod), "nonce": nonce(pod), **newer}

    def _inspect(self, pod: dict[str, Any]) -> list[dict[str, Any]]:
        if pod["metadata"]["labels"][names.LABEL_ROLE] != names.ROLE_BROKER:
            return super()._inspect(pod)
        report = []
        for disk, name in self._disks(pod):
            volume = self.disk_on(name)
            entry = {
                "name": disk["name"],
                "state": _content(volume, disk["directoryId"], disk.get("fsUuid")),
                "fsUuid": volume.fs,
                "mount": f"/dev/{name}",
                "replicas": len(volume.logs),
            }
            if volume.state == "missing":
                entry |= {"state": "not-mounted", "problem": "not mounted"}
            elif volume.state == "readonly":
                entry |= {"state": "readonly", "problem": "read-only"}
            report.append(entry)
        return report

    def _preflight(self, pod: dict[str, Any]) -> bool:
        if pod["metadata"]["labels"][names.LABEL_ROLE] != names.ROLE_BROKER:
            return super()._preflight(pod)
        clearances = answers(pod)
        ready = True
        leaving = pod["metadata"]["annotations"].get(names.ANN_LEAVING, "").split(",")
        for disk, name in self._disks(pod):
            volume = self.disk_on(name)
            if disk["name"] in leaving and not (volume.state == "well" and volume.logs):
                ready = False
                continue
            content = _content(volume, disk["directoryId"], disk.get("fsUuid"))
            if volume.state == "missing" or content == "foreign":
                ready = False
            elif content == "blank" and volume.state == "well":
                good = [
                    c
                    for c in clearances
                    if c["directoryId"] == disk["directoryId"] and c["fsUuid"] == volume.fs
                ]
                if good:
                    volume.id = disk["directoryId"]
                    self.formats.append((name, disk["directoryId"]))
                else:
                    ready = False
        return ready

    # -- the agents ----------------------------------------------------------------------------------------------------------

    def _run_agents(self) -> None:
        for broker in self.all("KafkaBroker"):
            node = broker["spec"].get("node")
            if not node or node in self.silent:
                continue
            self.renewed[node] = self.now
            before = {d["name"]: d for d in _observed(broker).get("disks") or ()}
            disks = [
                entry
                for disk in broker["spec"]["disks"]
                if (entry := self._observe(broker["spec"]["id"], disk, before.get(disk["name"]) or {}))
            ]
            self._move_within(broker)
            broker.setdefault("status", {})["observed"] = {"node": node, "disks": disks, "moves": []}
            self.put(broker)

    def _observe(self, broker: int, disk: dict[str, Any], before: dict[str, Any]) -> dict[str, Any] | None:
        claim = self.objects.get(("PersistentVolumeClaim", disk["claim"]))
        name = (claim or {}).get("spec", {}).get("volumeName")
        if not name:
            return None
        volume = self.disk_on(name)
        content = _content(volume, disk["directoryId"], disk.get("fsUuid"))
        verdict, reason = _verdict(volume, disk, content)
        if verdict == "Healthy" and disk["mode"] == "Active" and self._offline(broker, disk["name"], before):
            verdict, reason = "Failed", "LogDirOffline"
        entry: dict[str, Any] = {
            "name": disk["name"],
            "verdict": verdict,
            "reason": reason,
            "content": "unknown" if volume.state in ("dead", "hung", "missing") else content,
            "fsUuid": volume.fs,
            "stalled": volume.state == "hung" or reason == "NotAnswering",
            **_pending(volume.state == "hung" or reason == "NotAnswering", before, self.now),
            "capacityBytes": CAPACITY,
            "since": before.get("since") if before.get("verdict") == verdict else self._stamp(broker),
        }
        ahead = self.forecasts.get((broker, disk["name"]))
        if ahead is not None:
            at = stamp(self.now + ahead)
            entry["forecast"] = {"bytesPerSecond": 1, "cordonAt": {"at": at, "low": at}}
        entry["corrupt"] = self._corrupt_on(broker, disk["name"], volume)
        entry["scrub"] = self._sound_on(broker, disk["name"], volume)
        return {key: value for key, value in entry.items() if value}

    def _stamp(self, broker: int) -> str:
        """The time by the clock of a broker's node."""
        return stamp(self.now + self._ahead(broker))

    def _ahead(self, broker: int) -> float:
        found = self.objects.get(("KafkaBroker", names.broker_name("demo", broker))) or {}
        return self.ahead.get(str((found.get("spec") or {}).get("node")), 0.0)

    def _corrupt_on(self, broker: int, disk: str, volume: Volume) -> list[dict[str, Any]]:
        """What is corrupt goes with the log that it is in: one that is made anew is well."""
        told = self.corrupt.get((broker, disk), ())
        kept = [(key, since) for key, since in told if key in volume.logs and key not in volume.going]
        self.corrupt[broker, disk] = kept
        return [
            {
                "topic": key[0],
                "partition": key[1],
                "segment": 77,
                "kind": "Crc",
                "file": "log",
                "position": 61,
                "since": stamp(since),
            }
            for key, since in kept
        ]

    def _sound_on(self, broker: int, disk: str, volume: Volume) -> dict[str, Any]:
        """Of the replicas that it was asked about, those on this disk in which there is nothing."""
        spec = self.get("KafkaBroker", names.broker_name("demo", broker))["spec"]
        asked = (spec.get("scrub") or {}).get("first") or ()
        bad = {key for key, _ in self.corrupt.get((broker, disk), ())}
        there = volume.logs.keys() - volume.going - bad if broker not in self.unread else set()
        sound = [entry for entry in asked if (entry["topic"], entry["partition"]) in there]
        return {"sound": sound} if sound else {}

    def _offline(self, broker: int, disk: str, before: dict[str, Any]) -> bool:
        """What the agent last heard of Kafka; one that has only just been started has not answered it yet."""
        process = self.kafkas.running.get(broker)
        pod = self.objects.get(("Pod", names.broker_name("demo", broker)))
        started = (kafka_state(pod).get("running") or {}).get("startedAt") if pod else None
        if (
            process is None
            or started is None
            or self.now + self._ahead(broker) - (seconds(started) or 0.0) < _SPEAKS_AFTER
        ):
            return before.get("reason") == "LogDirOffline"
        return path_of(disk) in process.offline

    def _move_within(self, broker: dict[str, Any]) -> None:
        for move in broker["spec"].get("moves") or ():
            self.kafkas.move_within(broker["spec"]["id"], (move["topic"], move["partition"]), move["toDir"])


def _content(volume: Volume, directory_id: str, fs_uuid: str | None) -> str:
    if volume.id is None:
        return "blank"
    copied = fs_uuid is not None and fs_uuid != volume.fs
    return "ours" if volume.cluster and volume.id == directory_id and not copied else "foreign"


def _pending(stalled: bool, before: dict[str, Any], now: float) -> dict[str, int]:
    """The write that is pending: the same one as before for as long as the disk is stalled."""
    if not stalled:
        return {}
    write = int(before.get("pendingWrite") or now * 1000)
    return {"pendingWrite": write, "pendingSeconds": int(now - write / 1000)}


def _verdict(volume: Volume, disk: dict[str, Any], content: str) -> tuple[str, str]:
    found = {
        "dead": ("Failed", "ProbeError"),
        "hung": ("Failed", "IOHung"),
        "readonly": ("Failed", "ReadOnly"),
        "missing": ("Missing", "NotMounted"),
    }.get(volume.state)
    if found:
        return found
    if volume.state == "slow" and disk["mode"] == "Active":
        return "Slow", "SlowDevice"
    if volume.state.startswith("suspect "):
        return "Suspect", volume.state.split()[1]
    if (
        disk["mode"] != "Absent"
        and disk.get("fsUuid")
        and (content == "foreign" or disk["fsUuid"] != volume.fs)
    ):
        return "Swapped", "OtherFileSystem"
    return "Healthy", ""


def _observed(broker: dict[str, Any]) -> dict[str, Any]:
    return dict((broker.get("status") or {}).get("observed") or {})


def _fs_uuid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"
