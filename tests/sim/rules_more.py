"""Rules about space, deletion, access, bootstrap, lost nodes and other owners' objects: rules 4, 11, 12, 13, 14 and 16 of ``docs/safety.md``.

Judged from the disks, Kafka's processes and the requests to the API server, like `tests.sim.rules`. `spindle` is never asked what is safe.
"""

from typing import Any

from tests.sim.api import Json
from tests.sim.controllers import host_of
from tests.sim.disks import RECORD, FileSystem, Key
from tests.sim.kafka.state import Part, Process
from tests.sim.variety import SAMPLE

_OURS = frozenset({"spindle-operator", "spindle-agent"})
_NODE_ID = "spindle.dev/node-id"
_TAINT = "node.kubernetes.io/out-of-service"
_FULL = 90.0  # percent of a disk above which nothing may be moved in, by default
_OLD = 150.0  # seconds for which an observation of Kafka, and the resulting actions, may take
_SUPER = frozenset({"User:spindle-node", "User:spindle-operator"})
Place = tuple[int, str]  # broker and log dir


class MoreRules:
    """Observes single actions."""

    def __init__(self, judge: Any) -> None:
        self._judge, self._world = judge, judge.world
        self._used: dict[int, list[tuple[float, int]]] = {}  # usage of file systems: when, bytes
        self._clusters: set[str] = set()  # UIDs of KafkaClusters with spec.deleteClaims
        self._born: dict[
            str, dict[str, FileSystem]
        ] = {}  # cluster id → directory id → the file system that was formatted with it
        self._released: set[int] = (
            set()
        )  # brokers whose claims Spindle deleted since their record named a node
        self.strangers: dict[str, str] = {}  # UID of another owner's object → its name
        self.foreign: list[tuple[FileSystem, str]] = []  # disks of other clusters, and their contents
        world = self._world
        world.api.on_write = self._written
        world.kubelets.on_wipe = self._wiped
        world.kubelets.on_process = self._process
        world.kafka.on_copy = self._copied

    def look(self) -> None:
        """Called every half minute."""
        now = self._world.kernel.now
        for fs in {id(fs): fs for _, _, fs in self._dirs()}.values():
            held = self._used.setdefault(id(fs), [])
            held.append((now, fs.used))
            del held[: sum(at < now - _OLD for at, _ in held)]
        for fs, before in self.foreign:
            if contents(fs) != before:
                self._breaks(
                    16,
                    f"disk {fs.disk} of another cluster was written to: {contents(fs)} instead of {before}",
                )

    def _breaks(self, rule: int, what: str) -> None:
        self._judge.breaks(f"f{rule}", what)

    # -- 4: no overfull target

    def reassigned(self, part: Part, target: list[int]) -> None:
        """A replica is added to a broker: its log dir must have space for it."""
        for broker in target:
            process = self._world.kafka.process_of(broker)
            if broker not in part.replicas and process is not None:
                path = self._world.kafka._place(process, part)
                if path is not None:
                    self._has_room(process, path, part.key)

    def _copied(self, process: Process, path: str, key: Key) -> None:
        """A copy to another dir of its broker starts."""
        self._has_room(process, path, key)

    def _has_room(self, process: Process, path: str, key: Key) -> None:
        fs = process.dirs[path]
        if fs is None:
            return
        size = self._world.kafka.truth_size(key)
        used = min([fs.used, *(used for _, used in self._used.get(id(fs), ()))])
        full = used + size + self._under_way((process.broker, path), key)
        most = fs.capacity * self._limit(process.broker) / 100
        # Producers have written since Spindle's observation: no producer writes more than one record per partition and second.
        if full > most + RECORD * 2:
            text = f"{key[0][:20]}-{key[1]} ({size // RECORD} MB) is added to {path} of broker {process.broker}: {full // RECORD} of {fs.capacity // RECORD} MB including moves in progress, {most / RECORD:.0f} allowed"
            self._breaks(4, text)

    def _under_way(self, place: Place, but: Key) -> int:
        """Bytes that moves in progress will still add to a dir."""
        world, more = self._world, 0
        for part in world.kafka.parts.values():
            process = world.kafka.process_of(place[0])
            if process is None or part.key == but:
                continue
            size, held = world.kafka.truth_size(part.key), process.where(part.key, "future")
            if held is not None and held[0] == place[1]:
                more += max(0, size - held[1].logs[part.key, "future"].bytes)
            if place[0] in part.adding:
                log = process.where(part.key)
                if (log[0] if log is not None else process.preferred.get(part.key)) == place[1]:
                    more += max(0, size - (log[1].logs[part.key, ""].bytes if log is not None else 0))
        return more

    def _limit(self, broker: int) -> float:
        """Maximum usage of a broker's dirs in percent, from the spec."""
        live = self._world.cluster() or {"spec": self._world.asked}
        record = self._world.api.get("KafkaBroker", f"{SAMPLE}-broker-{broker}") or {"spec": {}}
        pools = {pool["name"]: pool for pool in live["spec"].get("brokerPools") or ()}
        own = (pools.get(record["spec"].get("pool"), {}).get("disks") or {}).get("thresholds")
        held = own or (live["spec"].get("disks") or {}).get("thresholds") or {}
        return float(held.get("rejectMoves", _FULL))

    def _dirs(self) -> list[tuple[int, str, FileSystem]]:
        return [
            (process.broker, path, fs)
            for process in self._world.kafka.processes.values()
            for path, fs in process.dirs.items()
            if fs is not None
        ]

    # -- 11: no data deleted unless requested

    def _wiped(self, fs: FileSystem, volume: Json) -> None:
        """A provisioner wipes a disk whose claim is gone."""
        claim = str((volume["spec"].get("claimRef") or {}).get("name"))
        if fs.meta is None or claim in self._world.deleted_by_people or self._clusters:
            return
        self._breaks(
            11,
            f"{fs.disk} is wiped with Kafka's data, because claim {claim} is gone; its deletion was not requested",
        )

    # -- 12: no access by default

    def _process(
        self, run: Any, node_id: int, props: dict[str, str], birth: tuple[str, FileSystem] | None
    ) -> None:
        """Kafka is started."""
        for why in open_doors(props):
            self._breaks(12, f"node {node_id} admits clients without authentication: {why}")
        if birth is not None:
            self._formatted(node_id, *birth)

    # -- 13: no second bootstrap

    def _formatted(self, node_id: int, cluster_id: str, fs: FileSystem) -> None:
        """A controller's disk was formatted as that of a voter of the first quorum."""
        others = self._born.keys() - {cluster_id}
        if others and not self._clusters:
            self._breaks(
                13,
                f"controller {node_id} is formatted for cluster {cluster_id}, although {min(others)} exists",
            )
        known = self._born.setdefault(cluster_id, {})
        directory = (fs.meta or {}).get("directory.id", "")
        if known.setdefault(directory, fs) is not fs:
            text = f"controller {node_id} is formatted again, on {fs.disk}, as the voter {directory}, which was on {known[directory].disk}"
            self._breaks(13, text)

    # -- the records behind rules 2 and 15

    def taken_down(self, pod: Json, run: Any, broker: int, how: str) -> None:
        """A running broker is taken down: that is recorded before, and for a hung disk, that the broker will start without it."""
        marks = ((self._world.cluster() or {}).get("status") or {}).get("takingDown") or ()
        if pod["metadata"]["uid"] not in [mark["uid"] for mark in marks]:
            self._breaks(2, f"{how} of broker {broker} without a mark in status.takingDown")
        live = self._world.api.get("KafkaBroker", f"{SAMPLE}-broker-{broker}")
        disks = ((live or {}).get("spec") or {}).get("disks") or ()
        modes = {disk["name"]: disk["mode"] for disk in disks if disk["mode"] != "Absent"}
        hung = [
            path.rsplit("/", 1)[-1]
            for path, fs in run.files.disks.items()
            if fs is not None and fs.state == "hung"
        ]
        if (
            how == "deletion"
            and self._could_start(run, live, hung)
            and hung
            and all(modes.get(name) == "Active" for name in hung)
        ):
            self._breaks(
                15,
                f"broker {broker} is stopped for {', '.join(hung)}, but its record says that it starts with it",
            )

    def _could_start(self, run: Any, record: Json | None, hung: list[str]) -> bool:
        """Whether the broker has another disk to start with: one that answers, was not pulled out under it, and did not fail a moment ago."""
        known = ((record or {}).get("status") or {}).get("disks") or ()
        out = {*hung, *(disk["name"] for disk in known if disk.get("state") in ("Failed", "Evacuating"))}
        return any(
            fs is not None and fs.state not in ("hung", "dead") and not self._world.is_pulled(fs)
            for path, fs in run.files.disks.items()
            if path.rsplit("/", 1)[-1] not in out
        )

    # -- 14 and 16: owners of written objects, and declarations about nodes

    def _written(self, who: str, method: str, before: Json, after: Json | None) -> None:
        """An existing object was written or deleted."""
        if before["kind"] == "KafkaCluster" and (
            before["spec"].get("deleteClaims") and before["metadata"].get("deletionTimestamp")
        ):
            self._clusters.add(before["metadata"]["uid"])
        if who not in _OURS:
            return
        # A KafkaRebalance names this cluster and gets its status, no matter who owns it.
        asks = before["kind"] == "KafkaRebalance" and method == "PATCH"
        if (stranger := self.strangers.get(before["metadata"]["uid"])) is not None and not asks:
            self._breaks(16, f"{method} of {stranger}, which belongs to another owner, by {who}")
        if before["kind"] == "PersistentVolumeClaim" and method == "DELETE":
            self._released.add(int((before["metadata"].get("annotations") or {}).get(_NODE_ID, -1)))
        if before["kind"] == "KafkaBroker" and after is not None:
            node = before["spec"].get("node")
            if node and after.get("spec", {}).get("node") != node:
                if not self._taken_by_people(before, str(node)):
                    self._left_node(before, str(node))
                self._released.discard(int(before["spec"]["id"]))

    def _taken_by_people(self, broker: Json, node: str) -> bool:
        """Whether none of a broker's claims is on its node any more, and Spindle deleted none of them: then no node was declared lost."""
        claims = [
            self._world.api.get("PersistentVolumeClaim", disk["claim"])
            for disk in broker["spec"].get("disks") or ()
        ]
        volumes = [
            self._world.api.get("PersistentVolume", claim["spec"].get("volumeName", ""))
            for claim in claims
            if claim is not None
        ]
        on_it = any(volume is not None and host_of(volume) == node for volume in volumes)
        return not on_it and int(broker["spec"]["id"]) not in self._released

    def _left_node(self, broker: Json, name: str) -> None:
        """A broker's record gets another node: the old node is lost, that was declared, and its owner agreed or set a time for it."""
        live, machine = self._world.api.get("Node", name), self._world.kubelets.nodes[name]
        what = f"{broker['metadata']['name']} leaves {name}"
        if live is not None and not any(t["key"] == _TAINT for t in live["spec"].get("taints") or ()):
            self._breaks(14, f"{what}, whose Node exists without the taint")
        if machine.up and self._world.net.linked(name, "api"):
            self._breaks(14, f"{what}, which runs")
        spec = (self._world.cluster() or {"spec": self._world.asked})["spec"]
        timed = (spec.get("disks") or {}).get("nodeGoneAfterSeconds") is not None
        if not timed and (broker["spec"].get("acceptDataLoss") or {}).get("node") != name:
            self._breaks(14, f"{what}, but the loss of its disks was not accepted")


