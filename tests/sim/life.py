"""One run: a cluster is created, gets load, faults and user actions, and is judged at the end."""

import base64
import contextlib
import gc
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import stamina

from spindle.api import names
from spindle.reconcile.plan import plan
from spindle_agent import disk as agent_disk
from spindle_agent import heartbeat
from spindle_agent.probing import timer_lag
from spindle_operator import act, lease, report
from spindle_operator import kube as kubes
from spindle_operator.observe import LOOKED_AT
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

BIRTH = 1500.0  # seconds within which a cluster must be ready
TROUBLE = 900.0  # seconds with faults
REST = 1500.0  # seconds without any action of Spindle or a user after which a run counts as stuck
_LONG = 50  # characters of a topic's name that is no name of an object
INCOMING = 0.9  # usage of a disk up to which moves may fill it (`spec.disks.thresholds.reject_moves`)
AFTER = 5400.0  # seconds after the last fault within which the cluster must have recovered, including user actions


@dataclass(frozen=True)
class Plot:
    """All inputs of a run: from the seed, or predefined.

    Attributes:
        reasons: reasons to wait that must be reported in it (kept runs).
        unaided: reasons to wait that must end before a user acts (kept runs).
    """

    seed: int
    variety: Variety
    faults: tuple[Fault, ...] = ()
    people: bool = True
    reasons: tuple[str, ...] = ()
    unaided: tuple[str, ...] = ()


