"""The executor against a small Kafka that fails, forgets and is meddled with, and an operator that dies between any two orders."""

import os
from collections.abc import Iterable

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spindle.api.enums import Pressure
from spindle.model.view import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE
from spindle.moves.execute import cleanup
from spindle.moves.intents import ReassignIntent
from spindle.moves.journal import GROW, DroppedReplica, Journal, Move, RemovedReplica, parse, render
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from spindle.moves.removals import may_remove
from spindle.moves.signals import MoveSignals
from tests.examples import examples
from tests.model.moving import Dir, Kafka, Key, Node, Part, execute

LIMITS = Limits(
    moves_per_broker=3,
    moves_per_dir=2,
    small=40,
    queued_per_broker=3,
    bytes_per_second=1000,
    least_bytes_per_second=100,
)
BROKERS, DIRS, TOTAL = 5, 2, 400
PATHS = [f"/d{i}/log" for i in range(DIRS)]
QUIET = 200  # steps after which everything must have come to rest

brokers = st.integers(0, BROKERS - 1)
paths = st.sampled_from(PATHS)


class Executor(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.record = ""  # the ConfigMap
        self.agents: dict[int, tuple[Move, ...]] = {}  # each broker's spec.moves
        self.lost: set[int] = set()
        self.now = 0.0
        self.died = False
        self.felt: dict[tuple[int, str], Pressure] = {}
        self.failed: dict[tuple[int, Key, str], str] = {}  # what agents say that they gave up
        self.wishes: dict[Key, int] = {}  # replication factors that are asked for

    @initialize(data=st.data())
    def born(self, data: st.DataObject) -> None:
        nodes = {b: Node(f"rack-{b % 3}", {path: Dir(TOTAL) for path in PATHS}) for b in range(BROKERS)}
        parts: dict[Key, Part] = {}
        for index in range(data.draw(st.integers(1, 6))):
            replicas = data.draw(st.lists(brokers, min_size=1, max_size=3, unique=True))
            parts["ab"[index % 2], index] = Part(replicas, [], data.draw(st.integers(1, 80)))
        self.kafka = Kafka(nodes, parts, min_isr=data.draw(st.integers(1, 2)), refuse=LIMITS.reject_moves)

    @property
    def journal(self) -> Journal:
        return parse(self.record)

    def step(
        self,
        wanted: Iterable[Move] = (),
        shrinks: Iterable[DroppedReplica] = (),
        dies_after: int | None = None,
    ) -> StepResult:
        """One step of an operator that knows nothing but the record; it may die after so many writes."""
        outcome = execute(
            self.kafka.view(),
            self.journal,
            tuple(wanted),
            LIMITS,
            shrinks=tuple(shrinks),
            lost=self.lost,
            removals=tuple(self.removals()),
            withdrawn=frozenset(
                m.key for m in self.journal.moves if m.reason == GROW and not self.grows(m.key)
            ),
            signals=MoveSignals(now=self.now, felt=self.felt, failed=self.failed),
        )
        self.carry_out(outcome, dies_after)
        return outcome

    def factor(self, key: Key) -> int:
        part = self.kafka.parts[key]
        return len(set(part.replicas) - set(part.adding))

    def grows(self, key: Key) -> bool:
        return self.factor(key) < self.wishes.get(key, 0)

    def additions(self, data: st.DataObject) -> list[Move]:
        dropped = {entry.key for entry in self.journal.dropped}
        return [
            Move(*key, None, None, data.draw(brokers), data.draw(paths), part.size, GROW)
            for key, part in self.kafka.parts.items()
            if self.grows(key) and key not in dropped
        ]

    def removals(self) -> Iterable[RemovedReplica]:
        """What a topic with too many replicas would remove: the same as before where that is recorded."""
        look, recorded = KafkaIndex(self.kafka.view()), {e.key: e for e in self.journal.removed}
        dropped = {entry.key for entry in self.journal.dropped}
        for key, part in self.kafka.parts.items():
            if self.factor(key) <= self.wishes.get(key, BROKERS) or key in dropped:
                continue
            if key in recorded and recorded[key].broker in part.replicas:
                yield recorded[key]
                continue
            able = (b for b in part.replicas if may_remove(look, look.partitions[key], b) is None)
            if (broker := next(able, None)) is not None:
                yield RemovedReplica(*key, broker)

    def check_removal(self, key: Key, replicas: tuple[int, ...]) -> None:
        """Judged by what is really so: rules 2 and 3."""
        part, nodes = self.kafka.parts[key], self.kafka.nodes
        assert len(replicas) == len(part.replicas) - 1 >= self.kafka.min_isr
        assert set(replicas) <= {b for b in part.isr if self.kafka.live(b, key)}
        before, after = ({nodes[b].rack for b in group} for group in (part.replicas, replicas))
        assert len(after) >= min(len(replicas), len(before))

    def carry_out(self, outcome: StepResult, dies_after: int | None) -> None:
        left = 10**9 if dies_after is None else dies_after
        self.died |= dies_after is not None
        if left > 0:
            self.record = render(outcome.journal)
        if left > 1:
            self.agents = dict(outcome.agent_moves)
            asked = {(b, move.key, move.to_dir) for b, moves in self.agents.items() for move in moves}
            self.failed = {name: why for name, why in self.failed.items() if name in asked}
        for intent in outcome.actions[: max(0, left - 2)]:
            if isinstance(intent, ReassignIntent) and intent.reason == "ReplicasReduced":
                for topic, index, replicas in intent.assignments:
                    self.check_removal((topic, index), replicas or ())
            try:
                self.kafka.carry_out(intent)
            except ConnectionError:
                return

    def wanted(self, data: st.DataObject) -> list[Move]:
        moves = []
        for key in data.draw(st.lists(st.sampled_from(sorted(self.kafka.parts)), max_size=5)):
            part = self.kafka.parts[key]
            source = data.draw(st.sampled_from(part.replicas))
            target = data.draw(st.one_of(brokers, st.just(source)))
            moves.append(Move(*key, source, None, target, data.draw(paths), part.size, "test"))
        grown = [
            Move(s.topic, s.partition, None, None, s.broker, data.draw(paths), s.bytes, "restore")
            for s in self.journal.dropped
        ]
        return grown + self.additions(data) + moves

    def shrinkable(self) -> list[DroppedReplica]:
        """What rule 5 would let go: dead replicas of partitions that keep their minimum without them."""
        return [
            DroppedReplica(*key, b, part.size, tuple(part.replicas))
            for key, part in self.kafka.parts.items()
            for b in part.replicas
            if self.kafka.nodes[b].up
            and not self.kafka.live(b, key)
            and sum(self.kafka.live(o, key) for o in part.isr if o != b) >= self.kafka.min_isr
        ]

    @rule(data=st.data(), dies_after=st.one_of(st.none(), st.integers(0, 8)))
    def operator(self, data: st.DataObject, dies_after: int | None) -> None:
        shrinks = self.shrinkable() if data.draw(st.booleans()) else []
        self.step(self.wanted(data), shrinks, dies_after)

    @rule(data=st.data(), wish=st.integers(1, 4))
    def somebody_edits_replicas(self, data: st.DataObject, wish: int) -> None:
        self.wishes[data.draw(st.sampled_from(sorted(self.kafka.parts)))] = wish

    @rule(share=st.sampled_from([0.1, 0.4, 1.0]))
    def time_passes(self, share: float) -> None:
        self.now += 5
        self.kafka.tick(share, self.agents)

    @rule(broker=brokers, path=paths, felt=st.sampled_from(Pressure))
    def disk_feels(self, broker: int, path: str, felt: Pressure) -> None:
        self.felt[broker, path] = felt

    @precondition(lambda self: any(self.agents.values()))
    @rule(data=st.data())
    def agent_gives_up(self, data: st.DataObject) -> None:
        broker = data.draw(st.sampled_from(sorted(b for b, moves in self.agents.items() if moves)))
        move = data.draw(st.sampled_from(self.agents[broker]))
        self.failed[broker, move.key, move.to_dir] = "No progress."
        self.kafka.nodes[broker].dirs[move.to_dir].futures.pop(move.key, None)

    @rule(broker=brokers)
    def restart(self, broker: int) -> None:
        self.kafka.stop(broker)
        self.kafka.start(broker)

    @rule(broker=brokers)
    def goes_down(self, broker: int) -> None:
        self.kafka.stop(broker)

    @rule(broker=brokers)
    def comes_up(self, broker: int) -> None:
        self.kafka.start(broker)
        self.lost.discard(broker)

    @precondition(lambda self: any(not n.up for n in self.kafka.nodes.values()))
    @rule(data=st.data())
    def is_lost(self, data: st.DataObject) -> None:
        self.lost.add(data.draw(st.sampled_from([b for b, n in self.kafka.nodes.items() if not n.up])))

    @rule(broker=brokers, path=paths)
    def disk_dies(self, broker: int, path: str) -> None:
        self.kafka.die(broker, path)

    @rule(broker=brokers, path=paths)
    def is_cordoned(self, broker: int, path: str) -> None:
        self.kafka.nodes[broker].dirs[path].cordoned ^= True

    @rule(data=st.data())
    def somebody_reassigns(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.kafka.parts)))
        replicas = data.draw(st.lists(brokers, min_size=1, max_size=3, unique=True))
        part, move = self.kafka.parts[key], next((m for m in self.journal.moves if m.key == key), None)
        if part.target is None:
            # The same as ours cannot be told from ours.
            came, went = set(replicas) - set(part.replicas), set(part.replicas) - set(replicas)
            ours = (
                move is not None
                and move.target in replicas
                and came <= {move.target}
                and went <= {move.source}
            )
            self.kafka.begin(key, replicas, foreign=not ours)

    @rule(data=st.data())
    def somebody_cancels(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.kafka.parts)))
        if self.kafka.parts[key].target is not None:
            self.kafka.cancel(key)

    @rule(
        broker=brokers,
        key=st.sampled_from([LEADER_RATE, FOLLOWER_RATE]),
        value=st.sampled_from(["7", "8", None]),
    )
    def somebody_sets_a_rate(self, broker: int, key: str, value: str | None) -> None:
        self.person(("broker", str(broker), key), value)

    @rule(data=st.data(), value=st.sampled_from(["*", "77:9,78:9", None]))
    def somebody_lists_replicas(self, data: st.DataObject, value: str | None) -> None:
        topic, _ = data.draw(st.sampled_from(sorted(self.kafka.parts)))
        self.person(("topic", topic, FOLLOWER_REPLICAS), value)

    def person(self, key: tuple[str, str, str], value: str | None) -> None:
        values = self.kafka.settings[key[:2]]
        if value is None:
            self.kafka.users.pop(key, None)
            values.pop(key[2], None)
        else:
            self.kafka.users[key] = values[key[2]] = value

    @invariant()
    def one_move_of_each_partition(self) -> None:
        keys = [move.key for move in self.journal.moves]
        assert len(keys) == len(set(keys))

    @invariant()
    def rates_stay_in_their_bounds(self) -> None:
        for entry in self.journal.settings:
            if entry.key.endswith(".rate") and entry.ours is not None:
                assert 100 <= int(entry.ours) <= 1000

    @invariant()
    def what_rests_is_not_asked_for(self) -> None:
        resting = {rest.id for rest in self.journal.backoffs if self.now < rest.until}
        within = {(*m.key, m.target, m.to_dir) for m in self.journal.moves if m.within}
        # A replica that landed on another dir than its own is sent on, whatever rests.
        sent_on = {(*m.key, m.target, m.to_dir) for m in self.journal.moves if m.before}
        assert not resting & (within - sent_on)

    def teardown(self) -> None:
        if not hasattr(self, "kafka"):
            return
        self.lost.clear()
        for broker in self.kafka.nodes:
            self.kafka.start(broker)
        for _ in range(QUIET):
            if not self.journal.moves and not self.journal.settings and not self.leaving():
                break
            self.step()
            self.kafka.tick(1.0, self.agents)
        assert not self.journal.moves
        assert not self.journal.settings
        assert not self.leaving()
        self.check_settings()
        for _ in range(3):
            self.step()
            self.kafka.tick(1.0, self.agents)
        self.wishes.clear()
        self.now += 100
        for _ in range(4):
            self.step()
        again = execute(self.kafka.view(), self.journal, (), LIMITS, signals=MoveSignals(now=self.now))
        assert (again.journal, again.actions, dict(again.agent_moves)) == (self.journal, (), {})
        # No leader lacks its epoch where another replica can lead for a moment (KAFKA-20961). An agent that was not told the end of a move
        # because operators died may have completed it after that was checked.
        assert self.died or not any(len(self.kafka.parts[key].isr) > 1 for key in self.kafka.epochless)

    def leaving(self) -> bool:
        """Whether replicas leave for good."""
        return any(entry.broker in self.kafka.parts[entry.key].replicas for entry in self.journal.removed)

    def check_settings(self) -> None:
        live = {(*name, key): v for name, values in self.kafka.settings.items() for key, v in values.items()}
        assert live == self.kafka.users


