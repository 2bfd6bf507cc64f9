"""What the executor does with one move, look by look."""

from dataclasses import replace

import pytest

from spindle.api.enums import Pressure
from spindle.model.view import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from spindle.moves.backoff import FIRST
from spindle.moves.execute import cleanup
from spindle.moves.intents import ConfigureIntent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import (
    REPAIR,
    DroppedReplica,
    Journal,
    JournalError,
    Move,
    SavedConfig,
    parse,
    render,
)
from spindle.moves.kafka_index import Incoming, KafkaIndex
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from spindle.moves.rate_control import PERIOD
from spindle.moves.signals import MoveSignals
from tests.model.moving import Dir, Kafka, Node, Part, execute

LIMITS = Limits(small=1, bytes_per_second=1000)
D0, D1 = "/d0/log", "/d1/log"
T = ("t", 0)
MOVE = Move("t", 0, 0, D0, 3, D1, 100, "evacuate")
BEGUN = replace(MOVE, before=(0, 1, 2))
WITHIN = Move("t", 0, 0, D0, 0, D1, 100, "backfill")


def kafka(
    *parts: tuple[tuple[str, int], list[int]], size: int = 100, total: int = 1000, min_isr: int = 2
) -> Kafka:
    """Four brokers in racks a, b, c, a; t-0 of 100 bytes on brokers 0, 1, 2."""
    nodes = {b: Node("abca"[b], {D0: Dir(total), D1: Dir(total)}) for b in range(4)}
    return Kafka(
        nodes, {key: Part(r, [], size) for key, r in parts or ((T, [0, 1, 2]),)}, min_isr, LIMITS.reject_moves
    )


def step(k: Kafka, journal: Journal, *wanted: Move, limits: Limits = LIMITS, **more: object) -> StepResult:
    """One step, carried out in full; the journal goes through its text."""
    outcome = execute(k.view(), journal, wanted, limits, **more)  # type: ignore[arg-type]
    for intent in outcome.actions:
        k.carry_out(intent)
    return replace(outcome, journal=parse(render(outcome.journal)))


def until_quiet(k: Kafka, journal: Journal) -> Journal:
    agents: dict[int, tuple[Move, ...]] = {}
    for _ in range(20):
        k.tick(0.5, agents)
        outcome = step(k, journal)
        journal, agents = outcome.journal, dict(outcome.agent_moves)
        if not journal:
            return journal
    raise AssertionError(f"not quiet: {journal}")


def reasons(outcome: StepResult) -> list[str]:
    return [refused.refusal.reason for refused in outcome.refusals]


def test_a_move_between_brokers_chooses_the_dir_and_throttles_before_it_reassigns() -> None:
    outcome = execute(kafka().view(), Journal(), [MOVE], LIMITS)
    assert outcome.journal.moves == (BEGUN,)
    kinds = [type(intent) for intent in outcome.actions]
    assert kinds == [ConfigureIntent] * 5 + [PlaceReplicasIntent, ReassignIntent]
    configured = {
        (c.kind, c.name, key): value
        for c in outcome.actions
        if isinstance(c, ConfigureIntent)
        for key, value in c.values.items()
    }
    assert configured == {
        ("topic", "t", LEADER_REPLICAS): "0:0,0:1,0:2",
        ("topic", "t", FOLLOWER_REPLICAS): "0:3",
        ("broker", "0", LEADER_RATE): "1000",
        ("broker", "1", LEADER_RATE): "1000",
        ("broker", "2", LEADER_RATE): "1000",
        ("broker", "3", FOLLOWER_RATE): "1000",
    }
    assert {entry.id for entry in outcome.journal.settings} == set(configured)
    assert outcome.actions[-2] == PlaceReplicasIntent(broker=3, placements=(("t", 0, D1),))
    assert isinstance(outcome.actions[-1], ReassignIntent)
    assert outcome.actions[-1].assignments == (("t", 0, (3, 1, 2)),)


def test_it_lands_on_the_chosen_dir_and_leaves_nothing_behind() -> None:
    k = kafka()
    until_quiet(k, step(k, Journal(), MOVE).journal)
    assert k.nodes[3].stands(T) == D1
    assert k.parts[T].replicas == [3, 1, 2]
    assert not any(k.settings.values())


def test_progress_is_told_and_landing_too() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.tick(0.4, {})
    outcome = step(k, journal)
    assert [(p.state, p.bytes, p.copied) for p in outcome.progress] == [("Copying", 100, 40)]
    k.tick(1, {})
    assert step(k, outcome.journal).landed == (BEGUN,)


def test_a_target_that_forgot_early_is_begun_again() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    for d in k.nodes[3].dirs.values():  # the log was made on the other dir
        d.replicas.pop(T, None)
    k.nodes[3].dirs[D0].replicas[T] = 10
    outcome = step(k, journal)
    assert reasons(outcome) == ["MovedToOtherDisk"]
    assert k.parts[T].target is None
    until_quiet(k, outcome.journal)
    assert k.nodes[3].stands(T) == D1