@dataclass
class Outcome:
    """Result of a run."""

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
    """All parts of one run."""

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
        self.graves: list[Any] = []  # killed tasks are not finalised before the run is over
        self.broken: list[str] = []
        self.reasons: set[str] = set()
        self.told: dict[tuple[str, ...], float] = {}
        self.let_go: set[str] = (
            set()
        )  # pods that a user allows to restart although partitions then reject writes
        self.rng = random.Random(plot.seed ^ 0xC0FFEE)
        self.accepted: list[Any] = []
        self.trouble_over = False
        self.ends: list[Callable[[], None]] = []  # ends of active faults
        self.pulled: list[FileSystem] = []  # spare disks
        self.backup: Any = None
        self.watches: Any = None  # of operators that read from a cache; None for such as list everything
        self.asked: Json = {}
        self.added = 0
        self.risk_since: float | None = None
        self.disturbed_at = START
        self.deleted_by_people: set[str] = set()
        self.secrets: dict[str, Json] = {}
        self.claims: dict[str, Json] = {}  # claims as they were last bound
        self.claim_of: dict[str, Json] = {}  # volume → the claim that it was last bound to
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

    # -- callbacks of the parts

    def run_of(self, broker: int) -> Any:
        """The pod in which a broker's (or controller's) Kafka runs; None if it does not run."""
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
        """Whether a broker accepts connections."""
        run = self.run_of(broker)
        return run is not None and self.kafka.alive(run.uid)

    def cluster(self) -> Json | None:
        """The current KafkaCluster."""
        return self.api.get("KafkaCluster", SAMPLE)

    def bug(self, who: str, error: BaseException) -> None:
        """An internal error of Spindle."""
        text = f"{who}: {type(error).__name__}: {error}"
        self.kernel.say(who, "failed with an internal error", text)
        self.broken.append(f"error: {text}")

    def event(self, event: Any) -> None:
        """An event of the operator."""
        if event.reason == "ReconcileFailed":
            self.broken.append(f"error: {event.message}")
        if event.reason == "RequestRefused" and "the status of KafkaCluster" in event.message:
            self.judge.told_at = self.kernel.now
            self.person.reads(event)
        self.kernel.say("spindle", f"{event.kind} {event.name}: {event.reason}", event.message)

    def planned(self, operator: Any, snapshot: Any, made: Any) -> None:
        """Called after a pass was planned."""
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

    # -- actions of users and faults

    def power_off(self, node: SimNode) -> None:
        """Power a machine off, with its agent."""
        self.kubelets.power_off(node)
        self.agents[node.name].kill(again_in=None)

    def power_on(self, node: SimNode) -> None:
        """Power it on."""
        self.kubelets.power_on(node)
        self.kernel.call_later(5.0, self.agents[node.name].start)

    def kafka_disk_changed(self, fs: FileSystem) -> None:
        """Called after a disk's state has changed, or it was pulled."""
        changed = getattr(self.kafka, "disk_changed", None)
        if changed is not None:
            changed(fs)

    def more_nodes(self, count: int, zone_of: str = "") -> None:
        """Add machines, each in the zone with the fewest."""
        for _ in range(count):
            zones = [node.zone for node in self.kubelets.nodes.values()]
            named = [zone for zone in sorted(set(zones)) if zone in zone_of]
            zone = named[0] if named else min(sorted(set(zones)), key=zones.count)
            name = f"node{len(zones) + 1}"
            variety = self.variety
            asked = max((pool["disks"].get("count", 0) for pool in self.asked["brokerPools"]), default=0)
            slots = max(asked, variety.disks + variety.spare_disks + 1)
            node = self.kubelets.add_node(name, zone, slots, variety.capacity)
            self.agents[name] = agents.Agent(self, node)
            self.agents[name].start()

    def more_slots(self, count: int) -> None:
        """Add disks to each machine; larger ones if brokers may have disks of different sizes."""
        larger = 2 if self.variety.all_disks else 1
        for node in self.kubelets.nodes.values():
            self.kubelets.add_slots(node, count, self.variety.capacity * larger)

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
        """A user accepts the loss of the data on one disk."""
        self.accepted.append((broker, directory, word))
        lost = [
            (p["topic"], p["partition"])
            for p in self.truth("partitions")
            if broker in p["replicas"] and (p.get("dirs") or {}).get(broker) == directory
        ]
        self.kafka.ledger.accept(broker, directory, lost)

    def ask_factor(self, topic: str, replicas: int) -> None:
        """A person writes ``spec.replicas`` of a topic's KafkaTopic, or applies one."""
        shape = next(each for each in self.variety.topics if each.name == topic)
        before = self.kafka.factors.get(topic, (shape.rf, shape.rf, 0.0))[0]
        self.kafka.factors[topic] = (replicas, before, self.kernel.now)
        name = topic if len(topic) < _LONG else f"{topic[:2]}-long"
        live = self.api.get("KafkaTopic", name)
        if live is not None:
            self.api.change(live, {"spec": {"replicas": replicas}}, manager="person")
            return
        self.api.put(
            {
                "apiVersion": names.API_VERSION, "kind": "KafkaTopic", "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "cluster": SAMPLE, "topicName": topic, "adopt": True, "partitions": shape.partitions, "replicas": replicas,
                    "config": {"min.insync.replicas": str(shape.min_isr)} if shape.records != 20 else {},
                },
            },
            manager="person",
        )  # fmt: skip

    def clear_moves(self) -> None:
        """A user cancels running reassignments, and removes throttles."""
        moving = dict.fromkeys(self.truth("reassignments"))
        if moving:
            self.ask_kafka("alter_partition_reassignments", assignments=moving)
        self.clear_settings()

    def clear_settings(self) -> None:
        """A user removes dynamic settings."""
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
        """The effect of an approved rebalance: each partition is on as many racks as possible.

        As in the execution of a proposal, nothing is moved to a disk that would exceed the incoming limit (rule 4), each replica goes to
        a chosen dir, and a partition that is being reassigned is not changed.
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
        """Broker and log dir → bytes that moves may still bring to it."""
        return {
            (process.broker, path): fs.capacity * INCOMING - fs.used
            for process in self.kafka.processes.values()
            for path, fs in process.live().items()
            if self.answers(process.broker) and path not in self.kafka.cordoned(process)
        }

    def ask_kafka(self, api: str, to: int | None = None, **args: Any) -> Any:
        """A user's request; None if it is rejected."""
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
        """The true state of Kafka, whoever can be queried."""
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
        """Whether the disk with that directory id can still be read."""
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

    def is_pulled(self, fs: FileSystem | None) -> bool:
        """Whether a person has taken it out of its machine; a process may still hold it open."""
        return any(each is fs for each in self.pulled)

    def was_pulled(self, directory: str) -> bool:
        """Whether the disk with that directory id is in no machine."""
        return any((fs.meta or {}).get("directory.id") == directory for fs in self.pulled)

    def is_given_up(self, broker: int, directory: str | None, key: tuple[str, int]) -> bool:
        """Whether a user accepted the loss of that disk."""
        return any((b, d) == (broker, directory) for b, d, _ in self.accepted)

    def _started(self, run: Any, broker: int, dirs: dict[str, Any]) -> None:
        self.judge.started(run, broker, dirs)

    def is_stopping(self, broker: int) -> bool:
        """Whether a broker's pod is terminating."""
        run = self.run_of(broker)
        return run is None or run.killing or bool(run.pod["metadata"].get("deletionTimestamp"))

    # -- course of the run

    def begin(self) -> None:
        """The user and Kubernetes set it up."""
        for agent in self.agents.values():
            agent.start()
        for operator in self.operators:
            operator.start()
        self.asked = cluster(self.variety)["spec"]
        self.api.put(cluster(self.variety))
        self.api.watchers.append(self._keep_secret)
        self.kernel.say("person", f"applies KafkaCluster {SAMPLE}", describe(self.variety))

    def _keep_secret(self, event: str, kind: str, obj: Json) -> None:
        """Backups of Secrets."""
        if kind == "Secret" and event != "DELETED":
            self.secrets[obj["metadata"]["name"]] = obj
        if kind == "PersistentVolumeClaim" and obj["spec"].get("volumeName"):
            self.claims[obj["metadata"]["name"]] = obj
            self.claim_of[obj["spec"]["volumeName"]] = obj

    def until(self, what: Callable[[], bool], seconds: float, every: float = 5.0) -> bool:
        """Run until a condition holds; returns whether it did."""
        end = self.kernel.now + seconds
        while self.kernel.now < end:
            if what():
                return True
            self.kernel.run_until(min(end, self.kernel.now + every))
            if len(self.broken) > 20:
                return False
        return what()

    def rests(self, since: float) -> bool:
        """Whether nothing has happened for so long that waiting is pointless."""
        last = max(since, self.judge.acted_at, self.person.acted_at)
        return self.kernel.now - last > REST

    def well(self) -> bool:
        """Whether the cluster is in the desired state and nothing is in progress."""
        return not self.judge.unwell()


