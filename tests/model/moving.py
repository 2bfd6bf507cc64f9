"""A small Kafka for the executor: replicas that are copied, dirs that die, brokers that forget where replicas were to go.

It behaves as Kafka 4.3 does where the executor depends on it: a chosen dir is kept in a broker's memory only; without one a replica goes
to the dir with the fewest logs; a reassignment completes when all that are added are in sync; space is freed late.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.model.view import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    Broker,
    KafkaView,
    LogDir,
    Partition,
)
from spindle.moves.execute import execute as execute_requests
from spindle.moves.intents import ConfigureIntent, ElectIntent, Intent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import Journal, Move
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from spindle.moves.requests import MoveRequests
from spindle.moves.signals import MoveSignals

Key = tuple[str, int]


def execute(
    view: KafkaView,
    journal: Journal,
    moves: Iterable[Move],
    limits: Limits,
    *,
    signals: MoveSignals | None = None,
    **requests: Any,
) -> StepResult:
    """One step of the executor with these requests, by their names in `MoveRequests`."""
    asked = MoveRequests(moves=tuple(moves), **requests)
    return execute_requests(view, journal, asked, limits, signals or MoveSignals())


@dataclass
class Dir:
    total: int
    error: int = 0
    cordoned: bool = False
    replicas: dict[Key, int] = field(default_factory=dict)
    futures: dict[Key, int] = field(default_factory=dict)
    deleting: list[int] = field(default_factory=list)  # bytes of removed logs whose files are still there

    @property
    def used(self) -> int:
        return sum(self.replicas.values()) + sum(self.futures.values()) + sum(self.deleting)


@dataclass
class Node:
    rack: str
    dirs: dict[str, Dir]
    up: bool = True
    chosen: dict[Key, str] = field(default_factory=dict)

    @property
    def offline(self) -> bool:
        return any(d.error for d in self.dirs.values())

    def stands(self, key: Key) -> str | None:
        return next((path for path, d in self.dirs.items() if not d.error and key in d.replicas), None)


@dataclass
class Part:
    replicas: list[int]
    isr: list[int]
    size: int
    elr: list[int] = field(default_factory=list)
    leader: int | None = None
    target: list[int] | None = None  # of the reassignment under way
    before: list[int] = field(default_factory=list)
    foreign: bool = False

    @property
    def adding(self) -> list[int]:
        return [] if self.target is None else [b for b in self.target if b not in self.before]

    @property
    def removing(self) -> list[int]:
        return [] if self.target is None else [b for b in self.before if b not in self.target]


class BreachError(AssertionError):
    """A safety rule was broken."""


def long(topic: str, index: int) -> bool:
    """Whether AlterReplicaLogDirs answers INVALID_TOPIC: the folder of its future replica would have more than 255 characters."""
    return len(f"{topic}-{index}.{'0' * 32}-future") > 255


class Kafka:
    def __init__(self, nodes: dict[int, Node], parts: dict[Key, Part], min_isr: int, refuse: float) -> None:
        self.nodes, self.parts, self.min_isr, self.refuse = nodes, parts, min_isr, refuse
        self.settings: dict[tuple[str, str], dict[str, str]] = {("broker", str(b)): {} for b in nodes}
        self.settings |= {("topic", topic): {} for topic, _ in parts}
        self.epochless: set[Key] = set()  # led from a log without the leader's epoch (KAFKA-20961)
        self.users: dict[
            tuple[str, str, str], str
        ] = {}  # what a person has set, and when we are done has to stand
        for key, part in parts.items():
            part.leader = part.replicas[0]
            for broker in part.replicas:
                self.make(broker, key, part.size)
            part.isr = list(part.replicas)

    # What is seen

    def view(self) -> KafkaView:
        return KafkaView(
            brokers={b: self._broker(b, node) for b, node in self.nodes.items()},
            partitions=tuple(
                Partition(
                    topic,
                    index,
                    p.leader,
                    tuple(p.replicas),
                    tuple(p.isr),
                    tuple(p.elr),
                    tuple(p.adding),
                    tuple(p.removing),
                )
                for (topic, index), p in self.parts.items()
            ),
            min_isr={topic: self.min_isr for topic, _ in self.parts},
            settings={
                key: dict(values)
                for key, values in self.settings.items()
                if key[0] == "topic" or self.nodes[int(key[1])].up
            },
            own_epochs={
                key: key not in self.epochless
                for key, part in self.parts.items()
                if part.leader is not None and self.nodes[part.leader].up
            },
        )

    def _broker(self, b: int, node: Node) -> Broker:
        dirs = tuple(
            LogDir(path, d.error)
            if d.error
            else LogDir(path, 0, d.total, d.total - d.used, d.cordoned, dict(d.replicas), dict(d.futures))
            for path, d in node.dirs.items()
        )
        return Broker(b, node.rack, fenced=not node.up, log_dirs=dirs if node.up else None)

    # What it is told

    def carry_out(self, intent: Intent) -> None:
        """Raises ConnectionError for what Kafka turns down."""
        match intent:
            case PlaceReplicasIntent():
                self._place(intent)
            case ReassignIntent():
                for topic, index, replicas in intent.assignments:
                    self._reassign((topic, index), replicas)
            case ConfigureIntent():
                self._configure(intent)
            case ElectIntent():
                for key in intent.partitions:
                    part = self.parts[key]
                    if part.replicas[0] in part.isr and self.live(part.replicas[0], key):
                        self._lead(key, part.replicas[0])

    def _place(self, intent: PlaceReplicasIntent) -> None:
        node = self.nodes[intent.broker]
        if not node.up:
            raise ConnectionError(f"broker {intent.broker} is down")
        for topic, index, path in intent.placements:
            if long(topic, index):
                raise ConnectionError(f"INVALID_TOPIC: {topic}")
            if node.dirs[path].error or node.dirs[path].cordoned:
                raise ConnectionError(f"{path} takes nothing")
            if node.stands((topic, index)) is None:
                node.chosen[topic, index] = path

    def _configure(self, intent: ConfigureIntent) -> None:
        if intent.kind == "broker" and not self.nodes[int(intent.name)].up:
            raise ConnectionError(f"broker {intent.name} is down")
        values = self.settings[intent.kind, intent.name]
        for key, value in intent.values.items():
            mine = self.users.get((intent.kind, intent.name, key))
            if key.endswith(".rate") and mine is not None and value != mine:
                raise BreachError(f"rule 10: a person's {key} is overwritten with {value}")
            if value is None:
                values.pop(key, None)
            else:
                values[key] = value

    def _reassign(self, key: Key, replicas: tuple[int, ...] | None) -> None:
        part = self.parts[key]
        if replicas is None:
            if part.target is not None:
                if part.foreign:
                    raise BreachError(f"rule 6: {key} is somebody else's to cancel")
                self.cancel(key)
            return
        widened = part.target is not None and not part.adding and set(replicas) < set(part.target)
        if part.target is not None and part.target != list(replicas) and not (widened and not part.foreign):
            raise BreachError(f"rule 6: {key} is being reassigned already")
        self._check(key, part, list(replicas))
        self.begin(key, list(replicas), foreign=False)

    def _check(self, key: Key, part: Part, replicas: list[int]) -> None:
        """The rules, from what is really so."""
        adding = [b for b in replicas if b not in part.replicas]
        if any(b in part.isr or b in part.elr for b in adding):
            raise BreachError(f"rule 1: an empty replica of {key} where it may still lead")
        # On a broker that is down nothing is copied; one that is lost is left for others.
        copying = any(key in d.futures for n in self.nodes.values() if n.up for d in n.dirs.values())
        if (adding and copying) or len(adding) > 1:
            raise BreachError(f"rule 6: two replicas of {key} in motion")
        racks = [
            {self.nodes[b].rack for b in group if self.live(b, key)} for group in (part.replicas, replicas)
        ]
        if adding and len(racks[0]) > len(racks[1] | {self.nodes[b].rack for b in adding}):
            raise BreachError(f"rule 3: {key} loses a rack")
        for broker in adding:
            node, path = self.nodes[broker], self.nodes[broker].chosen.get(key)
            if path is None and not long(*key):
                raise BreachError(f"{key} is sent to broker {broker} without a chosen dir")
            path = path or max(node.dirs, key=lambda p: node.dirs[p].used + self._to_come(broker, p))
            chosen = node.dirs[path]
            if chosen.used + self._to_come(broker, path) + part.size > self.refuse * chosen.total:
                raise BreachError(f"rule 4: {key} overfills {path} of broker {broker}")
            self._check_throttle(key, broker, part)

    def _check_throttle(self, key: Key, broker: int, part: Part) -> None:
        topic, follower = self.settings["topic", key[0]], self.settings["broker", str(broker)]
        listed = topic.get(FOLLOWER_REPLICAS, "")
        if f"{key[1]}:{broker}" not in listed.split(",") and listed != "*":
            raise BreachError(f"{key} begins unthrottled")
        if FOLLOWER_RATE not in follower:
            raise BreachError(f"broker {broker} has no rate")
        if part.leader is not None and LEADER_RATE not in self.settings["broker", str(part.leader)]:
            raise BreachError(f"leader {part.leader} has no rate")

    def _to_come(self, broker: int, path: str) -> int:
        """Bytes on their way to a dir."""
        node, d = self.nodes[broker], self.nodes[broker].dirs[path]
        rest = sum(self.parts[key].size - copied for key, copied in d.futures.items())
        for key, part in self.parts.items():
            if broker in part.adding:
                stands = node.stands(key)
                if stands == path:
                    rest += part.size - d.replicas[key]
                elif stands is None and node.chosen.get(key) == path:
                    rest += part.size
        return rest

    # What happens

    def live(self, broker: int, key: Key) -> bool:
        node = self.nodes.get(broker)
        return node is not None and node.up and node.stands(key) is not None

    def make(self, broker: int, key: Key, size: int = 0) -> None:
        """Make a replica: on the chosen dir, else on the live one with the fewest logs."""
        node = self.nodes[broker]
        path = node.chosen.pop(key, None)
        if path is None or node.dirs[path].error:
            live = [p for p, d in node.dirs.items() if not d.error]
            if not live:
                return
            path = min(live, key=lambda p: (len(node.dirs[p].replicas), p))
        node.dirs[path].replicas[key] = size

    def begin(self, key: Key, replicas: list[int], *, foreign: bool) -> None:
        part = self.parts[key]
        if part.target is None:
            part.before = list(part.replicas)
        if set(replicas) == set(part.replicas) and part.target is None:
            part.replicas = replicas  # another order, no more
            return
        part.target, part.foreign = replicas, foreign
        part.replicas = replicas + [b for b in part.before if b not in replicas]
        self._make_missing(key)
        self._complete(key)

    def cancel(self, key: Key) -> None:
        part = self.parts[key]
        for broker in part.adding:
            self._remove(broker, key)
        # Kafka forgets the order: what was to be removed has come last meanwhile.
        adding = part.adding
        part.replicas = [b for b in part.replicas if b not in adding]
        part.target, part.foreign = None, False

    def _make_missing(self, key: Key) -> None:
        for broker in self.parts[key].adding:
            node = self.nodes[broker]
            if node.up and not any(key in d.replicas for d in node.dirs.values()):
                self.make(broker, key)

    def _complete(self, key: Key) -> None:
        part = self.parts[key]
        if part.target is None:
            return
        needed = part.adding or part.target
        left = [b for b in part.isr if b in part.target]
        if left and set(needed) <= set(part.isr):
            for broker in part.removing:
                self._remove(broker, key)
            part.replicas, part.isr = list(part.target), left
            part.target, part.foreign = None, False
            if part.leader not in part.replicas:
                self._lead(key, left[0] if left else None)

    def _remove(self, broker: int, key: Key) -> None:
        node = self.nodes[broker]
        node.chosen.pop(key, None)
        for d in node.dirs.values():
            for kind in (d.replicas, d.futures):
                if key in kind:
                    d.deleting.append(kind.pop(key))
        part = self.parts[key]
        part.isr = [b for b in part.isr if b != broker] or part.isr
        part.elr = [b for b in part.elr if b != broker]

    def tick(self, share: float, agents: Mapping[int, tuple[Move, ...]]) -> None:
        """Some time passes: copies grow by a share of their size, agents begin with what they were told, space is freed."""
        for node in self.nodes.values():
            for d in node.dirs.values():
                d.deleting.clear()
        for broker, moves in agents.items():
            self._agent(broker, moves)
        for key, part in self.parts.items():
            self._make_missing(key)
            self._elect(key)
            if part.leader is None:
                continue
            for broker in part.replicas:
                self._copy(broker, key, share)
            self._complete(key)
        self._swap(share)

    def _agent(self, broker: int, moves: tuple[Move, ...]) -> None:
        node = self.nodes[broker]
        wanted = {(m.key, m.to_dir) for m in moves}
        for path, d in node.dirs.items():
            for key in [k for k in d.futures if (k, path) not in wanted]:
                del d.futures[key]  # taken back
        for move in moves[:2]:
            stands = node.stands(move.key)
            if node.up and not node.offline and stands not in (None, move.to_dir):
                chosen = node.dirs[move.to_dir]
                if self.parts[move.key].target is not None and not self.parts[move.key].foreign:
                    raise BreachError(f"rule 6: {move.key} copied while it is reassigned")
                if move.key not in chosen.futures:
                    chosen.futures[move.key] = 0

    def _copy(self, broker: int, key: Key, share: float) -> None:
        node, part = self.nodes[broker], self.parts[key]
        path = node.stands(key)
        if not node.up or path is None or broker in part.isr:
            return
        d = node.dirs[path]
        d.replicas[key] = min(part.size, d.replicas[key] + max(1, int(part.size * share)))
        if d.replicas[key] >= part.size:
            part.isr.append(broker)
            part.elr = [b for b in part.elr if b != broker]
            if len(part.isr) >= self.min_isr:
                part.elr = []

    def _swap(self, share: float) -> None:
        for b, node in self.nodes.items():
            for path, d in node.dirs.items():
                for key in list(d.futures):
                    d.futures[key] += max(1, int(self.parts[key].size * share))
                    if d.futures[key] >= self.parts[key].size:
                        old = node.stands(key)
                        del d.futures[key]
                        if old is not None and old != path:
                            node.dirs[old].deleting.append(node.dirs[old].replicas.pop(key))
                            d.replicas[key] = self.parts[key].size
                            if self.parts[key].leader == b:
                                self.epochless.add(key)

    def _lead(self, key: Key, broker: int | None) -> None:
        """Another leader records its epoch in its log."""
        if broker != self.parts[key].leader:
            self.epochless.discard(key)
        self.parts[key].leader = broker

    def _elect(self, key: Key) -> None:
        part = self.parts[key]
        if part.leader is not None and self.live(part.leader, key):
            return
        self._lead(key, next((b for b in (*part.isr, *part.elr) if self.live(b, key)), None))
        if part.leader is not None and part.leader not in part.isr:
            part.isr = [part.leader]
            part.elr = []

    def _fall(self, broker: int, key: Key) -> None:
        """A replica falls out of the ISR; the last one stays in it, without a leader."""
        part = self.parts[key]
        if broker in part.isr and len(part.isr) > 1:
            part.isr.remove(broker)
            if len(part.isr) < self.min_isr and broker not in part.elr:
                part.elr.append(broker)
        self._elect(key)

    def die(self, broker: int, path: str) -> None:
        """A dir dies; a broker's last one takes the broker down, which is left out here."""
        node = self.nodes[broker]
        if sum(not d.error for d in node.dirs.values()) < 2 or node.dirs[path].error:
            return
        lost = list(node.dirs[path].replicas)
        node.dirs[path] = Dir(node.dirs[path].total, error=56)
        for d in node.dirs.values():
            for key in lost:
                d.futures.pop(key, None)
        node.dirs[path].replicas = {}
        for key in lost:
            self._fall(broker, key)
        # What stood there is not made anew while the dir is offline.
        node.dirs[path].replicas = dict.fromkeys(lost, 0)

    def stop(self, broker: int) -> None:
        node = self.nodes[broker]
        node.up = False
        node.chosen.clear()
        for key, part in self.parts.items():
            if broker in part.replicas:
                self._fall(broker, key)

    def start(self, broker: int) -> None:
        self.nodes[broker].up = True
        for key in self.parts:
            self._make_missing(key)
            self._elect(key)