def test_one_that_is_more_than_half_there_goes_on_and_is_then_moved_between_dirs() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.nodes[3].dirs[D1].replicas.pop(T)
    k.nodes[3].dirs[D0].replicas[T] = 60
    outcome = step(k, journal)
    assert not outcome.refusals
    k.tick(1, {})
    outcome = step(k, outcome.journal)
    assert outcome.agent_moves == {3: (replace(BEGUN, source=3, from_dir=D0),)}
    until_quiet(k, outcome.journal)
    assert k.nodes[3].stands(T) == D1


def test_a_reassignment_that_vanished_is_begun_again() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.cancel(T)
    outcome = step(k, journal)
    assert k.parts[T].target == [3, 1, 2]
    assert outcome.journal.moves == (BEGUN,)


def test_answers_of_different_moments_prove_nothing() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    view = k.view()
    assert view.partitions is not None
    stale = replace(view, partitions=tuple(replace(p, adding=(), removing=()) for p in view.partitions))
    for _ in range(5):
        outcome = execute(stale, journal, (), LIMITS)
        assert [p.state for p in outcome.progress] == ["Waiting"]
        assert not outcome.actions
        left = cleanup(stale, journal)
        assert [move.key for move in left.journal.moves] == [T]
        journal = parse(render(outcome.journal))
    assert reasons(execute(stale, journal, (), LIMITS)) == ["MoveObsolete"]
    assert not cleanup(stale, journal).journal.moves  # nor does a deletion wait for ever


def test_what_somebody_else_reassigns_is_let_alone_and_its_throttle_taken_back() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.cancel(T)
    k.begin(T, [0, 1, 2], foreign=True)
    k.parts[T].target, k.parts[T].before, k.parts[T].foreign = [1, 2], [0, 1, 2], True
    outcome = step(k, journal)
    assert reasons(outcome) == ["MoveObsolete"]
    assert not outcome.journal.moves
    assert not any(isinstance(intent, ReassignIntent) for intent in outcome.actions)
    assert not any(k.settings.values())


def test_the_way_back_takes_the_old_place_and_ends_the_record() -> None:
    k = kafka()
    k.die(0, D0)
    k.die(0, D0)
    shrunk = DroppedReplica("t", 0, 0, 100, (0, 1, 2))
    outcome = step(k, Journal(), shrinks=[shrunk])
    assert outcome.journal.dropped == (shrunk,)
    assert k.parts[T].replicas == [1, 2]
    assert step(k, outcome.journal).journal.dropped == (shrunk,)
    k.nodes[0].dirs[D0] = Dir(1000)
    k.parts[T].elr = []
    back = Move("t", 0, None, None, 0, D0, 100, "restore")
    outcome = step(k, outcome.journal, back)
    assert k.parts[T].target == [0, 1, 2]
    assert not until_quiet(k, outcome.journal)
    assert k.parts[T].replicas == [0, 1, 2]


def test_what_is_given_up_stays_while_another_broker_is_taken_down() -> None:
    for reason in (REPAIR, "shed"):
        k = kafka()
        entry = DroppedReplica("t", 0, 0, 100, (0, 1, 2), reason)
        down = execute(k.view(), Journal(), (), Limits(), shrinks=[entry], signals=MoveSignals(down={1}))
        assert down.journal.dropped == ()
        assert down.actions == ()
        assert execute(k.view(), Journal(), (), Limits(), shrinks=[entry]).journal.dropped == (entry,)


def test_a_second_dead_replica_leaves_with_the_first_and_both_replicas_come_back() -> None:
    k = kafka((T, [0, 1, 2, 3]), min_isr=1)
    for broker in (0, 1):
        k.die(broker, k.nodes[broker].stands(T) or "")
    gone = [DroppedReplica("t", 0, broker, 100, (0, 1, 2, 3)) for broker in (0, 1)]
    journal = step(k, Journal(), shrinks=gone[:1]).journal
    assert k.parts[T].removing == [0]  # waits for the other dead one
    journal = step(k, journal, shrinks=gone).journal
    assert journal.dropped == tuple(gone)
    assert k.parts[T].replicas == [2, 3]
    k.parts[T].elr = []
    for broker in (1, 0):
        k.nodes[broker].dirs[D0] = Dir(1000)
        journal = step(k, journal, Move("t", 0, None, None, broker, D0, 100, "restore")).journal
        k.tick(1, {})
        journal = step(k, journal).journal
    assert k.parts[T].replicas == [0, 1, 2, 3]
    assert not journal.dropped


def test_replicas_that_left_one_after_the_other_both_come_back() -> None:
    """The second one leaves a smaller assignment; that has as many replicas again when the first one is back."""
    k = kafka((T, [0, 1, 2, 3]), min_isr=1)
    journal = Journal()
    for broker, before in ((0, (0, 1, 2, 3)), (1, (1, 2, 3))):
        k.die(broker, k.nodes[broker].stands(T) or "")
        journal = step(k, journal, shrinks=[DroppedReplica("t", 0, broker, 100, before)]).journal
        k.tick(1, {})
    assert k.parts[T].replicas == [2, 3]
    k.parts[T].elr = []
    for broker in (0, 1):
        k.nodes[broker].dirs[D0] = Dir(1000)
        assert 1 in {entry.broker for entry in journal.dropped}
        journal = step(k, journal, Move("t", 0, None, None, broker, D0, 100, "restore")).journal
        k.tick(1, {})
        for _ in range(2):
            journal = step(k, journal).journal
    assert sorted(k.parts[T].replicas) == [0, 1, 2, 3]
    assert not journal.dropped


