"""Whole rolls: how many steps they take, and that no partition falls below its minimum however they are interrupted."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.restart_safety import RestartSafety
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.rollout.rollout_order import RolloutMember, at_once, next_to_restart


@dataclass
class Fleet:
    """Brokers with racks, and partitions of which `isr` is the truth."""

    racks: Sequence[str | None]
    replicas: Sequence[tuple[int, ...]]
    min_isr: int
    most: int
    down: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)  # went down by our hand and are not back
    behind: dict[int, set[int]] = field(default_factory=dict)  # broker → partitions that it lags on
    todo: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.todo = set(range(len(self.racks)))

    def isr(self, index: int) -> tuple[int, ...]:
        lagging = {b for b, partitions in self.behind.items() if index in partitions}
        return tuple(b for b in self.replicas[index] if b not in self.down and b not in lagging)

    def view(self) -> KafkaView:
        brokers = {}
        for broker, rack in enumerate(self.racks):
            held = {("t", i): 1 for i, r in enumerate(self.replicas) if broker in r}
            dirs = None if broker in self.down else (LogDir("/d", replicas=held),)
            brokers[broker] = Broker(broker, rack, broker in self.down, dirs)
        partitions = tuple(
            Partition("t", i, (self.isr(i) or (None,))[0], r, self.isr(i))
            for i, r in enumerate(self.replicas)
        )
        return KafkaView(brokers=brokers, partitions=partitions, min_isr={"t": self.min_isr})

    def member(self, broker: int) -> RolloutMember:
        ready = broker not in self.down and not self.behind.get(broker)
        return RolloutMember(node_id=broker, rack=self.racks[broker], ready=ready)

    def step(self) -> tuple[int, ...]:
        """One turn of a roll, as the operator takes it."""
        rolling, gone = RestartSafety(self.view()), frozenset(self.down | self.going)

        def ask(broker: int, others: frozenset[int]) -> RestartVerdict:
            return rolling.may_go_down(broker, (gone | others) - {broker})

        able = [self.member(b) for b in self.todo - self.down - self.going]
        turn = next_to_restart(able, [self.member(b) for b in self.going], self.most, ask)
        writable = [
            i for i in range(len(self.replicas)) if self.counts(i) and len(self.isr(i)) >= self.min_isr
        ]
        self.down |= set(turn.go)
        self.going |= set(turn.go)
        self.todo -= set(turn.go)
        assert all(len(self.isr(i)) >= self.min_isr for i in writable)
        assert len(self.going) <= self.most
        assert len({self.racks[b] for b in self.going}) <= 1
        return turn.go

    def counts(self, index: int) -> bool:
        """Whether rule 2 looks after the partition: with no more copies than the minimum nothing could keep it up."""
        return len(self.replicas[index]) > self.min_isr

    def start(self, broker: int) -> None:
        if broker in self.down:
            self.down.discard(broker)
            self.behind[broker] = {i for i, r in enumerate(self.replicas) if broker in r}

    def catch_up(self, broker: int) -> None:
        if broker not in self.down:
            self.behind[broker] = set()
            self.going.discard(broker)

    def fail(self, broker: int) -> None:
        """It goes down by itself, at the worst of times."""
        self.down.add(broker)


def spread(racks: int, each: int, partitions: int) -> Fleet:
    """RF 3 over racks, as Kafka places: one replica in each."""
    where = [f"rack{b % racks}" for b in range(racks * each)]
    replicas = [tuple((b * 7 + i) % each * racks + b for b in range(3)) for i in range(partitions)]
    return Fleet(where, replicas, 2, at_once(racks * each, None))


def test_sixty_brokers_on_three_racks_are_through_in_twelve_steps() -> None:
    fleet = spread(3, 20, 600)
    steps = 0
    while fleet.todo:
        gone = fleet.step()
        assert gone, "the roll stands still"
        steps += 1
        for broker in gone:
            fleet.start(broker)
            fleet.catch_up(broker)
    assert steps <= 12


def test_a_small_cluster_goes_one_by_one() -> None:
    fleet = spread(3, 1, 12)
    order = []
    while fleet.todo:
        (gone,) = fleet.step()
        order.append(gone)
        fleet.start(gone)
        fleet.catch_up(gone)
    assert sorted(order) == [0, 1, 2]


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(2, 9))
    racks = draw(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=count, max_size=count))
    ids = st.lists(st.integers(0, count - 1), unique=True, min_size=1, max_size=min(4, count)).map(tuple)
    replicas = draw(st.lists(ids, min_size=1, max_size=12))
    return Fleet(racks, replicas, draw(st.integers(1, 3)), draw(st.integers(1, 4)))


EVENTS = st.lists(
    st.tuples(st.sampled_from(["step", "step", "start", "catch", "fail"]), st.integers(0, 8)), max_size=40
)


@settings(max_examples=300, deadline=None)
@given(fleets(), EVENTS)
def test_no_roll_takes_a_partition_below_its_minimum(fleet: Fleet, events: list[tuple[str, int]]) -> None:
    for what, number in events:
        broker = number % len(fleet.racks)
        if what == "step":
            fleet.step()
        elif what == "start":
            fleet.start(broker)
        elif what == "catch":
            fleet.catch_up(broker)
        else:
            fleet.fail(broker)


@settings(max_examples=200, deadline=None)
@given(fleets())
def test_a_roll_of_a_healthy_cluster_comes_to_its_end_unless_a_rule_holds_it(fleet: Fleet) -> None:
    for _ in range(2 * len(fleet.racks) + 2):
        for broker in fleet.step():
            fleet.start(broker)
            fleet.catch_up(broker)
    rolling = RestartSafety(fleet.view())
    assert all(not rolling.may_go_down(broker).allowed for broker in fleet.todo)
