"""One life: a cluster is made, has load, has troubles and people, and is judged in the end."""

import base64
import contextlib
import gc
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import stamina

from spindle.cluster import names
from spindle.reconcile.plan import plan
from spindle_agent import disk as agent_disk
from spindle_agent import heartbeat
from spindle_operator import act, lease, report
from spindle_operator import kube as kubes
from tests.sim import agents, faults, operators, people, podfiles, rules, standin
from tests.sim.api import NAMESPACE, SYSTEM, Api, Json
from tests.sim.controllers import Controllers
from tests.sim.disks import FileSystem
from tests.sim.faults import Fault
from tests.sim.kafka import KafkaSim
from tests.sim.kernel import START, EndlessError, Kernel, Line
from tests.sim.kubelet import Kubelets, SimNode
from tests.sim.loop import SimDatetime, simulated_time
from tests.sim.net import Net
from tests.sim.variety import SAMPLE, Variety, choose, cluster

BIRTH = 1500.0  # seconds within which a cluster is up
TROUBLE = 900.0  # seconds of troubles
REST = 1500.0  # seconds without any deed of Spindle or a person after which a life stands still
INCOMING = 0.9  # of a disk, up to which moves may fill it (`spec.disks.thresholds.reject_moves`)
AFTER = 5400.0  # seconds after the last trouble within which all is well, people included


@dataclass(frozen=True)
class Plot:
    """All that makes a life: from the seed, or told.

    Attributes:
        reasons: to wait, that have to be told in it (kept lives).
        unaided: reasons to wait that have to end before a person loses patience (kept lives).
    """

    seed: int
    variety: Variety
    faults: tuple[Fault, ...] = ()
    people: bool = True
    reasons: tuple[str, ...] = ()
    unaided: tuple[str, ...] = ()


@dataclass
class Outcome:
    """How a life ended."""

    seed: int
    broken: list[str]
    story: list[Line]
    events: int
    passes: int
    ended_at: float
    plot: Plot
    waiting: list[Json] = field(default_factory=list)
    seen_reasons: set[str] = field(default_factory=set)


