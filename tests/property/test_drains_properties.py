"""Drains as an invariant: whatever others evict, in whatever order, as long as the budgets let them, no partition falls below its minimum."""

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spindle.model.restart_safety import RestartSafety
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.rollout.drains import DrainCandidate, next_to_drain


@dataclass
class Fleet:
    """Brokers of which others evict some; the operator looks now and then.

    Attributes:
        closed: brokers on nodes that take no new pods.
        down: who was evicted and is not back; who is `behind` is back and not in sync.
        given: who was moved to the draining rack's own budget.
    """

    racks: list[str | None]
    replicas: list[tuple[int, ...]]
    closed: set[int] = field(default_factory=set)
    down: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)
    given: set[int] = field(default_factory=set)

    @property
    def whole(self) -> set[int]:
        return set(range(len(self.racks))) - self.down - self.behind

    def isr(self, partition: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(b for b in partition if b in self.whole)

    def view(self) -> KafkaView:
        held = {
            b: {("t", i): 1 for i, r in enumerate(self.replicas) if b in r} for b in range(len(self.racks))
        }
        brokers = {
            b: Broker(b, rack, b in self.down, None if b in self.down else (LogDir("/d", replicas=held[b]),))
            for b, rack in enumerate(self.racks)
        }
        partitions = tuple(
            Partition("t", i, (self.isr(r) or (None,))[0], r, self.isr(r))
            for i, r in enumerate(self.replicas)
        )
        return KafkaView(brokers=brokers, partitions=partitions, min_isr={"t": 2})

    def look(self) -> None:
        """A pass of the operator, as `settle_drains` does it."""
        rolling, gone = RestartSafety(self.view()), frozenset(self.down | self.given)

        def ask(broker: int, others: frozenset[int]) -> RestartVerdict:
            return rolling.may_go_down(broker, (gone | others) - {broker})

        residents = [
            DrainCandidate(
                node_id=b,
                rack=rack,
                closed=b in self.closed,
                whole=b in self.whole,
                there=b not in self.down,
                open=b in self.given,
            )
            for b, rack in enumerate(self.racks)
        ]
        go = set(next_to_drain(residents, ask).go)
        self.given = go if self.given <= go else self.given & go

    def evict(self, broker: int) -> None:
        """Somebody's eviction: the usual budget lets one of all go, the other one all that it has."""
        if broker in self.down:
            return
        usual = self.whole - self.given
        allowed = broker in self.given or (broker in usual and len(usual) == len(self.racks))
        if allowed:
            self.down.add(broker)
            self.behind.discard(broker)
            self.given.discard(broker)
        assert all(len(self.isr(r)) >= 2 for r in self.replicas), (self.down, self.behind, self.given)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(3, 9))
    racks = draw(st.sampled_from([1, 3, 0]))
    where: list[str | None] = [f"r{b % racks}" if racks else None for b in range(count)]
    each = st.lists(st.integers(0, count - 1), min_size=3, max_size=3, unique=True).map(tuple)
    return Fleet(where, draw(st.lists(each, min_size=1, max_size=8)))


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["evict", "evict", "close", "open", "start", "sync", "look", "look"]),
        st.integers(0, 8),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(fleets(), _STEPS)
def test_no_order_of_evictions_takes_a_partition_below_its_minimum(
    fleet: Fleet, steps: list[tuple[str, int]]
) -> None:
    for step, number in steps:
        broker = number % len(fleet.racks)
        if step == "evict":
            fleet.evict(broker)
        elif step == "close":
            fleet.closed.add(broker)
        elif step == "open":
            fleet.closed.discard(broker)
        elif step == "start" and broker in fleet.down and broker not in fleet.closed:
            fleet.down.discard(broker)
            fleet.behind.add(broker)
        elif step == "sync":
            fleet.behind.discard(broker)
        else:
            fleet.look()
        lacking = {fleet.racks[b] for b in fleet.down}
        assert len(lacking) <= 1


def test_a_zone_of_three_goes_as_a_whole() -> None:
    fleet = Fleet([f"r{b % 3}" for b in range(9)], [(b, (b + 1) % 9, (b + 2) % 9) for b in range(9)])
    fleet.closed = {0, 3, 6}
    for broker in (0, 3, 6):
        fleet.look()
        fleet.evict(broker)
    assert fleet.down == {0, 3, 6}
