"""Rule 2, case by case: who may go down, who is back."""

from collections.abc import Container

import pytest

from spindle.model.restart_safety import RestartSafety, in_sync, may_go_down
from spindle.model.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle.rollout.controllers import controller_in_sync, controller_may_go_down


def partition(
    index: int = 0,
    isr: tuple[int, ...] = (0, 1, 2),
    replicas: tuple[int, ...] = (0, 1, 2),
    *,
    leaderless: bool = False,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Partition:
    leader = None if leaderless or not isr else isr[0]
    return Partition("t", index, leader, replicas, isr, None, adding, removing)


def view(
    *partitions: Partition,
    brokers: int = 4,
    min_isr: int = 2,
    dead: Container[int] = (),
    silent: Container[int] = (),
    fenced: Container[int] = (),
    lost: Container[tuple[int, int]] = (),
) -> KafkaView:
    """A view in which every broker shows all its replicas, but for `lost` ones: (broker, partition index)."""
    found = {}
    for broker in range(brokers):
        held = {
            (p.topic, p.index): 1
            for p in partitions
            if broker in p.replicas and (broker, p.index) not in lost
        }
        dirs = (LogDir("/d0", 0, replicas=held), LogDir("/d1", 56 if broker in dead else 0))
        found[broker] = Broker(broker, None, broker in fenced, None if broker in silent else dirs)
    topics = {p.topic: min_isr for p in partitions}
    return KafkaView(brokers=found, partitions=partitions, min_isr=topics)


def test_a_broker_whose_partitions_keep_min_isr_may_go_down() -> None:
    assert may_go_down(view(partition()), 0).allowed


def test_a_second_one_that_takes_the_partition_below_may_not() -> None:
    verdict = may_go_down(view(partition()), 0, frozenset({1}))
    assert verdict.refusal
    assert (verdict.refusal.rule, verdict.refusal.reason, verdict.refusal.objects) == (
        2,
        "WouldBeUnderMinIsr",
        ("t-0",),
    )


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        pytest.param(view(partition(isr=(0, 1))), False, id="a-follower-lags"),
        pytest.param(view(partition(isr=(1, 2))), True, id="it-lags-itself"),
        pytest.param(view(partition(isr=(0,))), False, id="below-already-and-it-is-the-last"),
        pytest.param(view(partition(), fenced=(1,)), False, id="isr-member-is-fenced"),
        pytest.param(view(partition(), brokers=2), False, id="isr-member-is-not-registered"),
        pytest.param(view(partition(), silent=(1,)), False, id="isr-member-can-not-be-asked"),
        pytest.param(view(partition(), silent=(0,)), True, id="it-can-not-be-asked-itself"),
        pytest.param(view(partition(isr=(0, 1)), silent=(0,)), False, id="it-can-not-be-asked-and-is-needed"),
        pytest.param(view(partition(), lost=[(1, 0)], dead=(1,)), False, id="isr-member-is-on-a-dead-dir"),
        pytest.param(view(partition(), lost=[(1, 0)]), False, id="isr-member-does-not-show-it"),
        pytest.param(
            view(partition(isr=(0,), leaderless=True), lost=[(0, 0)], dead=(0,)), True, id="last-and-dead"
        ),
        pytest.param(
            view(partition(isr=(0,), leaderless=True), lost=[(0, 0)]), False, id="no-dir-is-offline"
        ),
        pytest.param(view(partition(isr=(0, 1)), lost=[(0, 0)], dead=(0,)), False, id="a-log-made-since"),
        pytest.param(
            view(partition(isr=(0,), leaderless=True), fenced=(0,)), True, id="fenced-is-down-already"
        ),
        pytest.param(view(partition(isr=(0,)), fenced=(0,)), False, id="fenced-yet-leading"),
        pytest.param(view(), True, id="holds-nothing"),
        pytest.param(view(brokers=0), True, id="not-registered"),
    ],
)
def test_what_counts_as_keeping_a_partition_up(given: KafkaView, allowed: bool) -> None:
    assert may_go_down(given, 0).allowed is allowed


@pytest.mark.parametrize(
    ("min_isr", "replicas", "named"),
    [
        pytest.param(1, (0,), ("t-0",), id="single-copy"),
        pytest.param(2, (0, 1), ("t-0",), id="two-of-two"),
        pytest.param(3, (0, 1), ("t-0",), id="more-than-there-are"),
        pytest.param(1, (0, 1), (), id="one-of-two"),
    ],
)
def test_what_could_never_stay_up_is_named_and_not_counted(
    min_isr: int, replicas: tuple[int, ...], named: tuple[str, ...]
) -> None:
    verdict = may_go_down(view(partition(isr=replicas, replicas=replicas), min_isr=min_isr), 0)
    assert verdict.allowed
    assert verdict.named == named


def test_a_partition_that_spindle_shrank_counts_as_large_as_it_is_meant_to_be() -> None:
    """With two of three replicas left of it, it looks like one that could never stay up."""
    shrunk = view(partition(isr=(0, 1), replicas=(0, 1)))
    assert RestartSafety(shrunk).may_go_down(0).named == ("t-0",)
    verdict = RestartSafety(shrunk, {("t", 0): (0, 1, 2)}).may_go_down(0)
    assert verdict.refusal is not None
    assert verdict.refusal.reason == "WouldBeUnderMinIsr"