class World:
    """All that is in one life."""

    def __init__(self, plot: Plot) -> None:
        variety = plot.variety
        self.plot, self.variety = plot, variety
        self.kernel = Kernel(plot.seed)
        self.api = Api(self.kernel)
        self.net = Net(self.kernel, self.api)
        self.controllers = Controllers(self.kernel, self.api)
        self.kafka = KafkaSim(self.kernel, elr=variety.elr, metadata_version=variety.level)
        self.kubelets = Kubelets(self.kernel, self.api, self.kafka, self.controllers, self.net.linked)
        self.kubelets.on_start = self._started
        self.kubelets.slow_projection = variety.slow_projection
        self.kafka.links = self.net.linked
        self.kafka.skew = lambda name: self.kubelets.nodes[name].skew
        self.kafka.copy_rate = variety.copy_rate
        self.acls = operators.Acls()
        self.graves: list[Any] = []  # what was killed is not finalised before the life is over
        self.broken: list[str] = []
        self.reasons: set[str] = set()
        self.told: dict[tuple[str, ...], float] = {}
        self.let_go: set[str] = (
            set()
        )  # pods that a person lets go down although partitions refuse writes meanwhile
        self.rng = random.Random(plot.seed ^ 0xC0FFEE)
        self.accepted: list[Any] = []
        self.trouble_over = False
        self.ends: list[Callable[[], None]] = []  # of troubles that last
        self.pulled: list[FileSystem] = []  # disks that lie on the table
        self.backup: Any = None
        self.asked: Json = {}
        self.added = 0
        self.risk_since: float | None = None
        self.disturbed_at = START
        self.deleted_by_people: set[str] = set()
        self.secrets: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}  # as they were last bound
        self.decide: Callable[[Any, float], Any] = plan
        for index, zone in enumerate(variety.zones):
            node = self.kubelets.add_node(
                f"node{index + 1}", zone, variety.disks + variety.spare_disks, variety.capacity
            )
            node.skew = dict(variety.skews).get(index, 0.0)
        for name, provisioner, default in (
            ("local-disks", "kubernetes.io/no-provisioner", False),
            ("standard", "dynamic", True),
        ):
            notes = {"storageclass.kubernetes.io/is-default-class": str(default).lower()}
            self.api.put(
                {
                    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, "annotations": notes},
                    "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer",
                }
            )  # fmt: skip
        self.agents = {node.name: agents.Agent(self, node) for node in self.kubelets.nodes.values()}
        self.operators = [operators.Operator(self, letter) for letter in ("ab" if variety.standby else "a")]
        self.judge = rules.Judge(self)
        self.person = people.Person(self)

    # -- what the parts ask

    def run_of(self, broker: int) -> Any:
        """The pod in which a broker's (or controller's) Kafka runs, None if it does not."""
        for run in self.kubelets.runs.values():
            if run.kafka and (run.pod["metadata"].get("labels") or {}).get("spindle.dev/node-id") == str(
                broker
            ):
                return run
        return None

    def node_of(self, broker: int) -> str:
        """The node on which a broker's pod runs."""
        run = self.run_of(broker)
        return run.node.name if run is not None else f"nowhere-{broker}"

    def answers(self, broker: int) -> bool:
        """Whether a broker takes connections."""
        run = self.run_of(broker)
        return run is not None and self.kafka.alive(run.uid)

    def cluster(self) -> Json | None:
        """The KafkaCluster as it is."""
        return self.api.get("KafkaCluster", SAMPLE)

    def bug(self, who: str, error: BaseException) -> None:
        """An error of Spindle's own."""
        text = f"{who}: {type(error).__name__}: {error}"
        self.kernel.say(who, "failed by an error of its own", text)
        self.broken.append(f"error: {text}")

    def event(self, event: Any) -> None:
        """What the operator tells."""
        if event.reason == "ReconcileFailed":
            self.broken.append(f"error: {event.message}")
        self.kernel.say("spindle", f"{event.kind} {event.name}: {event.reason}", event.message)

    def planned(self, operator: Any, snapshot: Any, made: Any) -> None:
        """A pass was decided."""
        for wait in made.status.get("waiting") or ():
            self.reasons.add(wait["reason"])
            key = (wait["action"], wait["object"], wait["reason"])
            if key not in self.told:
                self.told[key] = self.kernel.now
                self.kernel.say(
                    "spindle",
                    f"waits: {wait['action']} {wait['object']}: {wait['reason']}",
                    f"{wait['message']} To resolve: {wait['unblockedBy']}",
                )
        self.judge.planned(snapshot, made)

    # -- what people and troubles do

    def power_off(self, node: SimNode) -> None:
        """A machine goes off, with the agent on it."""
        self.kubelets.power_off(node)
        self.agents[node.name].kill(again_in=None)

    def power_on(self, node: SimNode) -> None:
        """It comes back."""
        self.kubelets.power_on(node)
        self.kernel.call_later(5.0, self.agents[node.name].start)

    def kafka_disk_changed(self, fs: FileSystem) -> None:
        """A disk's state is another one, or it was pulled out."""
        changed = getattr(self.kafka, "disk_changed", None)
        if changed is not None:
            changed(fs)

    def more_nodes(self, count: int, zone_of: str = "") -> None:
        """Machines more, each in the zone that has the fewest."""
        for _ in range(count):
            zones = [node.zone for node in self.kubelets.nodes.values()]
            named = [zone for zone in sorted(set(zones)) if zone in zone_of]
            zone = named[0] if named else min(sorted(set(zones)), key=zones.count)
            name = f"node{len(zones) + 1}"
            variety = self.variety
            asked = max((pool["disks"]["count"] for pool in self.asked["brokerPools"]), default=0)
            slots = max(asked, variety.disks + variety.spare_disks + 1)
            node = self.kubelets.add_node(name, zone, slots, variety.capacity)
            self.agents[name] = agents.Agent(self, node)
            self.agents[name].start()

    def more_slots(self, count: int) -> None:
        """Disks more on each machine."""
        for node in self.kubelets.nodes.values():
            self.kubelets.add_slots(node, count, self.variety.capacity)

    def ask_for(self, broker: int, disk: str, state: str | None) -> None:
        """Write ``spec.maintenance`` for one disk; None removes its entry."""
        self._write_entry(
            broker, "maintenance", disk, None if state is None else {"name": disk, "desiredState": state}
        )

    def accept_loss(self, broker: int, disk: str, token: str | None) -> None:
        """Write ``spec.acceptDataLoss`` for one disk; None removes its entry."""
        self._write_entry(
            broker, "acceptDataLoss", disk, None if token is None else {"name": disk, "token": token}
        )

    def _write_entry(self, broker: int, field: str, disk: str, entry: Json | None) -> None:
        live = self.api.get("KafkaBroker", names.broker_name(SAMPLE, broker))
        if live is None:
            return
        held = {e["name"]: e for e in (live["spec"].get(field) or {}).get("disks") or ()}
        held.pop(disk, None)
        if entry is not None:
            held[disk] = entry
        self.api.change(live, {"spec": {field: {"disks": list(held.values())}}}, manager="person")

    def accept(self, broker: int, directory: str, word: str) -> None:
        """A person gave up what is on one disk."""
        self.accepted.append((broker, directory, word))
        lost = [
            (p["topic"], p["partition"])
            for p in self.truth("partitions")
            if broker in p["replicas"] and (p.get("dirs") or {}).get(broker) == directory
        ]
        self.kafka.ledger.accept(broker, directory, lost)

    def clear_moves(self) -> None:
        """A person cancels what is under way, and removes throttles."""
        moving = dict.fromkeys(self.truth("reassignments"))
        if moving:
            self.ask_kafka("alter_partition_reassignments", assignments=moving)
        self.clear_settings()

    def clear_settings(self) -> None:
        """A person removes dynamic settings."""
        for where, key, _ in list(self.truth("settings")):
            kind, _, name = where.partition(" ")
            self.ask_kafka(
                "incremental_alter_configs",
                to=int(name) if kind == "broker" and name else None,
                kind=kind,
                name=name,
                values={key: None},
            )

    def rebalance(self) -> None:
        """What a rebalance that is run and approved comes to: each partition on as many racks as it can have.

        As a proposal is carried out, nothing goes where it would fill a disk above the limit for what comes in (rule 4), each replica goes to
        a chosen dir, and a partition that is being reassigned is left alone.
        """
        racks, moving = self.racks(), self.truth("reassignments")
        room = self._room()
        for p in self.truth("partitions"):
            key, on = (p["topic"], p["partition"]), [racks.get(b) for b in p["replicas"]]
            if key in moving or len(set(on)) >= min(len(on), len(set(racks.values()))):
                continue
            keep: list[int] = []
            for broker in p["replicas"]:
                if racks.get(broker) not in [racks.get(b) for b in keep]:
                    keep.append(broker)
            crowded = [b for b in p["replicas"] if b not in keep]
            held = [racks.get(b) for b in keep]
            size = self.kafka.truth_size(key)
            open_to = {
                where: left for where, left in room.items()
                if where[0] not in p["replicas"] and racks.get(where[0]) not in held and left >= size
            }  # fmt: skip
            if not open_to:
                continue
            broker, path = max(sorted(open_to), key=lambda where: open_to[where])
            room[broker, path] -= size
            self.ask_kafka("alter_replica_log_dirs", to=broker, dirs={path: [key]})
            to = [*keep, *crowded[:-1], broker]
            self.ask_kafka("alter_partition_reassignments", assignments={key: to})

    def _room(self) -> dict[tuple[int, str], float]:
        """Broker and log dir → bytes that a move may bring to it."""
        return {
            (process.broker, path): fs.capacity * INCOMING - fs.used
            for process in self.kafka.processes.values()
            for path, fs in process.live().items()
            if self.answers(process.broker) and path not in self.kafka.cordoned(process)
        }

    def ask_kafka(self, api: str, to: int | None = None, **args: Any) -> Any:
        """A person's request; None if it is refused."""
        brokers = [b for b in self.racks() if self.answers(b)]
        target = to if to is not None and to in brokers else next(iter(brokers), None)
        if target is None:
            return None
        try:
            return self.kafka.request(target, api, **args)
        except Exception as error:
            if type(error).__name__ in ("KafkaFault", "Timeout"):
                return None
            raise

    # -- the truth

    def truth(self, what: str) -> Any:
        """What is so in Kafka, whoever may be asked."""
        found = getattr(self.kafka, f"truth_{what}", None)
        return [] if found is None else found()

    def racks(self) -> dict[int, str]:
        """Broker → the zone of the machine that its volumes are on."""
        found = {}
        for broker in self.api.all("KafkaBroker"):
            node = self.kubelets.nodes.get(broker["spec"].get("node") or "")
            if node is not None and not broker["spec"].get("leaving"):
                found[int(broker["spec"]["id"])] = node.zone
        return found

    def disk_alive(self, directory: str) -> bool:
        """Whether the disk with that directory id could still be read."""
        held = [
            slot.fs
            for node in self.kubelets.nodes.values()
            if not node.gone
            for slot in node.slots.values()
            if slot.fs is not None
        ]
        return any(
            (fs.meta or {}).get("directory.id") == directory and fs.state not in ("dead", "hung")
            for fs in [*held, *self.pulled]
        )

    def intact(self, broker: int, key: tuple[str, int], directory: str) -> bool:
        """Whether a replica can still be read on the disk with that directory id."""
        held = [
            slot.fs
            for node in self.kubelets.nodes.values()
            for slot in node.slots.values()
            if slot.fs is not None
        ]
        return any(
            (fs.meta or {}).get("directory.id") == directory
            and (key, "") in fs.logs
            and fs.state not in ("dead", "hung")
            for fs in [*held, *self.pulled]
        )

    def is_given_up(self, broker: int, directory: str | None, key: tuple[str, int]) -> bool:
        """Whether a person gave that disk up."""
        return any((b, d) == (broker, directory) for b, d, _ in self.accepted)

    def _started(self, run: Any, broker: int, dirs: dict[str, Any]) -> None:
        self.judge.started(run, broker, dirs)

    def is_stopping(self, broker: int) -> bool:
        """Whether a broker's pod is going down."""
        run = self.run_of(broker)
        return run is None or run.killing or bool(run.pod["metadata"].get("deletionTimestamp"))

    # -- how it goes

    def begin(self) -> None:
        """People and Kubernetes set it up."""
        for agent in self.agents.values():
            agent.start()
        for operator in self.operators:
            operator.start()
        self.asked = cluster(self.variety)["spec"]
        self.api.put(cluster(self.variety))
        self.api.watchers.append(self._keep_secret)
        self.kernel.say("person", f"applies KafkaCluster {SAMPLE}", describe(self.variety))

    def _keep_secret(self, event: str, kind: str, obj: Json) -> None:
        """Backups of Secrets that a careful person has."""
        if kind == "Secret" and event != "DELETED":
            self.secrets[obj["metadata"]["name"]] = obj
        if kind == "PersistentVolumeClaim" and obj["spec"].get("volumeName"):
            self.claims[obj["metadata"]["name"]] = obj

    def until(self, what: Callable[[], bool], seconds: float, every: float = 5.0) -> bool:
        """Let time go on until something is so; whether it came to be."""
        end = self.kernel.now + seconds
        while self.kernel.now < end:
            if what():
                return True
            self.kernel.run_until(min(end, self.kernel.now + every))
            if len(self.broken) > 20:
                return False
        return what()

    def rests(self, since: float) -> bool:
        """Whether nobody has done anything for so long that nothing will come of waiting."""
        last = max(since, self.judge.acted_at, self.person.acted_at)
        return self.kernel.now - last > REST

    def well(self) -> bool:
        """Whether the cluster is as asked for and nothing is in flight."""
        return not self.judge.unwell()


