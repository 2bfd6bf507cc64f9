"""The executor against real brokers: replicas land where they were sent, at the pace they were given, and nothing stays behind."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Event

import pytest

from spindle.api import names
from spindle.model.view import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LOG_DIRS_RATE,
    KafkaView,
    LogDir,
    Partition,
)
from spindle.moves.execute import cleanup
from spindle.moves.intents import ConfigureIntent, ElectIntent, Intent, PlaceReplicasIntent, ReassignIntent
from spindle.moves.journal import Journal, Move, ReplacedLog, parse, render
from spindle.moves.limits import Limits
from spindle.moves.outcome import StepResult
from spindle_operator import kafka_commands
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.model.moving import execute

MB = 1_000_000
FAST = Limits(bytes_per_second=100 * MB)


class Operator:
    """What is left of the executor between two steps: its record. Each step has a connection of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.record = ""

    @property
    def journal(self) -> Journal:
        return parse(self.record)

    def link(self) -> KafkaClient:
        hosts = {node.node_id: node.address for node in self.cluster.brokers if node.kafka is not None}
        pems = [(self.cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")]
        return KafkaClient("test/demo", hosts, names.PORT_REPLICATION, Access(hosts, *pems).context(), 20)

    def step(
        self,
        *wanted: Move,
        limits: Limits = FAST,
        dies_after: int | None = None,
        leads: Mapping[tuple[str, int], int] | None = None,
    ) -> StepResult:
        """One step; the operator dies after so many of its orders. Moves within a broker are carried out like an agent would."""
        link = self.link()
        try:
            view = link.look(ask_rights=False, replaced=self.journal.replaced)[0]
            outcome = execute(view, self.journal, wanted, limits, leads=leads or {})
            self.record = render(outcome.journal)
            for intent in outcome.actions[:dies_after]:
                tell(link, intent)
            for broker, moves in outcome.agent_moves.items():
                kafka_commands.place(
                    link, broker, [(move.topic, move.partition, move.to_dir) for move in moves]
                )
        finally:
            link.close()
        return outcome

    def until_quiet(self, *, limits: Limits = FAST, seconds: float = 90) -> None:
        wait_for("an empty journal", lambda: self.step(limits=limits) and not self.journal, seconds, 0.3)


def tell(link: KafkaClient, intent: Intent) -> None:
    match intent:
        case PlaceReplicasIntent():
            kafka_commands.place(link, intent.broker, intent.placements)
        case ReassignIntent():
            kafka_commands.reassign(link, intent.assignments)
        case ElectIntent():
            kafka_commands.elect(link, intent.partitions)
        case ConfigureIntent():
            assert intent.kind != "quota", "moves set none"
            kafka_commands.set_configs(link, intent.kind, intent.name, intent.values)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=4, disks=2)
    made.up()
    return made


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[Operator]:
    made = Operator(cluster)
    yield made
    assert not made.journal
    assert not any(settings(cluster.view()).values())


def settings(view: KafkaView) -> Mapping[tuple[str, str], Mapping[str, str]]:
    assert view.settings is not None
    return view.settings


def path(cluster: Cluster, broker: int, disk: str) -> str:
    return f"{cluster.nodes[broker].mount(disk)}/{names.LOG_SUBDIR}"


def partition(cluster: Cluster, topic: str, index: int = 0) -> Partition:
    return cluster.partitions(topic)[index]


def leads(cluster: Cluster, topic: str, broker: int) -> bool:
    return partition(cluster, topic).leader == broker


def standing(cluster: Cluster, broker: int, topic: str, index: int = 0) -> LogDir | None:
    view = cluster.view()
    assert view.brokers is not None
    dirs = view.brokers[broker].log_dirs or ()
    return next((d for d in dirs if (topic, index) in d.replicas), None)


def crowd(cluster: Cluster, broker: int, topic: str, index: int = 0) -> tuple[str, str]:
    """A dir of a broker that Kafka would not choose by itself, since it holds more logs; and the other one."""
    view = cluster.view()
    assert view.brokers is not None
    few, many = sorted(view.brokers[broker].log_dirs or (), key=lambda d: (len(d.replicas), d.path))
    if len(few.replicas) == len(many.replicas):
        name = f"crowd-{broker}-{topic}-{index}"
        cluster.make_topic(name, [[broker]])
        return crowd(cluster, broker, topic, index)
    return many.path, few.path


def fill(cluster: Cluster, topic: str, megabytes: int, index: int = 0) -> int:
    """Random records, which no codec shrinks. Returns their bytes."""
    cluster.produce(topic, index, (os.urandom(50_000) for _ in range(megabytes * 20)))
    return megabytes * MB


def test_a_replica_lands_on_the_chosen_dir_at_the_pace_it_was_given(
    cluster: Cluster, operator: Operator
) -> None:
    cluster.make_topic("paced", [[0, 1]])
    size = fill(cluster, "paced", 16)
    chosen, _ = crowd(cluster, 3, "paced")
    limits = Limits(bytes_per_second=2 * MB)
    started = time.monotonic()
    operator.step(Move("paced", 0, 0, None, 3, chosen, size, "test"), limits=limits)
    seen = settings(cluster.view())
    assert seen["topic", "paced"][FOLLOWER_REPLICAS] == "0:3"
    assert seen["broker", "3"] == {FOLLOWER_RATE: "2000000"}
    assert {seen["broker", b][LEADER_RATE] for b in "01"} == {"2000000"}
    assert not seen["broker", "2"]
    wait_for("the replica in sync", lambda: partition(cluster, "paced").replicas == (3, 1), 60)
    rate = size / (time.monotonic() - started)
    print(f"throttle {limits.bytes_per_second} B/s, measured {rate:.0f} B/s")
    assert 0.1 * 2 * MB < rate < 1.3 * 2 * MB  # a busy machine is slower
    operator.until_quiet(limits=limits)
    stands = standing(cluster, 3, "paced")
    assert stands is not None
    assert stands.path == chosen


def test_what_a_person_has_set_comes_back(cluster: Cluster, operator: Operator) -> None:
    cluster.make_topic("owned", [[0, 1]])
    size = fill(cluster, "owned", 1)
    link = operator.link()
    kafka_commands.set_configs(link, "topic", "owned", {FOLLOWER_REPLICAS: "7:9"})
    kafka_commands.set_configs(link, "broker", "2", {FOLLOWER_RATE: "50000000"})
    chosen, _ = crowd(cluster, 2, "owned")
    operator.step(Move("owned", 0, 0, None, 2, chosen, size, "test"))
    seen = settings(cluster.view())
    assert seen["topic", "owned"][FOLLOWER_REPLICAS] in ("7:9,0:2", "0:2,7:9")
    assert seen["broker", "2"] == {FOLLOWER_RATE: "50000000"}
    operator.until_quiet()
    seen = settings(cluster.view())
    assert seen["topic", "owned"] == {FOLLOWER_REPLICAS: "7:9"}
    assert seen["broker", "2"] == {FOLLOWER_RATE: "50000000"}
    kafka_commands.set_configs(link, "topic", "owned", {FOLLOWER_REPLICAS: None})
    kafka_commands.set_configs(link, "broker", "2", {FOLLOWER_RATE: None})
    link.close()


@pytest.mark.slow  # how it goes on is shown by the next one
def test_a_target_that_restarts_after_it_was_told_the_dir_is_put_right(
    cluster: Cluster, operator: Operator
) -> None:
    cluster.make_topic("forgotten", [[0, 1]])
    size = fill(cluster, "forgotten", 8)
    chosen, other = crowd(cluster, 3, "forgotten")
    slow = Limits(bytes_per_second=MB // 20)
    link = operator.link()
    outcome = execute(
        link.look(ask_rights=False)[0],
        Journal(),
        [Move("forgotten", 0, 0, None, 3, chosen, size, "test")],
        slow,
    )
    operator.record = render(outcome.journal)
    *before, last = outcome.actions
    for intent in before:
        tell(link, intent)
    cluster.forget_admin()
    cluster.nodes[3].stop()
    cluster.nodes[3].start()
    cluster.nodes[3].wait_ready()
    tell(link, last)
    link.close()
    wait_for("the replica", lambda: standing(cluster, 3, "forgotten"))
    stands = standing(cluster, 3, "forgotten")
    assert stands is not None
    assert stands.path == other
    outcome = operator.step(limits=slow)
    assert [refused.refusal.reason for refused in outcome.refusals] == ["MovedToOtherDisk"]
    operator.until_quiet()
    stands = standing(cluster, 3, "forgotten")
    assert stands is not None
    assert stands.path == chosen
    assert partition(cluster, "forgotten").replicas == (3, 1)


def test_one_that_landed_elsewhere_goes_on_between_the_dirs(cluster: Cluster, operator: Operator) -> None:
    cluster.make_topic("elsewhere", [[0, 1]])
    size = fill(cluster, "elsewhere", 2)
    chosen, other = crowd(cluster, 2, "elsewhere")
    operator.record = render(Journal((Move("elsewhere", 0, 0, None, 2, chosen, size, "test"),)))
    link = operator.link()
    kafka_commands.reassign(link, [("elsewhere", 0, (2, 1))])  # nobody chose a dir
    link.close()
    wait_for("the reassignment", lambda: partition(cluster, "elsewhere").replicas == (2, 1))
    stands = standing(cluster, 2, "elsewhere")
    assert stands is not None
    assert stands.path == other
    outcome = operator.step()
    assert [move.to_dir for move in outcome.agent_moves[2]] == [chosen]
    operator.until_quiet()
    stands = standing(cluster, 2, "elsewhere")
    assert stands is not None
    assert stands.path == chosen


@pytest.mark.slow  # an operator that dies with a proposal (test_proposals.py) shows the same
def test_an_operator_that_dies_between_any_two_orders_is_followed_by_one_that_goes_on(
    cluster: Cluster, operator: Operator
) -> None:
    cluster.make_topic("orphan", [[0, 1], [0, 1]])
    size = fill(cluster, "orphan", 4)
    chosen, _ = crowd(cluster, 3, "orphan")
    slow = Limits(bytes_per_second=MB)
    wanted = [Move("orphan", i, 0, None, 3, chosen, size, "test") for i in range(2)]
    operator.step(*wanted, limits=slow, dies_after=0)
    lives = 0
    while partition(cluster, "orphan").replicas != (3, 1):
        operator.step(limits=slow, dies_after=1 + lives % 3)  # choosing a dir and reassigning belong together
        lives += 1
        assert lives < 60
    operator.until_quiet()
    for index in range(2):
        stands = standing(cluster, 3, "orphan", index)
        assert stands is not None
        assert stands.path == chosen
        assert partition(cluster, "orphan", index).replicas == (3, 1)


def test_a_cluster_that_is_deleted_takes_its_orders_back(cluster: Cluster, operator: Operator) -> None:
    cluster.make_topic("deleted", [[0, 1]])
    size = fill(cluster, "deleted", 4)
    chosen, _ = crowd(cluster, 3, "deleted")
    cluster.make_topic("led", [[0, 1]])
    operator.step(
        Move("deleted", 0, 0, None, 3, chosen, size, "test"),
        limits=Limits(bytes_per_second=MB // 50),
        leads={("led", 0): 1},
    )
    assert partition(cluster, "deleted").adding == (3,)
    wait_for("another leader", partial(leads, cluster, "led", 1), 20, 0.3)
    for _ in range(20):
        link = operator.link()
        outcome = cleanup(link.look(ask_rights=False)[0], operator.journal)
        operator.record = render(outcome.journal)
        for intent in outcome.actions:
            tell(link, intent)
        link.close()
        if not operator.journal:
            break
    assert partition(cluster, "deleted").replicas == (0, 1)
    assert partition(cluster, "led").replicas == (0, 1)
    wait_for("the previous leader", partial(leads, cluster, "led", 0), 20, 0.3)


def test_moves_between_dirs_are_told_done_when_they_are(cluster: Cluster, operator: Operator) -> None:
    cluster.make_topic("within", [[1, 2]])
    size = fill(cluster, "within", 2)
    here = standing(cluster, 1, "within")
    assert here is not None
    (there,) = {path(cluster, 1, disk) for disk in ("disk0", "disk1")} - {here.path}
    link = operator.link()
    kafka_commands.set_configs(link, "broker", "1", {LOG_DIRS_RATE: str(MB)})
    outcome = operator.step(Move("within", 0, 1, None, 1, there, size, "test"))
    assert [move.from_dir for move in outcome.agent_moves[1]] == [here.path]
    assert [p.state for p in operator.step().progress] == ["Copying"]
    operator.until_quiet()
    kafka_commands.set_configs(link, "broker", "1", {LOG_DIRS_RATE: None})
    link.close()
    stands = standing(cluster, 1, "within")
    assert stands is not None
    assert stands.path == there


@pytest.mark.parametrize("records", [0, 3])
def test_followers_do_not_ask_forever_for_an_epoch_that_a_move_lost(
    cluster: Cluster, operator: Operator, records: int
) -> None:
    """KAFKA-20961: the copy lacks the epochs without records. If it is empty, a follower that led in one asks for it in a loop."""
    topic = f"idle-{records}"
    cluster.make_topic(topic, [[1, 2]])
    cluster.produce(topic, 0, [b"record"] * records)
    link = operator.link()
    for order in ((2, 1), (1, 2)):  # both have led since the last record
        kafka_commands.reassign(link, [(topic, 0, order)])
        kafka_commands.elect(link, [(topic, 0)])
        wait_for("the leader", partial(leads, cluster, topic, order[0]))
    here = standing(cluster, 1, topic)
    assert here is not None
    (there,) = {path(cluster, 1, disk) for disk in ("disk0", "disk1")} - {here.path}
    kafka_commands.place(link, 1, [(topic, 0, there)])
    wait_for("the move", lambda: (now := standing(cluster, 1, topic)) is not None and now.path == there)
    asked = ReplacedLog(topic, 0, 1, 1000.0)  # steps have no clock
    assert link.look(ask_rights=False, replaced=[asked])[0].own_epochs == {(topic, 0): False}
    link.close()

    def loops() -> int:
        return (
            cluster.nodes[2]
            .log.read_text(errors="replace")
            .count(f"Current offset {records} for partition {topic}-0 is out of range")
        )

    if not records:
        wait_for("a follower that asks again and again", lambda: loops() > 100)
    operator.record = render(Journal(replaced=(asked,)))
    wait_for("an epoch", lambda: operator.step() and operator.journal == Journal(), 60, 0.3)
    assert partition(cluster, topic).replicas == (1, 2)
    assert partition(cluster, topic).leader == 1
    before = loops()
    Event().wait(2)
    assert loops() == before


def test_a_dead_dir_is_evacuated_while_its_broker_runs_on(cluster: Cluster, operator: Operator) -> None:
    cluster.make_topic("dead", [[0, 1, 2]] * 4, **{"min.insync.replicas": "2"})
    for index in range(4):
        fill(cluster, "dead", 1, index)
    here = standing(cluster, 0, "dead")
    assert here is not None
    disk = next(d for d in ("disk0", "disk1") if path(cluster, 0, d) == here.path)
    gone = sorted(index for topic, index in here.replicas if topic == "dead")
    slot = cluster.nodes[0].slots[disk].disk
    assert slot is not None
    slot.die()
    cluster.produce("dead", gone[0], [b"touch"])
    wait_for("Kafka to see it", lambda: 0 not in partition(cluster, "dead", gone[0]).isr, 60)
    chosen, _ = crowd(cluster, 3, "dead")
    started = time.monotonic()
    operator.step(*(Move("dead", index, 0, here.path, 3, chosen, MB, "evacuate") for index in gone))
    operator.until_quiet()
    print(f"{len(gone)} replicas evacuated in {time.monotonic() - started:.1f} s")
    for index in gone:
        stands = standing(cluster, 3, "dead", index)
        assert stands is not None
        assert stands.path == chosen
        assert partition(cluster, "dead", index).replicas == (3, 1, 2)