def test_a_replica_that_moved_instead_of_being_dropped_is_not_restored() -> None:
    """The drop was recorded and Kafka refused it; then a target was found."""
    k = kafka((T, [0, 1, 2]), min_isr=1)
    k.die(0, k.nodes[0].stands(T) or "")
    journal = Journal(dropped=(DroppedReplica("t", 0, 0, 100, (0, 1, 2)),))
    journal = step(k, journal, MOVE).journal
    for _ in range(3):
        k.tick(1, {})
        journal = step(k, journal).journal
    assert k.parts[T].replicas == [3, 1, 2]
    assert not journal.dropped


def test_a_shrink_that_did_not_come_off_is_forgotten_once_the_replica_is_back() -> None:
    k = kafka()
    shrunk = DroppedReplica("t", 0, 0, 100, (0, 1, 2))
    assert not step(k, Journal(dropped=(shrunk,))).journal


def test_moves_within_a_broker_go_to_its_agent_in_order_and_up_to_so_many() -> None:
    keys = [("t", i) for i in range(5)]
    k = kafka(*((key, [0]) for key in keys))
    wanted = [replace(WITHIN, partition=i, from_dir=None) for i in (3, 1, 2, 4)]
    for key in keys:
        for d in k.nodes[0].dirs.values():
            d.replicas.pop(key, None)
        k.nodes[0].dirs[D0].replicas[key] = 100
    outcome = step(k, Journal(), *wanted, limits=replace(LIMITS, queued_per_broker=3))
    assert [m.partition for m in outcome.agent_moves[0]] == [3, 1, 2]
    assert all(m.from_dir == D0 for m in outcome.agent_moves[0])
    assert not outcome.actions


def test_kafka_that_cannot_be_asked_changes_nothing() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE, WITHIN).journal
    outcome = execute(replace(k.view(), partitions=None), journal, [MOVE], LIMITS)
    assert (outcome.journal, outcome.actions) == (journal, ())
    assert reasons(outcome) == ["KafkaUnknown"]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        pytest.param(Limits(small=1, moves_per_dir=9), 5, id="of the broker"),
        pytest.param(Limits(small=1, moves_per_broker=9), 2, id="of the dir"),
        pytest.param(Limits(small=10_000), 8, id="small ones count little"),
        pytest.param(Limits(small=1, moves_per_dir=9, moves_in_all=3), 3, id="in all"),
    ],
)
def test_budgets(limits: Limits, count: int) -> None:
    keys = [("t", i) for i in range(8)]
    k = kafka(*((key, [0]) for key in keys), size=10, min_isr=1)
    for d in k.nodes[0].dirs.values():
        d.replicas.clear()
    k.nodes[0].dirs[D0].replicas |= dict.fromkeys(keys, 10)
    wanted = [Move("t", i, 0, D0, 3, D1, 10) for i in range(8)]
    outcome = step(k, Journal(), *wanted, limits=replace(limits, bytes_per_second=1000))
    assert len(outcome.journal.moves) == count
    assert not outcome.refusals


def test_what_is_in_flight_counts_in_full_on_the_target() -> None:
    k = kafka((("t", 0), [0]), (("t", 1), [0]), size=400, min_isr=1)
    wanted = [Move("t", i, 0, None, 3, D1, 400) for i in range(3)]
    k.nodes[3].dirs[D1].deleting.append(150)
    outcome = step(k, Journal(), *wanted)
    assert len(outcome.journal.moves) == 1
    assert reasons(outcome) == ["TargetDiskFull"]
    assert "950" not in outcome.refusals[0].refusal.message
    assert (
        "150 of 1000 bytes are used, and 400 more are being moved to it"
        in outcome.refusals[0].refusal.message
    )


def test_others_copies_between_dirs_count_too() -> None:
    k = kafka((("t", 0), [0]), (("t", 1), [3]), size=500, min_isr=1)
    k.nodes[3].dirs[D0].replicas, k.nodes[3].dirs[D1].replicas = {("t", 1): 500}, {}
    k.nodes[3].dirs[D1].futures[("t", 1)] = 0
    assert reasons(step(k, Journal(), replace(MOVE, bytes=500))) == ["TargetDiskFull"]


def test_a_partition_that_a_false_broker_describes_twice_counts_once() -> None:
    k = kafka((("t", 0), [0]), (("t", 1), [1, 3]), size=300, min_isr=1)
    k.nodes[3].dirs[D0].replicas, k.nodes[3].dirs[D1].replicas = {}, {("t", 1): 0}
    view = k.view()
    growing = tuple(replace(p, adding=(3,)) if p.index else p for p in view.partitions or ())
    incoming = [
        Incoming(KafkaIndex(replace(view, partitions=found)), ()).to(3, D1)
        for found in (growing, growing * 2)
    ]
    assert incoming == [300, 300]