def contents(fs: FileSystem) -> str:
    """Contents of a disk, except its usage."""
    logs = sorted((key, suffix, len(log.entries)) for (key, suffix), log in fs.logs.items())
    return repr((fs.identity, fs.meta, logs, sorted(fs.files.items())))


def open_doors(props: dict[str, str]) -> list[str]:
    """Settings of a node's configuration that admit unauthenticated clients, or grant rights to unexpected principals."""
    found = []
    if "StandardAuthorizer" not in props.get("authorizer.class.name", ""):
        found.append("no authorizer")
    if props.get("allow.everyone.if.no.acl.found", "false") != "false":
        found.append("allow.everyone.if.no.acl.found")
    found += [
        f"super user {each}"
        for each in props.get("super.users", "").split(";")
        if each and each not in _SUPER
    ]
    protocols = dict(
        entry.split(":") for entry in props.get("listener.security.protocol.map", "").split(",") if entry
    )
    for listener in (entry.split("://")[0] for entry in props.get("listeners", "").split(",")):
        if protocols.get(listener) not in ("SSL", "SASL_SSL"):
            found.append(f"listener {listener} is not encrypted")
        own = props.get(f"listener.name.{listener.lower()}.ssl.client.auth", props.get("ssl.client.auth"))
        if own != "required" and protocols.get(listener) == "SSL":
            found.append(f"listener {listener} asks for no certificate")
    return found
