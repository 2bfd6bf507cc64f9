"""Rules 1, 3, 4, 5 and 6 as predicates, against what they mean, over arbitrary views."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.moves import rules
from spindle.moves.journal import Move
from spindle.moves.kafka_index import Incoming, KafkaIndex
from spindle.moves.limits import Limits

LIMITS = Limits()
PATHS = ["/d0/log", "/d1/log"]
KEYS = [("t", 0), ("t", 1)]
ids = st.integers(0, 5)
sizes = st.integers(0, 100)


@st.composite
def log_dirs(draw: st.DrawFn, held: Mapping[str, list[tuple[str, int]]]) -> tuple[LogDir, ...]:
    """Two dirs that hold these replicas, unless they are offline; perhaps copies between them, too."""
    made = []
    for path in PATHS:
        if draw(st.integers(0, 5)) == 0:
            made.append(LogDir(path, error=56))
            continue
        total = draw(st.one_of(st.none(), st.integers(1, 400)))
        futures = draw(st.dictionaries(st.sampled_from(KEYS), sizes, max_size=1))
        made.append(
            LogDir(
                path,
                total_bytes=total,
                usable_bytes=None if total is None else draw(st.integers(0, total)),
                cordoned=draw(st.integers(0, 4)) == 0,
                replicas={key: draw(sizes) for key in held[path]},
                futures={key: size for key, size in futures.items() if key not in held[path]},
            )
        )
    return tuple(made)


@st.composite
def views(draw: st.DrawFn) -> KafkaView:
    partitions = []
    for topic, index in KEYS:
        replicas = tuple(draw(st.lists(ids, min_size=1, max_size=4, unique=True)))
        adding = (replicas[-1],) if len(replicas) > 1 and draw(st.integers(0, 3)) == 0 else ()
        isr = tuple(b for b in replicas if draw(st.integers(0, 3)))
        elr = draw(st.one_of(st.none(), st.lists(ids, max_size=2, unique=True).map(tuple)))
        leader = draw(st.sampled_from([*isr, None]))
        partitions.append(Partition(topic, index, leader, replicas, isr, elr, adding))
    brokers = {}
    for b in range(6):
        held: dict[str, list[tuple[str, int]]] = {path: [] for path in PATHS}
        for p in partitions:
            if b in p.replicas:
                held[draw(st.sampled_from(PATHS))].append((p.topic, p.index))
        dirs = (
            draw(st.one_of(st.none(), log_dirs(held)))
            if draw(st.integers(0, 4)) == 0
            else draw(log_dirs(held))
        )
        brokers[b] = Broker(b, f"rack-{b % 3}", fenced=draw(st.integers(0, 4)) == 0, log_dirs=dirs)
    return KafkaView(brokers=brokers, partitions=tuple(partitions), min_isr={"t": 2}, settings={})


@st.composite
def cases(draw: st.DrawFn) -> tuple[KafkaIndex, Move, Partition]:
    look = KafkaIndex(draw(views()))
    key = draw(st.sampled_from(KEYS))
    partition = look.partitions[key]
    source = draw(st.one_of(st.none(), st.sampled_from(partition.replicas)))
    move = Move(*key, source, None, draw(ids), draw(st.sampled_from(PATHS)), draw(sizes))
    return look, move, partition


def racks(look: KafkaIndex, partition: Partition, brokers: set[int]) -> set[str | None]:
    return {look.brokers[b].rack for b in brokers}


@given(cases())
def test_rule_1_nothing_empty_where_it_may_lead(case: tuple[KafkaIndex, Move, Partition]) -> None:
    _, move, partition = case
    refusal = rules.may_add(move, partition)
    if refusal is None:
        assert partition.elr is not None
        assert move.target not in (*partition.isr, *partition.elr)
    else:
        assert refusal.rule == 1


@given(cases())
def test_rule_3_no_rack_is_lost_and_the_best_that_has_room_is_taken(
    case: tuple[KafkaIndex, Move, Partition],
) -> None:
    look, move, partition = case
    if move.target in partition.replicas:
        return
    incoming = Incoming(look, [])
    refusal = rules.keeps_racks(look, move, partition, LIMITS, incoming)
    live = {b for b in partition.replicas if b not in partition.adding and look.live(b, partition)}
    now = racks(look, partition, live)
    after = racks(look, partition, (live - {move.source}) | {move.target})
    if refusal is None:
        assert len(after) >= len(now)
    else:
        assert refusal.rule == 3
        # Never refused for a rack that is as good as any other.
        others = [
            racks(look, partition, (live - {move.source}) | {b})
            for b in look.brokers
            if b not in partition.replicas
        ]
        assert len(after) < len(now) or len(after) < max(map(len, others))


@given(cases(), st.lists(cases(), max_size=3))
def test_rule_4_the_target_stays_below_its_limit_with_all_that_is_on_its_way(
    case: tuple[KafkaIndex, Move, Partition], others: list[tuple[KafkaIndex, Move, Partition]]
) -> None:
    look, move, _ = case
    begun = [other for _, other, _ in others if other.key != move.key][:1]
    incoming = Incoming(look, begun)
    refusal = rules.has_room(look, move, LIMITS, incoming)
    chosen = look.dir(move.target, move.to_dir)
    if refusal is not None:
        assert refusal.rule == 4
        return
    assert chosen is not None
    assert chosen.total_bytes is not None
    assert chosen.usable_bytes is not None
    size = look.size(move.key, move.bytes)
    coming = size
    for other in begun:
        if (other.target, other.to_dir) == (move.target, move.to_dir):
            there = max(chosen.replicas.get(other.key, 0), chosen.futures.get(other.key, 0))
            full = look.size(other.key, other.bytes)
            coming += full - min(full, there)
    used = chosen.total_bytes - chosen.usable_bytes
    assert used + coming <= LIMITS.reject_moves * chosen.total_bytes


@given(cases(), st.sets(st.tuples(st.just("t"), st.integers(0, 1), ids)))
def test_rule_5_a_partition_that_gave_a_copy_up_gets_no_other_one_for_it(
    case: tuple[KafkaIndex, Move, Partition], given_up: set[tuple[str, int, int]]
) -> None:
    _, move, partition = case
    back = {b for topic, index, b in given_up if (topic, index) == move.key} - set(partition.replicas)
    after = ({*partition.replicas} - {move.source}) | {move.target}
    if rules.comes_back(move, given_up) is None and move.target not in partition.replicas:
        # With all that is still to come back it has as many copies as before, or one more where one is added for good.
        assert len(after | back) >= len({*partition.replicas} | back)
    if move.source is None:
        assert rules.comes_back(move, given_up) is None


@given(cases())
def test_rule_6_strangers_and_offline_dirs(case: tuple[KafkaIndex, Move, Partition]) -> None:
    look, move, partition = case
    if rules.undisturbed(look, move, partition) is None:
        assert not partition.adding
        assert not partition.removing
        assert all(look.future(b, move.key) is None for b in partition.replicas)
    if rules.moves_within(look, replace(move, source=move.target)) is None:
        assert all(not log_dir.error for log_dir in look.dirs(move.target))
    if rules.takes(look, move) is None:
        chosen = look.dir(move.target, move.to_dir)
        assert chosen is not None
        assert not chosen.error
        assert not chosen.cordoned
        assert look.up(move.target)


@given(cases())
def test_the_cure_is_never_kept_from_a_partition_that_is_short_of_copies(
    case: tuple[KafkaIndex, Move, Partition],
) -> None:
    look, move, partition = case
    refusal = rules.enough_copies(look, move, partition)
    if move.source is None or move.source not in partition.isr:
        assert refusal is None
    if rules.enough_copies(look, move, partition, begun=True) is not None:
        assert refusal is not None