def refused(k: Kafka, move: Move = MOVE, limits: Limits = LIMITS) -> list[str]:
    outcome = execute(k.view(), Journal(), [move], limits)
    assert not outcome.journal
    assert not outcome.actions
    return reasons(outcome)


def test_rule_1_no_replica_where_it_may_still_lead() -> None:
    k = kafka()
    k.parts[T].elr = [3]
    assert refused(k) == ["EmptyReplicaMayLead"]
    view = k.view()
    assert view.partitions is not None
    unknown = replace(view, partitions=tuple(replace(p, elr=None) for p in view.partitions))
    assert reasons(execute(unknown, Journal(), [MOVE], LIMITS)) == ["ElrUnknown"]


def test_rule_5_what_left_a_broker_does_not_come_back_in_the_place_of_another_copy() -> None:
    k = kafka()
    assert T not in {key for d in k.nodes[MOVE.target].dirs.values() for key in d.replicas}
    gone = DroppedReplica(*T, MOVE.target, 100, (*k.parts[T].replicas, MOVE.target))
    outcome = execute(k.view(), Journal(dropped=(gone,)), [MOVE], LIMITS)
    assert reasons(outcome) == ["ReplicaReturning"]
    assert outcome.journal.dropped == (gone,)
    assert not outcome.actions
    regrown = execute(k.view(), outcome.journal, [replace(MOVE, source=None, from_dir=None)], LIMITS)
    assert not reasons(regrown)
    assert len(regrown.journal.moves) == 1


def test_rule_10_what_is_not_known_cannot_be_put_back() -> None:
    view = kafka().view()
    assert view.settings is not None
    for unknown in (("topic", "t"), ("broker", "3")):
        less = replace(view, settings={key: value for key, value in view.settings.items() if key != unknown})
        assert reasons(execute(less, Journal(), [MOVE], LIMITS)) == ["SettingsUnknown"]
        free = replace(LIMITS, bytes_per_second=None)
        assert execute(less, Journal(), [MOVE], free).journal.moves
    assert reasons(execute(replace(view, settings=None), Journal(), [MOVE], LIMITS)) == ["SettingsUnknown"]


def test_rule_3_racks() -> None:
    assert refused(kafka(), replace(MOVE, source=1)) == ["WouldReduceRackSpread"]
    # a dead replica gives up no rack, but a better one that has room is preferred
    k = kafka((T, [0, 1]), min_isr=1)
    k.nodes[1].up = False
    k.parts[T].isr = [0]
    assert refused(k, replace(MOVE, source=1)) == ["WouldReduceRackSpread"]
    k.nodes[2].dirs = {D0: Dir(50)}
    assert execute(k.view(), Journal(), [replace(MOVE, source=1)], LIMITS).journal.moves


def test_closed_dirs_take_nothing_and_are_no_better_rack() -> None:
    k = kafka()
    outcome = execute(k.view(), Journal(), [MOVE], LIMITS, closed={(3, D1)})
    assert reasons(outcome) == ["TargetUnusable"]
    # Broker 2 alone is in a third rack; while its dirs are closed, the move need not wait for it.
    k = kafka((T, [0, 1]), min_isr=1)
    k.nodes[1].up = False
    k.parts[T].isr = [0]
    off_one = replace(MOVE, source=1)
    assert reasons(execute(k.view(), Journal(), [off_one], LIMITS)) == ["WouldReduceRackSpread"]
    assert execute(k.view(), Journal(), [off_one], LIMITS, closed={(2, D0), (2, D1)}).journal.moves


def test_a_replica_on_a_bad_dir_gives_up_no_rack() -> None:
    k = kafka()
    off_one = replace(MOVE, source=1)
    stands, shut = k.nodes[1].stands(T), {(1, D0), (1, D1)}
    assert reasons(execute(k.view(), Journal(), [off_one], LIMITS, closed=shut)) == ["WouldReduceRackSpread"]
    assert execute(k.view(), Journal(), [off_one], LIMITS, closed=shut, bad={(1, stands)}).journal.moves


def test_rule_6_dirs_and_strangers() -> None:
    k = kafka()
    k.die(0, D1)
    k.nodes[0].dirs[D0].replicas[T] = 100
    k.parts[T].isr = [0, 1, 2]
    assert refused(k, replace(WITHIN, to_dir=D1)) == ["TargetUnusable"]
    k.nodes[0].dirs["/d2/log"] = Dir(1000)
    assert refused(k, replace(WITHIN, to_dir="/d2/log")) == ["BlockedByOfflineLogDir"]
    k = kafka()
    k.begin(T, [0, 1, 2, 3], foreign=True)
    assert refused(k, replace(MOVE, target=3, source=None)) == []
    assert refused(k, WITHIN if k.nodes[0].stands(T) == D0 else replace(WITHIN, to_dir=D0)) == [
        "ExternalReassignment"
    ]


def test_rule_6_without_a_leader_there_is_nobody_to_copy_from() -> None:
    view = kafka().view()
    (partition,) = view.partitions or ()
    leaderless = replace(view, partitions=(replace(partition, leader=None, isr=()),))
    for move in (MOVE, replace(MOVE, source=None)):
        outcome = execute(leaderless, Journal(), [move], LIMITS)
        assert reasons(outcome) == ["NoLeader"]
        assert outcome.actions == ()


