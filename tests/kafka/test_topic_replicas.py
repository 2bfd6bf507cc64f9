"""Another replication factor on real brokers: replicas that come and go under load with acks=all, and a removal that Kafka cannot complete."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from spindle.model.view import KafkaView
from spindle.moves.execute import execute
from spindle.moves.journal import GROW, Journal, Move, RemovedReplica, parse, render
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from spindle.moves.removals import may_remove
from spindle.moves.requests import MoveRequests
from spindle.topics.placement import BrokerRoom, DirRoom, Rooms
from spindle.topics.replica_choice import Grower, HeldReplica, choose_leaver
from spindle_operator import kafka_commands
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.kafka.test_moves import Operator, partition, settings, standing, tell

MB = 1_000_000
LIMITS = Limits(bytes_per_second=20 * MB)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=4, disks=2)
    made.up()
    return made


class Conductor(Operator):
    """Remembers nothing but its record."""

    def ask(self, plan: Callable[[KafkaView], tuple[Sequence[Move], Sequence[RemovedReplica]]]) -> StepResult:
        """One step with what is planned for the present view."""
        link = self.link()
        try:
            view = link.look(ask_rights=False)[0]
            moves, removals = plan(view)
            asked = MoveRequests(moves=tuple(moves), removals=tuple(removals))
            outcome = execute(view, parse(self.record), asked, LIMITS)
            self.record = render(outcome.journal)
            for intent in outcome.actions:
                tell(link, intent)
        finally:
            link.close()
        return outcome


def additions(topic: str, wish: int) -> Callable[[KafkaView], tuple[list[Move], list[RemovedReplica]]]:
    def plan(view: KafkaView) -> tuple[list[Move], list[RemovedReplica]]:
        brokers = view.brokers or {}
        rooms = Rooms(
            {
                b.id: BrokerRoom(
                    b.id,
                    b.rack,
                    [DirRoom(d.path, 0.0, float(d.total_bytes or 1), 0.9) for d in b.log_dirs or ()],
                )
                for b in brokers.values()
            }
        )
        grower = Grower(rooms, {b.id: b.rack or "" for b in brokers.values()})
        moves = []
        held: dict[int, int] = {}
        for part in view.partition_index.by_topic[topic]:
            if part.recorded_rf < wish and not part.adding:
                size = KafkaIndex(view).size((topic, part.index))
                found = grower.choose(part.replicas, float(size), held, {})
                assert found is not None
                moves.append(Move(topic, part.index, None, None, *found, size, GROW))
        return moves, []

    return plan


def reductions(topic: str, wish: int) -> Callable[[KafkaView], tuple[list[Move], list[RemovedReplica]]]:
    def plan(view: KafkaView) -> tuple[list[Move], list[RemovedReplica]]:
        look, found = KafkaIndex(view), []
        for part in view.partition_index.by_topic[topic]:
            if part.recorded_rf > wish:
                brokers = view.brokers or {}
                leaver = choose_leaver(
                    [HeldReplica(b, brokers[b].rack or "", b in part.isr) for b in part.replicas]
                )
                if may_remove(look, part, leaver) is None:
                    found.append(RemovedReplica(topic, part.index, leaver))
        return [], found

    return plan


@contextmanager
def load(cluster: Cluster, topic: str, partitions: int) -> Iterator[list[tuple[int, bytes]]]:
    """Producers with acks=all; yields what was acknowledged so far."""
    acknowledged: list[tuple[int, bytes]] = []
    over = threading.Event()

    def write() -> None:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap(), **cluster.ssl(), acks="all", retries=20
        )
        number = 0
        while not over.is_set():
            index, value = number % partitions, b"%08d" % number + b"x" * 20_000
            producer.send(topic, value, partition=index).get(timeout=60)
            acknowledged.append((index, value[:8]))
            number += 1
        producer.close(timeout=10)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield acknowledged
    finally:
        over.set()
        thread.join(90)
        assert not thread.is_alive()


def read(cluster: Cluster, topic: str, partitions: int) -> set[tuple[int, bytes]]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap(), **cluster.ssl())
    try:
        where = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(where)
        consumer.seek_to_beginning(*where)
        ends, found = consumer.end_offsets(where), set()
        while any(consumer.position(each) < ends[each] for each in where):
            for each, records in consumer.poll(1000).items():
                found |= {(each.partition, record.value[:8]) for record in records}
        return found
    finally:
        consumer.close()


def test_replicas_come_and_go_under_load_and_no_acknowledged_record_is_lost(cluster: Cluster) -> None:
    rows = [[0, 1], [1, 2], [2, 0]]
    cluster.make_topic("elastic", rows, **{"min.insync.replicas": "2"})
    operator = Conductor(cluster)

    def has(wish: int) -> bool:
        return all(
            len(p.replicas) == len(p.isr) == wish and not p.adding
            for p in cluster.partitions("elastic").values()
        )

    with load(cluster, "elastic", 3) as acknowledged:
        wait_for("some records", lambda: len(acknowledged) > 100, 60)
        targets: dict[int, Move] = {}

        def grow() -> bool:
            targets.update({m.partition: m for m in operator.ask(additions("elastic", 3)).journal.moves})
            return has(3)

        wait_for("three replicas", grow, 120, 0.3)
        before = len(acknowledged)
        for index, move in targets.items():
            assert partition(cluster, "elastic", index).replicas == (*rows[index], move.target)
            stands = standing(cluster, move.target, "elastic", index)
            assert stands is not None
            assert stands.path == move.to_dir
        wait_for(
            "an end of throttles",
            lambda: operator.step() and not any(settings(cluster.view()).values()),
            60,
            0.3,
        )

        def reduce() -> bool:
            operator.ask(reductions("elastic", 2))
            return has(2)

        wait_for("two replicas", reduce, 60, 0.3)
        wait_for("more records", lambda: len(acknowledged) > before + 50, 60)
    for index, row in enumerate(rows):
        assert partition(cluster, "elastic", index).replicas[0] == row[0], "the preferred leader stays"
    assert set(acknowledged) <= read(cluster, "elastic", 3)


def test_a_removal_that_cannot_complete_is_cancelled_and_nothing_changes(cluster: Cluster) -> None:
    cluster.make_topic("stuck", [[0, 1, 2]], **{"min.insync.replicas": "1"})
    cluster.produce("stuck", 0, [b"record"] * 10)
    entry = RemovedReplica("stuck", 0, 2)
    cluster.nodes[1].stop()
    try:
        wait_for("a smaller ISR", lambda: 1 not in partition(cluster, "stuck").isr, 60)
        view = cluster.view()
        refusal = may_remove(KafkaIndex(view), view.partition_index.by_key["stuck", 0], 2)
        assert refusal is not None
        assert refusal.reason == "ReplicaRemovalPending"
        # It was asked for before broker 1 fell out of the ISR.
        operator = Conductor(cluster)
        operator.record = render(Journal(removed=(entry,)))
        link = operator.link()
        kafka_commands.reassign(link, [("stuck", 0, (0, 1))])
        link.close()
        wait_for("the removal", lambda: partition(cluster, "stuck").removing == (2,), 30)
        outcome = operator.ask(lambda _: ((), (entry,)))
        assert outcome.journal.removed == (entry,), "it stays on record until it is gone"
        wait_for("the former replicas", lambda: not partition(cluster, "stuck").removing, 30)
        assert set(partition(cluster, "stuck").replicas) == {0, 1, 2}
    finally:
        cluster.nodes[1].start()
        cluster.nodes[1].wait_ready()
    wait_for("a full ISR", lambda: len(partition(cluster, "stuck").isr) == 3, 90)
    order = partition(cluster, "stuck").replicas
    operator.ask(lambda _: ((), (entry,)))
    wait_for("two replicas", lambda: len(partition(cluster, "stuck").replicas) == 2, 30)
    assert partition(cluster, "stuck").replicas == tuple(b for b in order if b != 2)
