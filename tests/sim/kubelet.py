"""Nodes and their kubelets: pods run, init containers execute preflight's own code, Kafka's container the checks of its start script."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spindle.api import names
from spindle.model.layout import METADATA_DISK, Layout
from spindle_agent.preflight import handover, look
from tests.sim import podfiles
from tests.sim.api import Api, Json, condition
from tests.sim.controllers import Controllers, host_of
from tests.sim.disks import FileSystem, Slot
from tests.sim.kernel import Kernel
from tests.sim.podfiles import PodFiles

_LAYOUT = Layout()
_BACKOFF = (10.0, 300.0)


@dataclass
class SimNode:
    """One machine.

    Attributes:
        slots: path of a local volume → what is mounted there.
        skew: seconds by which its clock is ahead.
        gone: it never comes back.
        starved: until when the machine is so loaded that nothing on it runs in time.
    """

    name: str
    zone: str
    slots: dict[str, Slot] = field(default_factory=dict)
    skew: float = 0.0
    up: bool = True
    gone: bool = False
    starved: float = 0.0


@dataclass
class Run:
    """One pod on its node."""

    pod: Json
    node: SimNode
    stage: str = "mounting"
    files: PodFiles = field(default_factory=PodFiles)
    init: list[Json] = field(default_factory=list)
    container: Json | None = None
    restarts: int = 0
    not_before: float = 0.0
    projected_at: float = 0.0
    kafka: bool = False  # whether its process runs
    ready: bool = False
    unready_polls: int = 0
    killing: bool = False
    kill_at: float | None = None
    polled: float = 0.0
    told: Json = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])


@dataclass
class Kubelets:
    """All nodes' kubelets."""

    kernel: Kernel
    api: Api
    kafka: Any
    controllers: Controllers
    linked: Callable[[str, str], bool]
    nodes: dict[str, SimNode] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    slow_projection: bool = False
    on_start: Callable[[Any, int, Any], None] = lambda *_: None
    # Kafka is started: pod, node id, configuration, and what was formatted for it as a voter of the first hour.
    on_process: Callable[[Any, int, dict[str, str], tuple[str, FileSystem] | None], None] = lambda *_: None
    on_wipe: Callable[[FileSystem, Json], None] = lambda *_: None
    _disks: int = 0

    def __post_init__(self) -> None:
        self.api.watchers.append(self._changed)
        self.controllers.on_volume_made = self._make_volume
        self.controllers.on_volume_lost = self._volume_lost
        self.kafka.on_exit = self._exited
        self.kernel.call_later(1.0, self._beat)

    # -- machines

    def add_node(self, name: str, zone: str, disks: int, capacity: int) -> SimNode:
        """A node with so many free local disks."""
        node = self.nodes[name] = SimNode(name, zone)
        self.register(node)
        self.add_slots(node, disks, capacity)
        return node

    def add_slots(self, node: SimNode, count: int, capacity: int) -> None:
        """Disks more on a machine."""
        for _ in range(count):
            index = sum(path.startswith("/mnt/") for path in node.slots)
            path = f"/mnt/disks/disk{index}"
            node.slots[path] = Slot(node.name, path, self.new_disk(capacity))
            self.api.put(local_volume(f"{node.name}-disk{index}", node.name, path, capacity))

    def register(self, node: SimNode) -> None:
        """Make a machine's Node object, if there is none."""
        labels = {_HOSTNAME: node.name} | ({"topology.kubernetes.io/zone": node.zone} if node.zone else {})
        self.controllers.heard[node.name] = self.kernel.now
        if self.api.get("Node", node.name) is None:
            ready = {
                "conditions": [{"type": "Ready", "status": "True"}],
                "allocatable": {"cpu": "16", "memory": "64Gi"},
            }
            meta = {"name": node.name, "labels": labels}
            self.api.put({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": ready})

    def new_disk(self, capacity: int) -> FileSystem:
        """A new disk, formatted and empty."""
        self._disks += 1
        text = f"{self.kernel.rng.getrandbits(128):032x}"
        uuid = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return FileSystem(f"d{self._disks}", uuid, capacity)

    def power_off(self, node: SimNode) -> None:
        """Everything on it ends at once."""
        node.up = False
        for run in [r for r in self.runs.values() if r.node is node]:
            if run.kafka:
                run.kafka = False
                self.kafka.stop(run.uid, clean=False)
            del self.runs[run.uid]

    def power_on(self, node: SimNode) -> None:
        """It boots, and its kubelet recreates the sandboxes of its pods, including init containers."""
        node.up = True
        self.register(node)
        for pod in self.api.all("Pod"):
            if pod["spec"].get("nodeName") == node.name:
                self._see(pod)

    def _make_volume(self, claim: Json, node: str) -> Json:
        """A dynamic volume, on the node of the pod."""
        capacity = 20_000_000_000
        fs = self.new_disk(capacity)
        path = f"/var/dyn/{fs.disk}"
        self.nodes[node].slots[path] = Slot(node, path, fs)
        made = local_volume(f"pvc-{claim['metadata']['uid']}", node, path, capacity, storage_class="standard")
        return self.api.put(made)

    def _volume_lost(self, volume: Json) -> None:
        """A volume whose claim is gone and that must be deleted: the provisioner wipes it."""
        node, path = (
            self.nodes.get(host_of(volume) or ""),
            str((volume["spec"].get("local") or {}).get("path")),
        )
        slot = node.slots.get(path) if node is not None else None
        self.api.remove(volume)
        if slot is None or slot.fs is None:
            return
        self.kernel.say(
            "provisioner",
            f"wiped {slot.fs.disk} in {slot.node}{slot.path}",
            "its claim is gone, and its volume's policy is Delete",
        )
        self.on_wipe(slot.fs, volume)
        capacity, slot.fs.state = slot.fs.capacity, "dead"
        slot.fs = self.new_disk(capacity)
        if volume["spec"]["storageClassName"] == "local-disks":
            self._discover(local_volume(volume["metadata"]["name"], slot.node, slot.path, capacity))

    def _discover(self, volume: Json) -> None:
        """A local disk gets its PersistentVolume again when the old one is gone: while that is being deleted, its name is in use."""
        if self.api.away or self.api.get("PersistentVolume", volume["metadata"]["name"]) is not None:
            self.kernel.call_later(10.0, lambda: self._discover(volume))
        else:
            self.api.put(volume)

    def _beat(self) -> None:
        self.kernel.call_later(10.0, self._beat)
        now = self.kernel.now
        for node in self.nodes.values():
            if node.up and self.linked(node.name, "api") and not self.api.away:
                missed = now - self.controllers.heard.get(node.name, now) > 15.0
                self.controllers.heard[node.name] = now
                if missed:  # what others wrote about its pods meanwhile is put right
                    self.kernel.call_later(12.0, lambda node=node: self._tell_all(node))  # type: ignore[misc]

    def _tell_all(self, node: SimNode) -> None:
        for run in [r for r in self.runs.values() if r.node is node]:
            self._tell(run)

    # -- pods

    def _changed(self, event: str, kind: str, obj: Json) -> None:
        if kind != "Pod" or not obj["spec"].get("nodeName"):
            return
        known = self.runs.get(obj["metadata"]["uid"])
        if event != "DELETED" and known is not None and not obj["metadata"].get("deletionTimestamp"):
            before = condition(known.pod, names.READINESS_GATE), known.pod["metadata"].get("annotations")
            if (condition(obj, names.READINESS_GATE), obj["metadata"].get("annotations")) == before:
                known.pod = obj
                return
        delay = 0.1 + 0.4 * self.kernel.rng.random()
        self.kernel.call_later(delay, lambda: self._heard(obj["metadata"]["name"], obj["metadata"]["uid"]))

    def _heard(self, name: str, uid: str) -> None:
        """A kubelet hears of a pod: what the API server has now."""
        run, pod = self.runs.get(uid), self.api.get("Pod", name)
        node = (
            run.node if run is not None else self.nodes.get((pod or {}).get("spec", {}).get("nodeName", ""))
        )
        if node is None or not node.up:
            return
        if not self.linked(node.name, "api") or self.api.away:
            self.kernel.call_later(2.0, lambda: self._heard(name, uid))
            return
        if pod is None or pod["metadata"]["uid"] != uid:
            if run is not None and not run.killing:
                self._terminate(run, 30.0)
            return
        self._see(pod)

    def _see(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        run = self.runs.get(uid)
        if run is None:
            run = self.runs[uid] = Run(pod, self.nodes[pod["spec"]["nodeName"]])
            run.restarts = sum(c.get("restartCount", 0) for c in pod["status"].get("containerStatuses") or ())
            self._later(run, 0.2)
        if run.pod["metadata"].get("annotations") != pod["metadata"].get("annotations"):
            most = 60.0 if self.slow_projection else 2.0
            run.projected_at = self.kernel.now + most * self.kernel.rng.random()
            if run.stage == "preflight":
                self._later(run, run.projected_at - self.kernel.now + 0.01)
        run.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._terminate(run, float(pod["metadata"].get("deletionGracePeriodSeconds", 30)))
        else:
            self._tell(run)

    def _later(self, run: Run, delay: float) -> None:
        self.kernel.call_later(delay, lambda: self._step(run))

    def _step(self, run: Run) -> None:
        """What comes next for one pod."""
        if self.runs.get(run.uid) is not run or not run.node.up:
            return
        if run.node.starved > self.kernel.now and self.kernel.rng.random() < 0.8:
            self._later(run, 5.0)
            return
        if run.killing:
            self._killing(run)
        elif run.not_before > self.kernel.now:
            self._later(run, run.not_before - self.kernel.now)
        else:
            pause = getattr(self, f"_{run.stage}")(run)
            if pause is not None:
                self._later(run, pause * (0.8 + 0.4 * self.kernel.rng.random()))

    def _mounting(self, run: Run) -> float | None:
        mounts: dict[str, FileSystem | None] = {}
        role = (run.pod["metadata"].get("labels") or {}).get(names.LABEL_ROLE)
        if role and run.pod["spec"].get("initContainers"):
            for volume in run.pod["spec"]["volumes"]:
                config = volume.get("configMap", {})
                wanted = None if config.get("optional") else config.get("name")
                needs = volume.get("secret", {}).get("secretName"), wanted
                if (needs[0] and not self.api.get("Secret", needs[0])) or (
                    needs[1] and not self.api.get("ConfigMap", needs[1])
                ):
                    return 5.0
        for mount, claim in podfiles.mounts_of(run.pod).items():
            slot = self.slot_of(claim)
            if slot is None or slot.node != run.node.name:
                return 5.0
            mounts[mount] = slot.fs
        run.files.disks = mounts
        if not run.pod["spec"].get("initContainers"):
            run.stage = "asking"
            return 0.5
        if self._dead(run, "init"):
            return 10.0
        run.stage = "inspect"
        return 0.5

    def slot_of(self, claim: str) -> Slot | None:
        """The slot that a claim's volume is."""
        found = self.api.get("PersistentVolumeClaim", claim)
        volume = self.api.get("PersistentVolume", (found or {}).get("spec", {}).get("volumeName", ""))
        node = self.nodes.get(host_of(volume) or "") if volume is not None else None
        return (
            node.slots.get(volume["spec"]["local"]["path"])
            if node is not None and volume is not None
            else None
        )

    def _dead(self, run: Run, which: str) -> bool:
        """A container that mounts a dead disk cannot be created, because the runtime cannot stat the volume."""
        dead = [m for m, fs in run.files.disks.items() if fs is not None and fs.state == "dead"]
        if not dead:
            return False
        text = f"failed to stat {dead[0]!r}: input/output error"
        waiting = {"waiting": {"reason": "CreateContainerError", "message": text}}
        if which == "init":
            name = names.CONTAINER_INSPECT
            run.init = [
                *[e for e in run.init if e["name"] != name],
                {"name": name, "state": waiting, "restartCount": 0},
            ]
        else:
            run.container = {
                "name": names.CONTAINER_KAFKA,
                "state": waiting,
                "restartCount": run.restarts,
                "ready": False,
            }
        self._tell(run)
        return True

    def _asking(self, run: Run) -> float | None:
        """A pod whose only purpose is to have a volume provisioned."""
        self.api.change(run.pod, {"status": {"phase": "Succeeded"}})
        del self.runs[run.uid]
        return None

    def _project(self, run: Run) -> None:
        """Write the pod's annotations and configuration to its files."""
        files = run.files.files
        if self.kernel.now >= run.projected_at or not files:
            notes = run.pod["metadata"].get("annotations") or {}
            lines = [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in sorted(notes.items())]
            files[f"{names.PODINFO_DIR}/annotations"] = "\n".join(lines) + "\n"
        config = next(
            (v["configMap"]["name"] for v in run.pod["spec"]["volumes"] if v["name"] == "config"), ""
        )
        found = self.api.get("ConfigMap", config)
        for key, text in ((found or {}).get("data") or {}).items():
            files.setdefault(f"{names.CONFIG_DIR}/{key}", text)

    def _inspect(self, run: Run) -> float | None:
        self._project(run)
        podfiles.run(run.files, "inspect", run.uid, run.node.skew)
        run.init = [ended(names.CONTAINER_INSPECT, 0, run.files.message)]
        run.stage = "preflight"
        self._tell(run)
        hung = any(fs is not None and fs.state == "hung" for fs in run.files.disks.values())
        return 20.0 if hung else 0.5

    def _preflight(self, run: Run) -> float | None:
        self._project(run)
        if self._dead_later(run):
            return 10.0
        code = podfiles.run(run.files, "run", run.uid, run.node.skew)
        inspected = run.init[0]
        if code is None:
            going = {
                "name": names.CONTAINER_PREFLIGHT,
                "state": {"running": {"startedAt": self.api.stamp(run.node.skew)}},
            }
            if len(run.init) < 2 or "running" not in run.init[1]["state"]:
                run.init = [inspected, going]
                self._tell(run)
            return 5.0
        entry = ended(names.CONTAINER_PREFLIGHT, code, run.files.message)
        if code:
            run.restarts += 1
            crash = {
                "waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            }
            entry = {**entry, "state": crash, "lastState": entry["state"], "restartCount": run.restarts}
            run.not_before = self.kernel.now + _backoff(run.restarts)
        else:
            run.stage = "kafka_start"
            run.restarts = 0
        run.init = [inspected, entry]
        self._tell(run)
        return 1.0

    def _dead_later(self, run: Run) -> bool:
        return False  # preflight's container was made: whatever dies now it sees by itself

    def _kafka_start(self, run: Run) -> float | None:
        if self._dead(run, "kafka"):
            return 10.0
        problem = podfiles.checked_start(run.files)
        if not problem:
            try:
                self._start(run)
            except Exception as error:
                if type(error).__name__ != "StartError":
                    raise
                problem = str(error)
        if problem:
            self._crashed(run, problem)
            return 1.0
        run.kafka, run.stage = True, "running"
        run.ready, run.unready_polls = False, 0
        state = {"running": {"startedAt": self.api.stamp(run.node.skew)}}
        before = run.container or {}
        run.container = {
            "name": names.CONTAINER_KAFKA,
            "state": state,
            "restartCount": run.restarts,
            "ready": False,
            "started": True,
        }
        if before.get("lastState"):
            run.container["lastState"] = before["lastState"]
        self._tell(run)
        return 2.0

    def _start(self, run: Run) -> None:
        labels = run.pod["metadata"]["labels"]
        files = run.files.files
        props = properties(files[f"{names.HANDOVER_DIR}/server.properties"])
        entries = json.loads(files[f"{names.HANDOVER_DIR}/disks.list"])
        node_id = int(labels[names.LABEL_NODE_ID])
        if labels[names.LABEL_ROLE] == names.ROLE_CONTROLLER:
            fs = run.files.disks[_LAYOUT.mount(METADATA_DISK)]
            assert fs is not None
            arguments = files.get(f"{names.HANDOVER_DIR}/{handover.FORMAT_ARGS}")
            voters = None
            if arguments and look.PENDING_FILE in fs.files:
                voters = _voters(arguments)
                fs.meta = {
                    "cluster.id": arguments.split("--cluster-id\n")[1].split("\n")[0],
                    "node.id": str(node_id),
                    "directory.id": entries[0][3],
                }
                fs.identity = json.loads(fs.files.pop(look.PENDING_FILE))
                fs.files["metadata"] = "bootstrap"
            assert fs.meta is not None
            self.on_process(run, node_id, props, None if voters is None else (fs.meta["cluster.id"], fs))
            self.kafka.start_controller(
                run.uid, node_id, fs.meta["directory.id"], run.node.name, fs=fs, voters=voters, props=props
            )
            return
        dirs = {
            log: None if mode == "Placeholder" else run.files.disks.get(mount)
            for mode, mount, log, _ in entries
        }
        self.on_start(run, node_id, dirs)
        self.on_process(run, node_id, props, None)
        self.kafka.start_broker(run.uid, node_id, props.get("broker.rack"), dirs, props, run.node.name)

    def _crashed(self, run: Run, why: str) -> None:
        run.restarts += 1
        over = {
            "terminated": {
                "exitCode": 1,
                "reason": "Error",
                "message": why[:1000],
                "finishedAt": self.api.stamp(run.node.skew),
            }
        }
        crash = {
            "waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container kafka"}
        }
        run.container = {
            "name": names.CONTAINER_KAFKA, "state": crash, "lastState": over, "restartCount": run.restarts, "ready": False,
        }  # fmt: skip
        run.stage, run.kafka, run.ready = "kafka_start", False, False
        run.not_before = self.kernel.now + _backoff(run.restarts)
        self._tell(run)

    def _running(self, run: Run) -> float | None:
        well = self.kafka.ready(run.uid)
        run.unready_polls = 0 if well else run.unready_polls + 1
        if well != run.ready and (well or run.unready_polls >= 6):
            run.ready = well
            if run.container is not None:
                run.container = {**run.container, "ready": well}
            self._tell(run)
        elif run.told.get("unsent"):
            self._tell(run)
        return 5.0

    def _exited(self, uid: str, why: str) -> None:
        """Kafka's process has ended."""
        run = self.runs.get(uid)
        if run is None or not run.kafka:
            return
        run.kafka = False
        if run.killing:
            self._later(run, 0.2)
            return
        self.kernel.say(f"kubelet {run.node.name}", f"{run.name}: Kafka ended", why)
        self._crashed(run, why)
        self._later(run, 1.0)

    # -- ends

    def _terminate(self, run: Run, grace: float) -> None:
        at = self.kernel.now + grace
        if run.killing:
            if run.kill_at is None or at < run.kill_at:
                run.kill_at = at
                self._later(run, grace)
            return
        run.killing, run.kill_at = True, at
        if run.kafka:
            self.kafka.stop(run.uid, clean=True)
        self._later(run, 0.3)
        self._later(run, grace + 0.01)

    def _killing(self, run: Run) -> None:
        if run.kafka and run.kill_at is not None and self.kernel.now >= run.kill_at:
            hung = [fs for fs in run.files.disks.values() if fs is not None and fs.state == "hung"]
            self.kafka.stop(run.uid, clean=False)
            if hung:  # a thread of it waits for the disk inside the kernel: the process stays until the disk answers
                self._later(run, 5.0)
                return
            run.kafka = False
        if run.kafka:
            self._later(run, 5.0)
            return
        del self.runs[run.uid]
        self._forget(run)

    def _forget(self, run: Run) -> None:
        """The kubelet removes the object."""
        if not run.node.up:
            return
        if not self.linked(run.node.name, "api") or self.api.away:
            self.kernel.call_later(3.0, lambda: self._forget(run))
            return
        self.api.remove(run.pod, grace=0)

    # -- what is told

    def _tell(self, run: Run) -> None:
        if not self.linked(run.node.name, "api") or self.api.away:
            if not run.told.get("unsent"):
                run.told["unsent"] = True
                self.kernel.call_later(5.0, lambda: self._tell_again(run))
            return
        run.told = {}
        pod = self.api.get("Pod", run.name)
        if pod is None or pod["metadata"]["uid"] != run.uid:
            return
        gate = condition(pod, names.READINESS_GATE) == "True"
        gated = bool(pod["spec"].get("readinessGates"))
        ready = run.ready and run.kafka and (gate or not gated)
        conditions = [
            c
            for c in pod["status"].get("conditions") or ()
            if c["type"] not in ("Ready", "PodScheduled", "ContainersReady")
        ]
        for what, value in (
            ("PodScheduled", True),
            ("ContainersReady", run.ready and run.kafka),
            ("Ready", ready),
        ):
            state = "True" if value else "False"
            old = next((c for c in pod["status"].get("conditions") or () if c["type"] == what), None)
            since = (
                old["lastTransitionTime"]
                if old and old["status"] == state and "lastTransitionTime" in old
                else self.api.stamp(run.node.skew)
            )
            conditions.append({"type": what, "status": state, "lastTransitionTime": since})
        status: Json = {
            "phase": "Running" if run.container is not None else "Pending",
            "conditions": conditions,
            "initContainerStatuses": run.init,
            "containerStatuses": [run.container] if run.container is not None else [],
            "podIP": "10.0.0.1",
        }
        self.api.change(pod, {"status": status})

    def _tell_again(self, run: Run) -> None:
        if self.runs.get(run.uid) is run and run.told.get("unsent"):
            run.told = {}
            self._tell(run)


_HOSTNAME = "kubernetes.io/hostname"


def ended(name: str, code: int, message: str) -> Json:
    """The status of a terminated container."""
    return {"name": name, "state": {"terminated": {"exitCode": code, "message": message}}, "restartCount": 0}


def properties(text: str) -> dict[str, str]:
    """A properties file."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip() for key, value in pairs}


def local_volume(
    name: str, node: str, path: str, capacity: int, *, storage_class: str = "local-disks"
) -> Json:
    """A PersistentVolume of a local disk."""
    where = {"matchExpressions": [{"key": _HOSTNAME, "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "capacity": {"storage": str(capacity)},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Delete",
            "local": {"path": path},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [where]}},
        },
        "status": {"phase": "Available"},
    }


def _voters(arguments: str) -> list[tuple[int, str]]:
    text = arguments.split("--initial-controllers\n")[1].split("\n", maxsplit=1)[0]
    return [(int(entry.split("@")[0]), entry.rsplit(":", 1)[1]) for entry in text.split(",")]


def _backoff(restarts: int) -> float:
    return min(_BACKOFF[1], _BACKOFF[0] * 2.0 ** max(0, restarts - 1))