def test_what_kafka_does_not_end_after_an_unclean_election_is_asked_for_again() -> None:
    k = kafka((T, [0]), min_isr=1)
    move = replace(MOVE, target=3)
    journal = step(k, Journal(), move).journal
    view = k.view()
    (partition,) = view.partitions or ()
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 0), (3,), (0,))
    elected = replace(partition, leader=3, isr=(3,), elr=())
    outcome = execute(replace(view, partitions=(elected,)), journal, [], LIMITS)
    asked = [intent.assignments for intent in outcome.actions if isinstance(intent, ReassignIntent)]
    assert asked == [(("t", 0, (3,)),)]
    assert outcome.journal.moves == journal.moves
    over = replace(elected, replicas=(3,), adding=(), removing=())
    assert not [
        intent
        for intent in execute(replace(view, partitions=(over,)), outcome.journal, [], LIMITS).actions
        if isinstance(intent, ReassignIntent)
    ]


def test_a_reassignment_is_asked_for_again_only_where_the_added_replica_leads() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    view = k.view()
    (partition,) = view.partitions or ()
    for isr, again in (((0, 1, 2), False), ((1, 2), False), ((3,), True), ((3, 1), True)):
        shown = replace(partition, isr=isr, leader=isr[0])
        outcome = execute(replace(view, partitions=(shown,)), journal, [], LIMITS)
        asked = [a for i in outcome.actions if isinstance(i, ReassignIntent) for a in i.assignments]
        assert bool([a for a in asked if a[2] is not None]) is again


def test_no_cancel_is_asked_for_that_kafka_refuses() -> None:
    """With ELR the last one that dies leaves the ISR: to take the move back would be an unclean election."""
    k = kafka((T, [0]), min_isr=1)
    journal = step(k, Journal(), MOVE).journal
    k.die(0, D0)
    view = k.view()
    (partition,) = view.partitions or ()
    eligible = replace(partition, leader=None, isr=(), elr=(0,))
    outcome = execute(replace(view, partitions=(eligible,)), journal, [], LIMITS)
    assert not [intent for intent in outcome.actions if isinstance(intent, ReassignIntent)]
    assert [p.state for p in outcome.progress] == ["Waiting"]
    assert outcome.journal.moves == journal.moves
    # Without ELR the last one stays in the ISR, and Kafka takes the move back.
    outcome = execute(replace(view, partitions=(replace(eligible, isr=(0,), elr=()),)), journal, [], LIMITS)
    assert reasons(outcome) == ["NoLeader"]
    assert [i.assignments for i in outcome.actions if isinstance(i, ReassignIntent)] == [(("t", 0, None),)]


def test_a_deletion_asks_for_no_cancel_that_kafka_refuses_and_puts_settings_back() -> None:
    k = kafka((T, [0]), min_isr=1)
    journal = step(k, Journal(), MOVE).journal
    k.die(0, D0)
    view = k.view()
    (partition,) = view.partitions or ()
    eligible = replace(partition, leader=None, isr=(), elr=(0,))
    outcome = cleanup(replace(view, partitions=(eligible,)), journal)
    assert not [intent for intent in outcome.actions if isinstance(intent, ReassignIntent)]
    assert [intent for intent in outcome.actions if isinstance(intent, ConfigureIntent)]
    assert reasons(outcome) == ["CancellationRejected"]
    assert outcome.journal.moves == journal.moves
    # What lacks nothing any more is not taken back but ended.
    elected = replace(partition, leader=3, isr=(3,), elr=())
    outcome = cleanup(replace(view, partitions=(elected,)), journal)
    assert [i.assignments for i in outcome.actions if isinstance(i, ReassignIntent)] == [(("t", 0, (3,)),)]
    assert not reasons(outcome)
    back = replace(partition, leader=0, isr=(0,), elr=())
    outcome = cleanup(replace(view, partitions=(back,)), journal)
    assert [i.assignments for i in outcome.actions if isinstance(i, ReassignIntent)] == [(("t", 0, None),)]


def test_a_partition_short_of_copies_waits_unless_the_move_is_the_cure() -> None:
    k = kafka()
    k.stop(2)
    assert refused(k) == ["UnderReplicated"]
    cure = replace(MOVE, source=2)
    k.nodes[3].rack = "c"
    assert step(k, Journal(), cure).journal.moves == (replace(cure, before=(0, 1, 2)),)


def test_below_its_minimum_a_move_is_cancelled_and_given_up() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.stop(1)
    assert step(k, journal).journal.moves == (BEGUN,)
    k.stop(2)
    outcome = step(k, journal)
    assert reasons(outcome) == ["UnderReplicated"]
    assert k.parts[T].target is None
    assert k.parts[T].replicas == [1, 2, 0]
    outcome = step(k, outcome.journal)
    assert k.parts[T].replicas == [0, 1, 2]
    assert not step(k, outcome.journal).journal.moves


