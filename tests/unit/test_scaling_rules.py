"""Who leaves, and whether: the predicates by example."""

import pytest

from spindle.model.replica_index import ReplicaIndex
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle.scaling.choose import ScaleInCandidate, choose_brokers
from spindle.scaling.rules import may_begin, may_go

RACKS = {0: "a", 1: "b", 2: "c", 3: "a", 4: "b"}


def partition(
    *replicas: int,
    topic: str = "t",
    index: int = 0,
    isr: tuple[int, ...] | None = None,
    elr: tuple[int, ...] | None = (),
) -> Partition:
    return Partition(
        topic, index, leader=replicas[0], replicas=replicas, isr=replicas if isr is None else isr, elr=elr
    )


def view(
    *partitions: Partition, brokers: int = 5, shown: dict[int, list[tuple[str, int]]] | None = None
) -> KafkaView:
    dirs = {
        i: (
            LogDir(
                "/d",
                replicas=dict.fromkeys((shown or {}).get(i, ()), 100),
                total_bytes=1000,
                usable_bytes=900,
            ),
        )
        for i in range(brokers)
    }
    return KafkaView(
        brokers={i: Broker(id=i, rack=RACKS[i], fenced=False, log_dirs=dirs[i]) for i in range(brokers)},
        partitions=partitions,
        min_isr={p.topic: 2 for p in partitions},
    )


class TestWhoLeaves:
    def test_the_highest_ids(self) -> None:
        assert choose_brokers([ScaleInCandidate(i) for i in (7, 2, 5, 0)], 2) == (7, 5)

    def test_those_that_are_named_then_those_that_never_ran(self) -> None:
        members = [
            ScaleInCandidate(0),
            ScaleInCandidate(1, named=True),
            ScaleInCandidate(2, idle=True),
            ScaleInCandidate(3),
        ]
        assert choose_brokers(members, 1) == (1, 2, 3)

    def test_who_is_stopped_for_good_already_goes_on(self) -> None:
        assert choose_brokers(
            [ScaleInCandidate(0, stopped=True), ScaleInCandidate(1, named=True), ScaleInCandidate(2)], 2
        ) == (0,)

    @pytest.mark.parametrize("wanted", [3, 4])
    def test_nobody_where_there_are_not_too_many(self, wanted: int) -> None:
        assert choose_brokers([ScaleInCandidate(i) for i in range(3)], wanted) == ()


class TestMayBegin:
    def test_where_enough_brokers_and_racks_are_left(self) -> None:
        replica_index = ReplicaIndex(view(partition(0, 1, 2)))
        assert may_begin(replica_index, {3, 4}, RACKS) is None

    def test_a_topic_with_more_copies_than_brokers(self) -> None:
        replica_index = ReplicaIndex(view(partition(0, 1, 2, 3, topic="wide"), partition(0, 1)))
        refusal = may_begin(replica_index, {3, 4}, RACKS)
        assert refusal is not None
        assert (refusal.reason, refusal.objects) == ("InsufficientBrokers", ("wide",))
        assert "at least 4" in refusal.unblocked_by

    def test_a_rack_whose_last_broker_would_go(self) -> None:
        replica_index = ReplicaIndex(view(partition(0, 1, 2)))
        refusal = may_begin(replica_index, {2}, RACKS)
        assert refusal is not None
        assert (refusal.reason, refusal.objects) == ("InsufficientRacks", ("t-0",))

    def test_a_rack_that_no_partition_needs(self) -> None:
        replica_index = ReplicaIndex(view(partition(2, 0), partition(0, 1, index=1)))
        assert may_begin(replica_index, {2}, RACKS) is None

    @pytest.mark.parametrize(
        ("value", "reason"), [("3", None), ("4", "ConfigNeedsMoreBrokers"), ("many", None)]
    )
    def test_what_new_topics_are_to_have(self, value: str, reason: str | None) -> None:
        replica_index = ReplicaIndex(view(partition(0, 1, 2)))
        refusal = may_begin(replica_index, {3, 4}, RACKS, {"default.replication.factor": value})
        assert (refusal.reason if refusal else None) == reason


class TestMayGo:
    def test_when_nothing_names_it(self) -> None:
        assert may_go(view(partition(0, 1, 2)), 4) is None

    @pytest.mark.parametrize(
        ("seen", "reason"),
        [
            pytest.param(view(partition(0, 1, 4)), "ReplicasOnBroker", id="assigned"),
            pytest.param(view(partition(0, 1, isr=(0, 1, 4))), "ReplicasOnBroker", id="in the ISR"),
            pytest.param(
                view(partition(0, 1), shown={4: [("t", 0)]}), "ReplicasOnBroker", id="a log is left"
            ),
            pytest.param(view(partition(0, 1, elr=(4,))), "EligibleLeaderReplicas", id="may still lead"),
            pytest.param(view(partition(0, 1, elr=None)), "ElrUnknown", id="Kafka does not say"),
            pytest.param(KafkaView(error="no answer"), "KafkaUnknown", id="nothing is known"),
        ],
    )
    def test_not_while(self, seen: KafkaView, reason: str) -> None:
        refusal = may_go(seen, 4)
        assert refusal is not None
        assert refusal.reason == reason
        assert refusal.rule == 5

    def test_not_while_something_is_on_its_way(self) -> None:
        refusal = may_go(view(partition(0, 1, 2)), 4, [("t", 0)])
        assert refusal is not None
        assert refusal.reason == "ReplicasOnBroker"