def describe(variety: Variety) -> str:
    """The shape of a run in a few words."""
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
    """The plot of a seed."""
    variety = choose(seed)
    return Plot(seed, variety, faults.choose(seed, variety, TROUBLE))


def watched(what: Plot) -> Plot:
    """The same with operators that read from watches; those of every other seed lose the events of some kinds for a while."""
    if any(fault.kind == "operator_caches" for fault in what.faults):
        return what
    choices = random.Random(f"watches {what.seed}")
    kinds = [kind.kind for kind in LOOKED_AT]
    told = {
        "delay": choices.choice((0.05, 0.5, 5.0)),
        "after": choices.uniform(0.0, TROUBLE / 2),
        "lost": tuple(choices.sample(kinds, 4)) if what.seed % 2 else (),
        "never": (),
    }
    fault = Fault("operator_caches", at=0.0, lasts=TROUBLE, salt=0, told=tuple(told.items()))
    return replace(what, faults=(*what.faults, fault))


def edited(what: Plot) -> Plot:
    """The same with people who change the replication factors of topics."""
    if any(fault.kind == "replicas_edited" for fault in what.faults):
        return what
    choices = random.Random(f"replicas {what.seed}")
    told = {"every": choices.choice((20.0, 60.0, 200.0))}
    fault = Fault(
        "replicas_edited",
        choices.uniform(0.0, TROUBLE / 4),
        TROUBLE,
        choices.getrandbits(32),
        tuple(told.items()),
    )
    return replace(what, faults=tuple(sorted((*what.faults, fault), key=lambda each: each.at)))


@contextlib.contextmanager
def patched(extra: tuple[tuple[Any, str, Any], ...] = ()) -> Iterator[None]:
    """Replacements of the edges by simulated ones."""
    dated = [
        (module, "datetime", SimDatetime) for module in (act, report, lease, agent_disk, heartbeat, timer_lag)
    ]
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
    """Execute one run to its end."""
    logging.disable(logging.CRITICAL)
    stamina.instrumentation.set_on_retry_hooks([])  # it would print, with the real time
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
        world.broken.append(f"bootstrap: {'; '.join(world.judge.unwell()[:5])}")
        return
    world.kernel.say("cluster", "is ready")
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
    world.kernel.say("world", "has no more faults")
    over = world.kernel.now

    def over_or_well() -> bool:
        return world.well() or world.rests(over)

    world.until(over_or_well, AFTER, 15.0)
    world.kafka.stop_load()
    world.kernel.run_until(world.kernel.now + 30.0)
    # Temporary deviations at that moment, such as a disk that is full until deleted copies are gone, may last for the rest of the time.
    world.until(over_or_well, over + AFTER - world.kernel.now, 15.0)
    world.judge.end()
    for reason in world.plot.reasons:
        if reason not in world.reasons:
            world.judge.breaks("c", f"{reason} was never reported")


def _strike(world: World, fault: Fault) -> None:
    asked = fault.kind in (
        "config_refused",
        "disk_drained",
        "broker_stopped",
        "replicas_edited",
    )  # requests of users do not interfere
    world.disturbed_at = world.kernel.now + (0.0 if asked else fault.lasts)
    faults.strike(world, fault)


def text(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


__all__ = ["NAMESPACE", "SYSTEM", "Outcome", "Plot", "World", "live", "plot"]
