"""Whatever happens between, moves between dirs come to an end, few at once, and nothing of anybody else's is touched."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from spindle.api.enums import DirMoveState
from spindle_agent.broker.client import Copy, LogDir
from spindle_agent.moves import decide, progress
from spindle_agent.moves.decide import AT_ONCE
from spindle_agent.moves.progress import Move, Progress

DIRS = ("/a", "/b", "/c")
SIZE = 3
PARTITIONS = range(4)


@dataclass
class Growing:
    """A copy."""

    path: str
    size: int = 0


@dataclass
class Broker:
    """A broker with three dirs; copies grow by one each round and take over when they are complete."""

    home: dict[int, str] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, DIRS[0]))
    copies: dict[int, Growing] = field(default_factory=dict)
    offline: bool = False
    foreign: set[tuple[int, str]] = field(default_factory=set)

    def dirs(self) -> list[LogDir]:
        live = [
            LogDir(
                path,
                0,
                {("t", p): SIZE for p, home in self.home.items() if home == path},
                {("t", p): Copy(c.size, SIZE - c.size) for p, c in self.copies.items() if c.path == path},
            )
            for path in DIRS
        ]
        return [*live, LogDir("/dead", 56)] if self.offline else live

    def grow(self) -> None:
        for partition, copy in list(self.copies.items()):
            copy.size += 1
            if copy.size > SIZE:
                self.home[partition] = copy.path
                self.foreign.discard((partition, copy.path))
                del self.copies[partition]


class World:
    def __init__(self) -> None:
        self.broker = Broker()
        self.wanted: tuple[Move, ...] = ()
        self.known: dict[Move, Progress] = {}
        self.ever: set[tuple[int, str]] = set()
        self.now = 0.0

    def round(self, *, lost_answer: bool = False) -> None:
        """One look and what follows from it. An agent that dies before it hears the answer has done it all the same."""
        made = decide.decide(self.wanted, self.known, self.broker.dirs(), self.now)
        self.known = dict(made.progress)
        for _, partition in made.cancel:
            copy = self.broker.copies.pop(partition)
            assert (partition, copy.path) in self.ever, "somebody else's copy"
        for move in made.begin:
            assert not self.broker.offline, "rule 6"
            assert move.partition not in self.broker.copies, "one copy of a replica"
            self.broker.copies[move.partition] = Growing(move.to_dir)
            if not lost_answer:
                self.known[move] = progress.begun(self.known[move], self.now)
        assert not made.begin or len(self.broker.copies) <= AT_ONCE

    def want(self, moves: tuple[Move, ...]) -> None:
        """A copy to where one was wanted counts as ours, whoever began it: Kafka does not say."""
        self.wanted = moves
        self.ever |= {(move.partition, move.to_dir) for move in moves}

    def restart(self) -> None:
        """Another agent, which knows what the status says."""
        observed = {"moves": progress.entries(self.wanted, self.known)}
        self.known = progress.remembered(observed, self.now)

    def ask_again(self) -> None:
        """What failed is taken back, and asked for anew once the agent has forgotten it."""
        failed = [move for move, made in self.known.items() if made.state is DirMoveState.FAILED]
        if failed:
            wanted = self.wanted
            self.wanted = tuple(move for move in wanted if move not in failed)
            self.round()
            self.round()
            self.wanted = wanted

    def stranger(self, partition: int, path: str) -> None:
        """Somebody has a replica moved by hand."""
        if partition not in self.broker.copies and self.broker.home[partition] != path:
            self.broker.copies[partition] = Growing(path)
            self.broker.foreign.add((partition, path))


moves = st.builds(Move, st.just("t"), st.sampled_from(PARTITIONS), st.just("/a"), st.sampled_from(DIRS))
events = st.one_of(
    st.tuples(st.just("round"), st.booleans()),
    st.tuples(st.just("grow"), st.none()),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("offline"), st.booleans()),
    st.tuples(st.just("want"), st.lists(moves, max_size=4, unique_by=lambda move: move.partition)),
    st.tuples(st.just("stranger"), st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(DIRS))),
    st.tuples(st.just("later"), st.integers(1, 700)),
)


@given(st.lists(events, max_size=30))
def test_moves_end_few_at_once_and_touch_nothing_else(happenings: list[tuple[str, object]]) -> None:
    world = World()
    for what, how in happenings:
        match what, how:
            case "round", bool(lost):
                world.round(lost_answer=lost)
            case "grow", _:
                world.broker.grow()
            case "restart", _:
                world.restart()
            case "offline", bool(offline):
                world.broker.offline = offline
            case "want", list(wanted):
                world.want(tuple(wanted))
            case "stranger", (int(partition), str(path)):
                world.stranger(partition, path)
            case "later", int(seconds):
                world.now += seconds

    world.broker.offline = False
    for _ in range(80):
        world.now += 100
        world.round()
        world.broker.grow()
        world.ask_again()
    assert all(world.broker.home[move.partition] == move.to_dir for move in world.wanted)
    assert world.broker.copies == {}
    assert not progress.under_way(world.known)
