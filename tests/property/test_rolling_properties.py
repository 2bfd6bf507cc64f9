"""Rule 2 as an invariant: from any state, interrupted or not, what the predicate allows never does harm."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.model.restart_safety import RestartSafety, may_go_down
from spindle.model.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle.rollout.controllers import controller_may_go_down


@dataclass
class Copy:
    """One partition of the model: what is true, not what Kafka says."""

    replicas: tuple[int, ...]
    min_isr: int
    isr: set[int]


@dataclass
class Model:
    """A Kafka whose controller notices late: `up` is the truth, `seen_down` what it has noticed."""

    brokers: int
    copies: list[Copy]
    up: set[int]
    seen_down: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)  # the marks: what we took down and what is not back yet

    def writable(self, copy: Copy) -> bool:
        return len(copy.isr & self.up) >= copy.min_isr

    def notice(self, broker: int) -> None:
        """The controller fences a broker that is down and takes it out of the ISRs, but never the last one."""
        if broker in self.up:
            return
        self.seen_down.add(broker)
        for copy in self.copies:
            if len(copy.isr) > 1:
                copy.isr.discard(broker)

    def start(self, broker: int) -> None:
        self.notice(broker)
        self.up.add(broker)
        self.seen_down.discard(broker)
        self.going.discard(broker)

    def catch_up(self, broker: int) -> None:
        """A running broker is back in the ISRs of what has a leader."""
        for copy in self.copies:
            if broker in self.up and broker in copy.replicas and copy.isr & self.up:
                copy.isr.add(broker)

    def take_down(self, broker: int) -> None:
        """Our own step, if it is allowed, judged against the truth."""
        if not may_go_down(self.view(), broker, frozenset(self.going)).allowed:
            return
        needed = [c for c in self.copies if len(c.replicas) > c.min_isr and self.writable(c)]
        self.up.discard(broker)
        self.going.add(broker)
        assert all(self.writable(c) for c in needed)

    def view(self) -> KafkaView:
        partitions = tuple(
            Partition(
                "t", i, next(iter(sorted(c.isr - self.seen_down)), None), c.replicas, tuple(sorted(c.isr))
            )
            for i, c in enumerate(self.copies)
        )
        topics = {("t", i): c for i, c in enumerate(self.copies)}
        brokers = {
            b: Broker(
                b,
                None,
                b in self.seen_down,
                None
                if b not in self.up or b in self.silent
                else (LogDir("/d", replicas={k: 1 for k, c in topics.items() if b in c.replicas}),),
            )
            for b in range(self.brokers)
        }
        return KafkaView(brokers=brokers, partitions=partitions, min_isr={"t": self.copies[0].min_isr})


@st.composite
def models(draw: st.DrawFn) -> Model:
    brokers = draw(st.integers(1, 6))
    min_isr = draw(st.integers(1, 3))
    copies = []
    for _ in range(draw(st.integers(1, 8))):
        rf = draw(st.integers(1, brokers))
        replicas = tuple(draw(st.permutations(range(brokers)))[:rf])
        isr = set(draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True)))
        copies.append(Copy(replicas, min_isr, isr))
    up = set(draw(st.lists(st.integers(0, brokers - 1), unique=True)))
    return Model(brokers, copies, up)


_EVENTS = ["take-down", "take-down", "crash", "notice", "start", "catch-up", "silence", "hear"]


@settings(max_examples=300, deadline=None)
@given(models(), st.lists(st.tuples(st.sampled_from(_EVENTS), st.integers(0, 5)), max_size=40))
def test_no_allowed_take_down_makes_a_writable_partition_unwritable(
    model: Model, events: list[tuple[str, int]]
) -> None:
    """Between our steps anything may fail, come back, or fall silent."""
    step = {
        "take-down": model.take_down,
        "crash": model.up.discard,
        "notice": model.notice,
        "start": model.start,
        "catch-up": model.catch_up,
        "silence": model.silent.add,
        "hear": model.silent.discard,
    }
    for event, number in events:
        step[event](number % model.brokers)


_IDS = st.integers(0, 4)
_PARTITIONS = st.builds(
    lambda index, replicas, isr, adding, removing, leader: Partition(
        "t", index, leader, tuple(replicas), tuple(isr), None, tuple(adding), tuple(removing)
    ),
    st.integers(0, 9),
    *(st.lists(_IDS, unique=True, max_size=5) for _ in range(4)),
    st.none() | _IDS,
)
_DIRS = st.builds(
    lambda error, held: LogDir("/d", error, replicas={("t", i): 1 for i in held}),
    st.sampled_from([0, 56]),
    st.sets(st.integers(0, 9)),
)
_BROKERS = st.dictionaries(
    _IDS,
    st.builds(
        lambda f, d: (f, d), st.none() | st.booleans(), st.none() | st.lists(_DIRS, max_size=3).map(tuple)
    ),
).map(lambda found: {i: Broker(i, None, fenced, dirs) for i, (fenced, dirs) in found.items()})
_VIEWS = st.builds(
    KafkaView,
    error=st.none() | st.just("no answer"),
    brokers=st.none() | _BROKERS,
    partitions=st.none() | st.lists(_PARTITIONS, max_size=6).map(tuple),
    min_isr=st.none() | st.dictionaries(st.just("t"), st.integers(1, 4)),
)


@given(_VIEWS, _IDS, st.frozensets(_IDS))
def test_unknown_permits_nothing_and_nothing_crashes(
    view: KafkaView, broker: int, down: frozenset[int]
) -> None:
    verdict = RestartSafety(view).may_go_down(broker, down)
    if view.error or view.brokers is None or view.partitions is None or view.min_isr is None:
        assert not verdict.allowed
    if verdict.refusal:
        assert verdict.refusal.rule == 2
        assert verdict.refusal.message.endswith(".")
        assert verdict.refusal.unblocked_by


@given(_VIEWS, _IDS, st.frozensets(_IDS), _IDS)
def test_with_more_going_down_never_more_is_allowed(
    view: KafkaView, broker: int, down: frozenset[int], other: int
) -> None:
    if may_go_down(view, broker, down | {other}).allowed:
        assert may_go_down(view, broker, down).allowed


@given(_VIEWS, _IDS, st.frozensets(_IDS), st.integers(0, 4))
def test_losing_sight_of_a_broker_never_allows_more(
    view: KafkaView, broker: int, down: frozenset[int], blind: int
) -> None:
    """Rule 8: an answer that is missing counts against, never for."""
    if not view.brokers or blind not in view.brokers:
        return
    seen = view.brokers[blind]
    blinded = KafkaView(
        error=view.error,
        brokers={**view.brokers, blind: Broker(blind, None, seen.fenced, None)},
        partitions=view.partitions,
        min_isr=view.min_isr,
    )
    if may_go_down(blinded, broker, down).allowed:
        assert may_go_down(view, broker, down).allowed


@given(
    st.lists(st.none() | st.booleans(), min_size=1, max_size=7),
    st.lists(st.integers(0, 6), max_size=12),
)
def test_the_quorum_never_loses_its_majority_by_us(caught_up: list[bool | None], asked: list[int]) -> None:
    voters = tuple(Voter(9000 + i, f"d{i}", c) for i, c in enumerate(caught_up))
    down: set[int] = set()
    for number in asked:
        node = 9000 + number % len(voters)
        good = [v for v in voters if v.caught_up and v.id not in down]
        if node in down or not controller_may_go_down(Quorum(9000, voters), node, frozenset(down)).allowed:
            continue
        down.add(node)
        left = [v for v in good if v.id != node]
        assert len(voters) == 1 or len(left) > len(voters) // 2