def describe(variety: Variety) -> str:
    """A life's shape in a few words."""
    topics = "; ".join(
        f"{t.name if len(t.name) < 20 else t.name[:4] + '… (' + str(len(t.name)) + ' characters)'}: {t.partitions} partitions, RF {t.rf}, min ISR {t.min_isr}"
        f"{'' if t.acks_all else ', acks=1'}"
        for t in variety.topics
    )
    return (
        f"{variety.brokers} brokers on racks of {'+'.join(map(str, variety.racks))} nodes, {variety.disks} disks each of {variety.capacity // 10**6} MB, "
        f"{variety.spare_disks} spare; ELR {'on' if variety.elr else 'off'}, metadata.version {variety.level}; {topics}"
    )


def plot(seed: int) -> Plot:
    """The life of a seed."""
    variety = choose(seed)
    return Plot(seed, variety, faults.choose(seed, variety, TROUBLE))


@contextlib.contextmanager
def patched(extra: tuple[tuple[Any, str, Any], ...] = ()) -> Iterator[None]:
    """The edges replaced by the simulated ones."""
    dated = [(module, "datetime", SimDatetime) for module in (act, report, lease, agent_disk, heartbeat)]
    wanted = [
        *operators.patches(),
        *agents.patches(),
        *podfiles.patches(),
        *standin.patches(),
        *dated,
        *extra,
    ]
    saved = [(module, name, getattr(module, name)) for module, name, _ in wanted]
    for module, name, value in wanted:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in reversed(saved):
            setattr(module, name, value)