@pytest.mark.parametrize(
    "unknown",
    [
        KafkaView(error="no broker answers"),
        KafkaView(brokers={}, partitions=(), min_isr=None),
        KafkaView(brokers={}, partitions=None, min_isr={}),
        KafkaView(brokers=None, partitions=(), min_isr={}),
    ],
)
def test_unknown_permits_nothing(unknown: KafkaView) -> None:
    verdict = may_go_down(unknown, 0)
    assert verdict.refusal
    assert verdict.refusal.reason == "KafkaUnknown"
    assert in_sync(KafkaView(error="x", brokers={}, partitions=()), 0) is None


def test_a_topic_without_known_min_isr_is_refused() -> None:
    given = KafkaView(brokers=view(partition()).brokers, partitions=(partition(),), min_isr={})
    verdict = may_go_down(given, 0)
    assert verdict.refusal
    assert verdict.refusal.reason == "MinIsrUnknown"


@pytest.mark.parametrize(
    ("moving", "broker", "down", "reason"),
    [
        pytest.param(
            partition(replicas=(0, 1, 2, 3), adding=(3,), removing=(2,)),
            3,
            (),
            "ReassignmentInProgress",
            id="onto-it",
        ),
        pytest.param(partition(replicas=(0, 1, 2, 3), adding=(3,), removing=(2,)), 2, (), None, id="off-it"),
        pytest.param(
            partition(replicas=(0, 1, 2, 3), adding=(3,), removing=(0,), isr=(0, 1)),
            1,
            (),
            "WouldBeUnderMinIsr",
            id="a-copy-not-yet-in-isr-does-not-count",
        ),
        pytest.param(
            partition(replicas=(0, 1, 2, 3), isr=(0, 1, 3), adding=(3,), removing=(0,)),
            1,
            (),
            "WouldBeUnderMinIsr",
            id="once-complete-it-would-be-one-short",
        ),
        pytest.param(
            partition(replicas=(0, 1, 2, 3), adding=(3,), removing=(2,)),
            0,
            (3,),
            None,
            id="it-can-not-complete",
        ),
        pytest.param(
            partition(replicas=(0, 1, 2), removing=(1,)),
            2,
            (),
            "WouldBeUnderMinIsr",
            id="a-shrink-completes-at-any-moment",
        ),
    ],
)
def test_reassignments_count_as_they_may_end(
    moving: Partition, broker: int, down: tuple[int, ...], reason: str | None
) -> None:
    refusal = may_go_down(view(moving), broker, frozenset(down)).refusal
    assert (refusal.reason if refusal else None) == reason


def test_a_copy_that_is_to_arrive_on_a_dead_dir_does_not_hold_up_the_restart_it_needs() -> None:
    moving = partition(replicas=(0, 1, 2, 3), adding=(3,), removing=(2,))
    assert may_go_down(view(moving, lost=[(3, 0)], dead=(3,)), 3).allowed


def test_a_refusal_names_a_few_and_counts_all() -> None:
    refusal = may_go_down(view(*(partition(i, isr=(0, 1)) for i in range(9))), 0).refusal
    assert refusal
    assert "9 partitions" in refusal.message
    assert "t-0, t-1, t-2, t-3, t-4 and 4 more" in refusal.message
    assert len(refusal.objects) == 9


def test_a_refusal_says_whom_it_did_not_hear() -> None:
    refusal = may_go_down(view(partition(), silent=(1, 2)), 0).refusal
    assert refusal
    assert "brokers 1, 2" in refusal.message


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(view(partition()), True, id="whole"),
        pytest.param(view(partition(isr=(1, 2))), False, id="lagging"),
        pytest.param(view(partition(), fenced=(0,)), False, id="fenced"),
        pytest.param(view(brokers=0), False, id="not-registered"),
        pytest.param(view(partition(isr=(1, 2), adding=(0,))), True, id="being-added"),
        pytest.param(view(), True, id="empty"),
        pytest.param(KafkaView(error="x"), None, id="unknown"),
        pytest.param(KafkaView(brokers={0: Broker(0, None)}, partitions=()), None, id="fenced-unknown"),
    ],
)
def test_in_sync(given: KafkaView, expected: bool | None) -> None:
    assert in_sync(given, 0) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(view(partition()), True, id="whole"),
        pytest.param(view(partition(isr=(1, 2))), False, id="lagging"),
        pytest.param(view(partition(isr=(1, 2)), lost=[(0, 0)], dead=(0,)), True, id="on-a-dead-dir"),
        pytest.param(view(partition(isr=(), leaderless=True)), True, id="nobody-to-catch-up-with"),
        pytest.param(view(partition(), fenced=(0,)), False, id="fenced"),
        pytest.param(KafkaView(error="x"), None, id="unknown"),
    ],
)
def test_as_in_sync_as_it_can_be(given: KafkaView, expected: bool | None) -> None:
    assert RestartSafety(given).in_sync_as_far_as_possible(0) is expected