class Farewell(Executor):
    """The same, but the cluster is deleted at the end: nothing may be waited for."""

    def teardown(self) -> None:
        if not hasattr(self, "kafka"):
            return
        for broker in self.kafka.nodes:
            self.kafka.start(broker)
        others = {key: part.isr[-1] for key, part in self.kafka.parts.items() if len(part.isr) > 1}
        signals = MoveSignals(now=self.now)
        self.carry_out(
            execute(self.kafka.view(), self.journal, (), LIMITS, leads=others, signals=signals), None
        )
        turned = self.journal.leadership
        for _ in range(8):
            self.carry_out(cleanup(self.kafka.view(), self.journal), None)
        assert not self.journal.moves
        assert not self.journal.settings
        kept = {entry.key for entry in self.journal.leadership}
        for entry in turned:
            part = self.kafka.parts[entry.key]
            copied = any(
                entry.key in d.futures for node in self.kafka.nodes.values() for d in node.dirs.values()
            )
            if entry.key in kept:  # the previous leader cannot take over
                assert entry.before[0] not in part.isr or part.target is not None or copied
            elif set(part.replicas) == set(entry.before):
                assert tuple(part.replicas) == entry.before
        self.check_settings()
        # A replica that leaves may take its time; none is on its way in any more.
        assert not any(p.adding and not p.foreign for p in self.kafka.parts.values())


_RUNS = int(os.environ.get("SPINDLE_MOVES_RUNS", examples(30)))
# Shrinking a run of 40 steps takes minutes; the run as it was found says enough.
_SETTINGS = settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    max_examples=_RUNS,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)

TestExecutor = Executor.TestCase
TestExecutor.settings = _SETTINGS
TestFarewell = Farewell.TestCase
TestFarewell.settings = _SETTINGS