def test_a_target_that_is_lost_is_given_up_but_not_one_that_is_merely_down() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.stop(3)
    outcome = step(k, journal)
    assert [p.state for p in outcome.progress] == ["Waiting"]
    outcome = step(k, outcome.journal, lost={3})
    assert reasons(outcome) == ["TargetLost"]
    outcome = step(k, outcome.journal, lost={3})
    assert not step(k, outcome.journal, lost={3}).journal.moves
    assert k.parts[T].replicas == [0, 1, 2]


def test_a_dead_target_dir_ends_the_move() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.die(3, D1)
    outcome = step(k, journal)
    assert reasons(outcome) == ["TargetUnusable"]
    assert k.parts[T].target is None


def test_a_persons_settings_are_joined_or_left_and_come_back() -> None:
    k = kafka()
    k.settings["topic", "t"][FOLLOWER_REPLICAS] = "9:9"
    k.settings["broker", "3"][FOLLOWER_RATE] = "77"
    k.users["broker", "3", FOLLOWER_RATE] = "77"
    journal = step(k, Journal(), MOVE).journal
    assert k.settings["topic", "t"][FOLLOWER_REPLICAS] == "9:9,0:3"
    until_quiet(k, journal)
    assert k.settings["topic", "t"] == {FOLLOWER_REPLICAS: "9:9"}
    assert k.settings["broker", "3"] == {FOLLOWER_RATE: "77"}


def test_a_value_that_a_person_changed_meanwhile_is_theirs() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.settings["broker", "1"][LEADER_RATE] = "5"
    k.users["broker", "1", LEADER_RATE] = "5"
    until_quiet(k, journal)
    assert k.settings["broker", "1"] == {LEADER_RATE: "5"}


def test_other_settings_stand_as_long_as_they_are_asked_for() -> None:
    k = kafka()
    key = ("broker", "1", "cordoned.log.dirs")
    k.settings["broker", "1"]["cordoned.log.dirs"] = D0
    journal = step(k, Journal(), settings={key: D1}).journal
    assert k.settings["broker", "1"] == {"cordoned.log.dirs": f"{D0},{D1}"}
    journal = step(k, journal, settings={key: D1}).journal
    journal = step(k, journal).journal
    assert k.settings["broker", "1"] == {"cordoned.log.dirs": D0}
    assert not step(k, journal).journal


def test_settings_of_a_broker_that_is_down_wait_for_it() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.tick(1, {})
    k.stop(1)
    journal = step(k, step(k, journal).journal).journal
    assert [entry.id for entry in journal.settings] == [("broker", "1", LEADER_RATE)]
    k.start(1)
    until_quiet(k, journal)
    assert not any(k.settings.values())


def test_the_journal_reads_back_and_nonsense_is_told() -> None:
    journal = Journal(
        (BEGUN, WITHIN, Move("ü", 1, None, None, 2, D0, 0)),
        (DroppedReplica("t", 0, 1, 5, (1, 2)),),
        (SavedConfig("topic", "t", FOLLOWER_REPLICAS, None, "0:1", "0:2", closing=True),),
    )
    assert parse(render(journal)) == journal
    assert parse("") == parse(None) == Journal()
    assert not Journal()
    for nonsense in ("{", "[]", "{}", '{"version": 2}', render(journal).replace('"topic"', '"tropic"')):
        with pytest.raises(JournalError):
            parse(nonsense)
    with pytest.raises(JournalError):
        render(Journal(tuple(replace(MOVE, topic="x" * 249, partition=i) for i in range(4000))))


# --- moves that agents give up


FAILED = {(0, T, D1): "Cancelled: no progress."}


def test_what_an_agent_gave_up_is_taken_back_told_and_rests() -> None:
    k = kafka()
    journal = step(k, Journal(), WITHIN).journal

    outcome = step(k, journal, WITHIN, signals=MoveSignals(now=1000, failed=FAILED))

    assert reasons(outcome) == ["MoveFailed", "MoveBackOff"]
    assert [refused.given_up for refused in outcome.refusals] == [True, False]
    assert "no progress" in outcome.refusals[0].refusal.message
    assert outcome.journal.moves == ()
    assert outcome.agent_moves == {}
    assert not outcome.journal, "there is nothing that would have to be put back"
    elsewhere = step(k, outcome.journal, replace(WITHIN, target=1, source=1), signals=MoveSignals(now=1001))
    assert len(elsewhere.journal.moves) == 1
    again = step(k, outcome.journal, WITHIN, signals=MoveSignals(now=1000 + FIRST))
    assert len(again.journal.moves) == 1


def test_each_time_it_rests_twice_as_long_and_one_that_lands_is_forgiven() -> None:
    k, journal, now, spans = kafka(), Journal(), 0.0, []
    for _ in range(10):
        begun = step(k, journal, WITHIN, signals=MoveSignals(now=now)).journal
        journal = step(k, begun, signals=MoveSignals(now=now, failed=FAILED)).journal
        (rest,) = journal.backoffs
        spans.append(rest.until - now)
        now = rest.until
    assert spans[:3] == [600, 1200, 2400]
    assert spans[-1] == 86400
    begun = step(k, journal, WITHIN, signals=MoveSignals(now=now)).journal
    assert until_quiet(k, begun).backoffs == ()


