"""Proposals on real brokers, through the operator's own connection: carried out, overtaken, stopped half-way, and by one that dies."""

import os
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from spindle.api import names
from spindle.api.enums import ProposalPhase
from spindle.model.actions import GrantRebalance, PlaceReplicas, Reassign, SetConfigs
from spindle.model.view import KafkaView
from spindle.moves.intents import Intent
from spindle.moves.journal import parse, render
from spindle.moves.journal_record import to_actions
from spindle.moves.kafka_index import KafkaIndex
from spindle.moves.limits import Limits
from spindle.proposals.approval import Approval
from spindle.proposals.lifecycle import ProposalFacts, next_step
from spindle.proposals.move_states import DONE, DROPPED, MOVING, WAITING
from spindle.proposals.proposal import REASON, read_proposal
from spindle.proposals.proposal_status import ProposalProgress, proposal_status
from spindle.proposals.waves import look_over
from spindle.proposals.windows import ALWAYS
from spindle_operator.connection import Access
from spindle_operator.kafka_executor import KafkaExecutor
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for
from tests.model.moving import execute

MB = 1_000_000
FAST = Limits(bytes_per_second=200 * MB)
SLOW = Limits(bytes_per_second=MB // 20)
HASH = "0123456789abcdef"


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=4, disks=2)
    made.up()
    return made


@pytest.fixture
async def gate() -> AsyncIterator[KafkaExecutor]:
    gate = KafkaExecutor("test/demo", 5.0)
    yield gate
    await gate.shutdown()


class DiedError(Exception):
    """The operator is gone, in the middle of a pass."""