def test_what_a_hung_broker_leads_cannot_catch_up() -> None:
    given = RestartSafety(view(partition(isr=(1, 2))))
    assert given.in_sync_as_far_as_possible(0, hung=1) is True
    assert given.in_sync_as_far_as_possible(0, hung=2) is False


def quorum(*caught_up: bool | None, leader: int = 9000) -> Quorum:
    return Quorum(leader, tuple(Voter(9000 + i, f"d{i}", c) for i, c in enumerate(caught_up)))


@pytest.mark.parametrize(
    ("given", "node", "down", "reason"),
    [
        pytest.param(quorum(True, True, True), 9000, (), None, id="three"),
        pytest.param(quorum(True, True, True), 9000, (9001,), "WouldLoseQuorum", id="second-of-three"),
        pytest.param(quorum(True, True, False), 9000, (), "WouldLoseQuorum", id="one-lags"),
        pytest.param(quorum(True, True, None), 9000, (), "WouldLoseQuorum", id="one-unknown"),
        pytest.param(quorum(True, True, False), 9002, (), None, id="the-lagging-one"),
        pytest.param(quorum(True, True, True, True, True), 9000, (9001,), None, id="second-of-five"),
        pytest.param(
            quorum(True, True, True, True, True), 9000, (9001, 9002), "WouldLoseQuorum", id="third-of-five"
        ),
        pytest.param(quorum(True, True), 9000, (), "WouldLoseQuorum", id="two-never"),
        pytest.param(quorum(True, True, True), 9007, (9001,), None, id="no-voter"),
        pytest.param(quorum(True, True, True, leader=-1), 9000, (), "NoQuorumLeader", id="leaderless"),
        pytest.param(None, 9000, (), "QuorumUnknown", id="unknown"),
    ],
)
def test_the_quorum_keeps_its_majority(
    given: Quorum | None, node: int, down: tuple[int, ...], reason: str | None
) -> None:
    refusal = controller_may_go_down(given, node, frozenset(down)).refusal
    assert (refusal.reason if refusal else None) == reason


def test_the_only_controller_may_go_down_and_is_named() -> None:
    verdict = controller_may_go_down(quorum(True), 9000, frozenset())
    assert verdict.allowed
    assert verdict.named


def test_controller_in_sync() -> None:
    assert controller_in_sync(None, 9000) is None
    assert controller_in_sync(quorum(True, False, None), 9000) is True
    assert controller_in_sync(quorum(True, False, None), 9001) is False
    assert controller_in_sync(quorum(True, False, None), 9002) is None
    assert controller_in_sync(quorum(True), 9005) is False


def test_a_large_cluster_is_asked_about() -> None:
    brokers, count = 60, 200_000
    partitions = tuple(
        Partition(f"t{i // 100}", i % 100, i % brokers, r, r)
        for i in range(count)
        for r in [tuple((i + k * 7) % brokers for k in range(3))]
    )
    held: dict[int, dict[tuple[str, int], int]] = {b: {} for b in range(brokers)}
    for p in partitions:
        for b in p.replicas:
            held[b][(p.topic, p.index)] = 1
    given = KafkaView(
        brokers={b: Broker(b, None, False, (LogDir("/d", replicas=held[b]),)) for b in range(brokers)},
        partitions=partitions,
        min_isr={f"t{i}": 2 for i in range(count // 100)},
    )
    rolling = RestartSafety(given)
    assert all(rolling.may_go_down(b).allowed for b in range(brokers))
    assert all(rolling.in_sync(b) for b in range(brokers))


class TestEachHoldsWhatTheOtherLacks:
    """Broker 0 needs a restart to have t-0 back, broker 1 for t-1."""

    def look(self, *replicas: int, min_isr: int = 2) -> KafkaView:
        partitions = [
            partition(0, tuple(b for b in replicas if b != 0), replicas),
            partition(1, tuple(b for b in replicas if b != 1), replicas),
        ]
        return view(*partitions, min_isr=min_isr, dead=(0, 1), lost=[(0, 0), (1, 1)])

    def test_no_restart_keeps_all_at_the_minimum(self) -> None:
        refusals = [may_go_down(self.look(0, 1, 2), b).refusal for b in (0, 1)]
        assert [r.objects for r in refusals if r is not None] == [("t-1",), ("t-0",)]

    def test_a_lower_minimum_of_those_topics_lets_one_go_and_the_other_after_it(self) -> None:
        assert may_go_down(self.look(0, 1, 2, min_isr=1), 0).allowed
        back = view(partition(0), partition(1, (0, 2)), dead=(1,), lost=[(1, 1)])
        assert may_go_down(back, 1).allowed, "with the minimum as it was"

    def test_one_more_copy_lets_both_go(self) -> None:
        assert all(may_go_down(self.look(0, 1, 2, 3), b).allowed for b in (0, 1))

    def test_one_that_no_partition_counts_on_goes_for_nothing(self) -> None:
        replica_index = view(partition(0, (1, 2)), partition(1, (1, 2)), dead=(0,), lost=[(0, 0), (0, 1)])
        assert may_go_down(replica_index, 0).allowed