def test_a_failure_that_was_told_too_late_does_not_count() -> None:
    k = kafka()
    journal = step(k, Journal(), WITHIN).journal
    k.nodes[0].dirs[D1].replicas[T] = k.nodes[0].dirs[D0].replicas.pop(T)

    outcome = step(k, journal, signals=MoveSignals(now=1, failed=FAILED))

    assert outcome.landed == (WITHIN,)
    assert outcome.refusals == ()


def test_rests_are_forgotten_in_the_end_and_with_their_partition() -> None:
    k = kafka()
    journal = step(k, Journal(), WITHIN).journal
    journal = step(k, journal, signals=MoveSignals(now=0, failed=FAILED)).journal
    assert step(k, journal, signals=MoveSignals(now=FIRST)).journal.backoffs == journal.backoffs
    assert step(k, journal, signals=MoveSignals(now=FIRST + 86400)).journal == Journal()
    k.parts.clear()
    assert step(k, journal, signals=MoveSignals(now=1)).journal == Journal()


# --- moves between dirs that are overtaken


def test_followers_are_moved_before_leaders() -> None:
    k = kafka((("t", 0), [0, 1]), (("t", 1), [1, 0]), (("t", 2), [0, 1]))
    outcome = step(
        k, Journal(), *(replace(WITHIN, partition=index, to_dir=stands_not(k, index)) for index in range(3))
    )

    assert [move.partition for move in outcome.agent_moves[0]] == [1, 0, 2]


def stands_not(k: Kafka, index: int) -> str:
    return D1 if k.nodes[0].stands(("t", index)) == D0 else D0


def test_a_copy_between_dirs_gives_way_to_a_persons_reassignment() -> None:
    k = kafka()
    journal = step(k, Journal(), WITHIN).journal
    k.nodes[0].dirs[D1].futures[T] = 10
    k.begin(T, [0, 1, 3], foreign=True)

    outcome = step(k, journal)

    assert reasons(outcome) == ["MoveObsolete"]
    assert outcome.agent_moves == {}


def test_one_whose_topic_is_deleted_says_so() -> None:
    k = kafka()
    journal = step(k, Journal(), WITHIN).journal
    k.parts.clear()

    outcome = step(k, journal)

    assert reasons(outcome) == ["MoveObsolete"]
    assert "its topic was deleted" in outcome.refusals[0].refusal.message
    assert outcome.journal == Journal()


def test_only_as_many_that_wait_are_given_up_as_have_no_room_any_more() -> None:
    k = kafka(*((("t", index), [0]) for index in range(4)), min_isr=1)
    for index in range(4):
        k.nodes[0].dirs[D1].replicas.pop(("t", index), None)
        k.nodes[0].dirs[D0].replicas["t", index] = 100
    journal = step(k, Journal(), *(replace(WITHIN, partition=index) for index in range(4))).journal
    assert len(journal.moves) == 4
    k.nodes[0].dirs[D1].deleting.append(650)

    outcome = step(k, journal)

    assert reasons(outcome) == ["TargetDiskFull", "TargetDiskFull"]
    assert [move.partition for move in outcome.journal.moves] == [2, 3]


def test_a_copy_to_another_broker_is_cancelled_when_its_dir_fills() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE).journal
    k.tick(0.4, {})
    k.nodes[3].dirs[D1].deleting.append(840)
    assert step(k, journal).refusals == (), "half of what is kept free is left"
    k.nodes[3].dirs[D1].deleting.append(20)

    outcome = step(k, journal)

    assert reasons(outcome) == ["TargetDiskFilling"]
    assert k.parts[T].target is None


# --- how fast


def rate(journal: Journal, broker: int, key: str) -> int:
    return next(int(s.ours or 0) for s in journal.settings if s.id == ("broker", str(broker), key))


SLOW = replace(LIMITS, bytes_per_second=1000, least_bytes_per_second=100)


def test_a_strained_disk_slows_its_broker_down_and_a_calm_one_speeds_it_up() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE, limits=SLOW, signals=MoveSignals(now=100)).journal
    strained = {(3, D1): Pressure.STRAINED, (3, D0): Pressure.CALM}

    slower = step(k, journal, limits=SLOW, signals=MoveSignals(now=100 + PERIOD, felt=strained)).journal
    assert rate(slower, 3, FOLLOWER_RATE) == 500
    assert rate(slower, 0, LEADER_RATE) == 1000, "it feels nothing"
    soon = step(k, slower, limits=SLOW, signals=MoveSignals(now=100 + PERIOD + 1, felt=strained)).journal
    assert soon == slower, "not before it can be seen what the last step did"
    calm = step(k, slower, limits=SLOW, signals=MoveSignals(now=100 + 2 * PERIOD)).journal
    assert rate(calm, 3, FOLLOWER_RATE) == 590
    assert k.settings["broker", "3"][FOLLOWER_RATE] == "590"
    until_quiet(k, calm)
    assert not any(k.settings.values())


def test_the_disk_that_the_leader_reads_from_counts_and_no_other() -> None:
    k = kafka()
    journal = step(k, Journal(), MOVE, limits=SLOW).journal
    felt = {(0, D0): Pressure.STRAINED, (1, D0): Pressure.STRAINED, (3, D0): Pressure.STRAINED}
    journal = step(k, journal, limits=SLOW, signals=MoveSignals(now=PERIOD, felt=felt)).journal

    assert rate(journal, 0, LEADER_RATE) == 500
    assert rate(journal, 1, LEADER_RATE) == 1000
    assert rate(journal, 3, FOLLOWER_RATE) == 1000