class Passes:
    """The operator's passes over one proposal. All that is left between two of them is the journal's text and the object.

    Like the operator's own, a pass writes the journal first, then tells Kafka, and writes the status last.
    """

    def __init__(
        self, cluster: Cluster, gate: KafkaExecutor, moves: list[dict[str, Any]], **spec: Any
    ) -> None:
        self.cluster, self.executor = cluster, gate
        self.record = ""
        self.limits = FAST
        self.dies_in: int | None = None  # so many writes, of whatever kind
        self.raw: dict[str, Any] = {
            "metadata": {"name": "demo-1", "uid": "u", "generation": 1},
            "spec": {
                "cluster": "demo",
                "inputHash": HASH,
                "approved": HASH,
                "expires": "2099-01-01T00:00:00Z",
                "moves": moves,
                **spec,
            },
            "status": {"phase": "Executing", "approvedBy": "person"},
        }

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.raw["status"])

    async def look(self) -> KafkaView:
        running = {node.node_id: node.address for node in self.cluster.brokers if node.kafka is not None}
        pems = ((self.cluster.operator / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key"))
        view, _ = await self.executor.look(Access(running, *pems))
        assert view.error is None
        return view

    async def one(self) -> None:
        view, journal, proposal = await self.look(), parse(self.record), read_proposal(self.raw)
        executing = proposal.phase is ProposalPhase.EXECUTING
        wave = look_over(proposal, KafkaIndex(view), journal, self.limits) if executing else None
        keep = wave.keep if wave is not None else set()
        go = wave.go if wave is not None else []
        status: dict[str, Any] | None = None
        if wave is not None:
            by = Approval("person")
            facts = ProposalFacts(
                phase=proposal.phase,
                approved_by=by.by,
                began_by="person",
                stop=self.raw["spec"].get("stop", False),
                waiting=wave.move_states.count(WAITING),
                moving=wave.move_states.count(MOVING),
                done=wave.move_states.count(DONE),
                dropped=wave.move_states.count(DROPPED),
            )
            now = next_step(facts)
            if now.phase.over:
                keep, go = set(), []
            standing = ProposalProgress(now, by, wave, ALWAYS, self.limits.bytes_per_second)
            status = proposal_status(proposal, standing, time.time())
        withdrawn = frozenset(m.key for m in journal.moves if m.reason == REASON and m.key not in keep)
        outcome = execute(view, journal, go, self.limits, withdrawn=withdrawn)
        if (record := render(outcome.journal)) != self.record:
            self.write()
            self.record = record
        for intent in outcome.actions:
            self.write()
            await self.tell(intent)
        for broker, moves in outcome.agent_moves.items():
            placements = tuple((m.topic, m.partition, m.to_dir) for m in moves)
            await self.executor.carry_out(PlaceReplicas(broker=broker, placements=placements))
        if status is not None and status != self.raw["status"]:
            self.write()
            self.raw["status"] = status

    def write(self) -> None:
        """About to write something that outlives the process, unless it dies just now."""
        if self.dies_in is None:
            return
        self.dies_in -= 1
        if self.dies_in < 0:
            raise DiedError

    async def tell(self, intent: Intent) -> None:
        for action in to_actions((intent,)):
            await self.executor.carry_out(action)

    async def until(self, what: str, holds: Callable[[], bool], passes: int = 200) -> None:
        for _ in range(passes):
            await self.one()
            if holds():
                return
        raise AssertionError(f"{what}: {self.status}, {self.record}")

    async def until_clean(self) -> None:
        """Nothing in the journal, no throttle, nothing in motion."""
        await self.until("an empty journal", lambda: not parse(self.record))
        view = await self.look()
        assert not any((view.settings or {}).values())
        assert not [p.name for p in view.partitions or () if p.adding or p.removing]


def path(cluster: Cluster, broker: int, disk: str) -> str:
    return f"{cluster.nodes[broker].mount(disk)}/{names.LOG_SUBDIR}"


async def planned(passes: Passes, topic: str, index: int, target: tuple[int, str]) -> dict[str, Any]:
    """A move of a partition's first replica from where it stands now."""
    view = await passes.look()
    partition = next(p for p in view.partitions or () if (p.topic, p.index) == (topic, index))
    source = partition.replicas[0]
    stands = KafkaIndex(view).standing(source, (topic, index))
    assert stands is not None
    return {
        "topic": topic,
        "partition": index,
        "fromBroker": source,
        "fromDir": stands.path,
        "toBroker": target[0],
        "toDir": target[1],
        "bytes": stands.replicas[topic, index],
    }


def fill(cluster: Cluster, topic: str, megabytes: int) -> None:
    cluster.produce(topic, 0, (os.urandom(50_000) for _ in range(megabytes * 20)))


async def test_a_proposal_is_carried_out_and_what_was_deleted_meanwhile_is_left_out(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    for topic in ("stays", "goes"):
        cluster.make_topic(topic, [[0, 1]])
        fill(cluster, topic, 2)
    look = Passes(cluster, gate, [])
    moves = [
        {**await planned(look, "stays", 0, (3, path(cluster, 3, "disk1"))), "wave": 0},
        {**await planned(look, "goes", 0, (3, path(cluster, 3, "disk0"))), "wave": 1},
    ]
    passes = Passes(cluster, gate, moves)
    await passes.one()
    cluster.admin().delete_topics(["goes"])
    await passes.until("done", lambda: passes.status["phase"] == "Done")
    await passes.until_clean()

    assert passes.status["outcomes"] == "+-"
    assert [drop["reason"] for drop in passes.status["dropped"]] == ["TopicDeleted"]
    view = await passes.look()
    stands = KafkaIndex(view).standing(3, ("stays", 0))
    assert stands is not None
    assert stands.path == path(cluster, 3, "disk1")


async def test_one_that_is_stopped_half_way_leaves_nothing_behind(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    cluster.make_topic("large", [[0, 1]])
    fill(cluster, "large", 12)
    look = Passes(cluster, gate, [])
    passes = Passes(cluster, gate, [await planned(look, "large", 0, (2, path(cluster, 2, "disk1")))])
    passes.limits = SLOW
    await passes.until("it is in motion", lambda: bool(parse(passes.record).moves))
    during = await passes.look()
    assert [p.adding for p in during.partitions or () if p.topic == "large"] == [(2,)]
    assert any((during.settings or {}).values())

    passes.raw["spec"]["stop"] = True
    await passes.until_clean()

    assert passes.status["phase"] == "Stopped"
    view = await passes.look()
    assert [p.replicas for p in view.partitions or () if p.topic == "large"] == [(0, 1)]


async def test_what_others_did_meanwhile_is_left_out_and_why(cluster: Cluster, gate: KafkaExecutor) -> None:
    for topic in ("holds", "moved", "refused"):
        cluster.make_topic(topic, [[0, 1]])
        fill(cluster, topic, 1)
    look = Passes(cluster, gate, [])
    moves = [
        await planned(look, "holds", 0, (2, path(cluster, 2, "disk0"))),
        await planned(look, "moved", 0, (2, path(cluster, 2, "disk1"))),
        await planned(look, "refused", 0, (3, path(cluster, 3, "disk1"))),
    ]
    await gate.carry_out(Reassign(assignments=(("moved", 0, (3, 1)),)))
    cordoned = ",".join(path(cluster, 3, disk) for disk in ("disk0", "disk1"))
    await gate.carry_out(SetConfigs(target="broker", name="3", values={"cordoned.log.dirs": cordoned}))
    wait_for("it is moved", lambda: sorted(cluster.partitions("moved")[0].replicas) == [1, 3])
    passes = Passes(cluster, gate, moves)
    await passes.until("done", lambda: passes.status["phase"] == "Done")
    await gate.carry_out(SetConfigs(target="broker", name="3", values={"cordoned.log.dirs": None}))
    await passes.until_clean()

    assert passes.status["outcomes"] == "+--"
    assert [(drop["topic"], drop["reason"]) for drop in passes.status["dropped"]] == [
        ("moved", "ReplicaRelocated"),
        ("refused", "TargetUnusable"),
    ]
    assert cluster.partitions("refused")[0].replicas == (0, 1)


@pytest.mark.parametrize("moments", [5, pytest.param(20, marks=pytest.mark.slow)])
async def test_one_that_dies_at_many_moments_is_followed_by_one_that_goes_on(
    cluster: Cluster, gate: KafkaExecutor, moments: int
) -> None:
    """Between any two writes of a pass: the journal, each order to Kafka, the status. A proposal moves all to and fro."""
    seed = 7
    print(f"seed {seed}")
    dice = random.Random(seed)
    topic = f"often-{moments}"
    cluster.make_topic(topic, [[0, 1]] * 4)
    for partition in range(4):
        cluster.produce(topic, partition, (os.urandom(50_000) for _ in range(10)))
    deaths = turns = 0
    while deaths < moments:
        look = Passes(cluster, gate, [])
        target = 2 if turns % 2 == 0 else 0
        moves = [
            await planned(look, topic, index, (target, path(cluster, target, f"disk{index % 2}")))
            for index in range(4)
        ]
        passes = Passes(cluster, gate, moves)
        while passes.status["phase"] == "Executing" or parse(passes.record):
            passes.dies_in = dice.randrange(6) if deaths < moments else None
            try:
                for _ in range(dice.randint(1, 10)):
                    await passes.one()
            except DiedError:
                deaths += 1
        passes.dies_in = None
        await passes.until_clean()

        assert (passes.status["phase"], passes.status["outcomes"]) == ("Done", "++++")
        stand = [KafkaIndex(await passes.look()).standing(target, (topic, index)) for index in range(4)]
        assert [each.path for each in stand if each is not None] == [move["toDir"] for move in moves]
        assert {p.replicas for p in cluster.partitions(topic).values()} == {(target, 1)}
        turns += 1
    print(f"{deaths} deaths in {turns} proposals")


async def test_the_rebalance_jobs_principal_may_look_and_change_nothing(
    cluster: Cluster, gate: KafkaExecutor
) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

    folder = cluster.ca.client(cluster.base / "rebalance", names.PRINCIPAL_REBALANCE)
    cluster.make_topic(names.TOPIC_SAMPLES, [[0, 1]])
    cluster.make_topic("secret", [[0, 1]])
    cluster.produce(names.TOPIC_SAMPLES, 0, [b"sample"])
    await Passes(cluster, gate, []).look()
    await gate.carry_out(GrantRebalance())
    await gate.carry_out(GrantRebalance())
    ends = {"bootstrap_servers": cluster.bootstrap(names.PORT_CLIENT), **cluster.ssl(folder)}
    consumer = KafkaConsumer(
        auto_offset_reset="earliest", enable_auto_commit=False, consumer_timeout_ms=20_000, **ends
    )
    consumer.assign([TopicPartition(names.TOPIC_SAMPLES, 0)])
    assert next(consumer).value == b"sample"
    consumer.close()
    admin = KafkaAdminClient(**ends)
    assert admin.describe_log_dirs()
    with pytest.raises(KafkaError):
        admin.create_topics({"made": {"num_partitions": 1, "replication_factor": 1}})
    admin.close()
    producer = KafkaProducer(acks="all", **ends)
    with pytest.raises(KafkaError):
        producer.send("secret", b"x").get(timeout=20)
    producer.close()