def live(what: Plot, *, watch: Callable[[World], None] | None = None) -> Outcome:
    """Run one life to its end."""
    logging.disable(logging.CRITICAL)
    stamina.instrumentation.set_on_retry_hooks([])  # which would print, with the real time
    standin.reset()
    gc.disable()
    world = World(what)
    with simulated_time(world.kernel), patched(((kubes, "_PAGE", what.variety.page),)):
        if watch is not None:
            watch(world)
        try:
            _live(world)
        except EndlessError as error:
            world.broken.append(f"endless: {error}")
    for operator in world.operators:
        if operator.process is not None:
            operator.process.kill()
    for agent in world.agents.values():
        if agent.process is not None:
            agent.process.kill()
    logging.disable(logging.NOTSET)
    waiting = ((world.cluster() or {}).get("status") or {}).get("waiting") or []
    return Outcome(
        what.seed, world.broken, world.kernel.story, world.kernel.events, sum(o.passes for o in world.operators),
        world.kernel.now - START, what, waiting, world.reasons,
    )  # fmt: skip


def _live(world: World) -> None:
    world.begin()
    if not world.until(world.well, BIRTH):
        world.broken.append(f"birth: {'; '.join(world.judge.unwell()[:5])}")
        return
    world.kernel.say("cluster", "is up")
    world.kafka.start_load(world.variety.topics)
    world.kernel.run_until(world.kernel.now + 30.0)
    if world.plot.people:
        world.person.begin()
    start = world.kernel.now
    for fault in world.plot.faults:
        world.kernel.call_later(fault.at, lambda fault=fault: _strike(world, fault))  # type: ignore[misc]
    last = max((fault.at + fault.lasts for fault in world.plot.faults), default=60.0)
    world.kernel.run_until(start + last)
    faults.end_all(world)
    world.trouble_over = True
    world.kernel.say("world", "has no more troubles")
    over = world.kernel.now

    def over_or_well() -> bool:
        return world.well() or world.rests(over)

    world.until(over_or_well, AFTER, 15.0)
    world.kafka.stop_load()
    world.kernel.run_until(world.kernel.now + 30.0)
    # What is amiss again by then, as a disk that is full until deleted copies are gone, has what is left of the time.
    world.until(over_or_well, over + AFTER - world.kernel.now, 15.0)
    world.judge.end()
    for reason in world.plot.reasons:
        if reason not in world.reasons:
            world.judge.breaks("c", f"{reason} was never told")


def _strike(world: World, fault: Fault) -> None:
    asked = fault.kind in (
        "config_refused",
        "disk_drained",
        "broker_stopped",
    )  # what a person wants disturbs nothing
    world.disturbed_at = world.kernel.now + (0.0 if asked else fault.lasts)
    faults.strike(world, fault)


def text(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


__all__ = ["NAMESPACE", "SYSTEM", "Outcome", "Plot", "World", "live", "plot"]