# --- partitions that are short of copies


OTHER = ("u", 0)


def catching_up(in_sync: int) -> Kafka:
    """``u-0`` has three copies on the first three brokers; of them all but so many have fallen behind."""
    k = kafka((T, [0, 1, 2]), (OTHER, [1, 2, 0]))
    k.parts[OTHER].isr = [1, 2, 0][:in_sync]
    return k


@pytest.mark.parametrize("in_sync", [1, 2])
@pytest.mark.parametrize("move", [MOVE, WITHIN], ids=["across", "within"])
def test_nothing_begins_where_a_partition_short_of_copies_catches_up(in_sync: int, move: Move) -> None:
    k = catching_up(in_sync)

    outcome = step(k, Journal(), move)

    assert reasons(outcome) == ["CatchUpInProgress"]
    assert outcome.journal.moves == ()
    k.parts[OTHER].isr = [1, 2, 0]
    assert len(step(k, outcome.journal, move).journal.moves) == 1


def test_what_runs_goes_on_but_slowly_where_nobody_can_write() -> None:
    k = kafka((T, [0, 1, 2]), (OTHER, [1, 2, 0]))
    journal = step(k, Journal(), MOVE, limits=SLOW).journal
    k.parts[OTHER].isr = [1]

    outcome = step(k, journal, limits=SLOW, signals=MoveSignals(now=1))

    assert outcome.refusals == ()
    assert [p.state for p in outcome.progress] == ["Copying"]
    assert rate(outcome.journal, 0, LEADER_RATE) == 100
    assert rate(outcome.journal, 3, FOLLOWER_RATE) == 1000, "it has no part in that"
    assert outcome.slowed == {0, 1, 2}


def test_a_partition_that_cannot_catch_up_holds_nothing_up() -> None:
    k = catching_up(2)
    k.nodes[0].dirs[D0].replicas.pop(OTHER, None)
    k.nodes[0].dirs[D1].replicas.pop(OTHER, None)

    assert len(step(k, Journal(), WITHIN).journal.moves) == 1


def test_a_partition_without_a_leader_holds_nothing_up() -> None:
    k = catching_up(1)
    for each in k.nodes[
        1
    ].dirs.values():  # the disk of the last replica in sync has failed: there is nothing to catch up with
        each.replicas.pop(OTHER, None)
    k.parts[OTHER].leader = None

    assert len(step(k, Journal(), WITHIN).journal.moves) == 1


def test_the_cure_of_a_partition_is_not_held_up() -> None:
    k = catching_up(2)
    k.parts[T].isr = [1, 2]

    assert len(step(k, Journal(), MOVE).journal.moves) == 1


# --- topics whose names are too long for AlterReplicaLogDirs

LONG = "n" * 240
LONG_MOVE = Move(LONG, 0, 0, D0, 3, D1, 100, "evacuate")


def test_the_longest_name_that_alter_replica_log_dirs_takes() -> None:
    assert Move("n" * 213, 0, 0, D0, 3, D1, 1).placeable
    assert not Move("n" * 214, 0, 0, D0, 3, D1, 1).placeable
    assert not Move("n" * 213, 10, 0, D0, 3, D1, 1).placeable


def test_a_long_name_is_moved_without_a_chosen_dir_and_holds_up_no_other() -> None:
    k = kafka((T, [0, 1, 2]), ((LONG, 0), [0, 1, 2]))
    outcome = step(k, Journal(), LONG_MOVE, MOVE)
    assert [i.placements for i in outcome.actions if isinstance(i, PlaceReplicasIntent)] == [(("t", 0, D1),)]
    until_quiet(k, outcome.journal)
    assert k.parts[LONG, 0].replicas == [3, 1, 2]
    assert k.parts[T].replicas == [3, 1, 2]
    assert k.nodes[3].stands(T) == D1
    assert k.nodes[3].stands((LONG, 0)) == D0  # Kafka chose it


def test_a_long_name_goes_only_where_every_dir_has_room() -> None:
    k = kafka((T, [0, 1, 2]), ((LONG, 0), [0, 1, 2]))
    k.nodes[3].dirs[D0].deleting.append(850)
    outcome = execute(k.view(), Journal(), [LONG_MOVE], LIMITS)
    assert reasons(outcome) == ["LogDirNotSelectable"]
    assert "not every one of them can take it" in outcome.refusals[0].refusal.message


def test_a_long_name_is_not_moved_between_dirs() -> None:
    k = kafka(((LONG, 0), [0, 1, 2]))
    within = Move(LONG, 0, 0, D0, 0, D1, 100, "drain")
    assert reasons(execute(k.view(), Journal(), [within], LIMITS)) == ["TopicNameTooLong"]
    # One that is on record from before is given up instead of waiting for ever.
    outcome = execute(k.view(), Journal((within,)), [], LIMITS)
    assert reasons(outcome) == ["TopicNameTooLong"]
    assert outcome.journal.moves == ()
