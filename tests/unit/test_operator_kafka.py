"""Kafka's answers as the core's view. The answers are kafka-python's own message classes, filled by hand."""

import asyncio
import ssl
import threading
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kafka.errors import ClusterAuthorizationFailedError, UnknownBrokerIdError
from kafka.protocol.admin import (
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
)

from spindle.model.answers import read_partition
from spindle.model.view import KafkaView, Voter
from spindle_operator import kafka_executor as gate_module
from spindle_operator.answers import directory_text, freshest, read_log_dirs, read_quorum
from spindle_operator.connection import Access
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.kafka_executor import KafkaExecutor

State = DescribeQuorumResponse.TopicData.PartitionData
Replica = DescribeQuorumResponse.TopicData.PartitionData.ReplicaState
DIRECTORY = uuid.UUID("a0b1c2d3-0405-0607-0809-0a0b0c0d0e0f")
NOW = 1_000_000


def replica(node: int, behind_ms: int | None = 0, end: int = 100) -> Replica:
    return Replica(
        replica_id=node,
        replica_directory_id=DIRECTORY,
        log_end_offset=end,
        last_fetch_timestamp=NOW,
        last_caught_up_timestamp=-1 if behind_ms is None else NOW - behind_ms,
    )


def state(voters: list[Any], observers: Sequence[Any] = ()) -> State:
    return State(leader_id=9000, error_code=0, current_voters=voters, observers=list(observers))


def test_voters_are_caught_up_by_the_leaders_clock() -> None:
    quorum = read_quorum(
        state([replica(9000), replica(9001, 500), replica(9002, 60_000), replica(9003, None)])
    )
    assert [(voter.id, voter.caught_up) for voter in quorum.voters] == [
        (9000, True),
        (9001, True),
        (9002, False),
        (9003, False),
    ]
    assert quorum.voters[0] == Voter(9000, directory_text(DIRECTORY), caught_up=True, lag=0)


def test_what_a_replica_of_the_metadata_log_lacks_is_told_as_far_as_it_is_known() -> None:
    observers = [replica(0, 0, 60), replica(1, None, -1)]
    quorum = read_quorum(state([replica(9000, end=100), replica(9001, end=101)], observers))
    assert [(each.id, each.lag) for each in (*quorum.voters, *quorum.observers)] == [
        (9000, 0),
        (9001, 0),
        (0, 40),
        (1, None),
    ]


def test_voters_of_a_static_quorum_have_no_directory_id() -> None:
    voter = replica(9000)
    voter.replica_directory_id = None  # type: ignore[assignment]  # which the library's stubs do not know
    quorum = read_quorum(state([voter]))
    assert quorum.voters[0].directory_id == "A" * 22


def test_without_the_leaders_clock_nothing_is_known_of_followers() -> None:
    quorum = read_quorum(state([replica(9000, None), replica(9001)]))
    assert [voter.caught_up for voter in quorum.voters] == [True, None]


@pytest.mark.parametrize(
    ("observers", "reachable", "chosen"),
    [
        pytest.param([replica(0, 0, 90), replica(1, 0, 95)], {0, 1}, 1, id="the one that is furthest"),
        pytest.param([replica(0, 0, 90), replica(1, 0, 95)], {0}, 0, id="of those that answer"),
        pytest.param([replica(0, 60_000, 10)], {0}, None, id="none if it was cut off"),
        pytest.param([], {0}, None, id="none if no broker follows"),
    ],
)
def test_whose_metadata_is_asked_for(observers: Any, reachable: Any, chosen: Any) -> None:
    assert freshest(state([replica(9000)], observers), reachable) == chosen


def partition(elr: list[int] | None) -> Any:
    return DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic.DescribeTopicPartitionsResponsePartition(
        error_code=0,
        partition_index=3,
        leader_id=-1,
        replica_nodes=[1, 2, 4],
        isr_nodes=[1],
        eligible_leader_replicas=elr,
        last_known_elr=None,
        offline_replicas=[],
    )


def test_an_elr_of_null_is_unknown_and_an_empty_one_is_empty() -> None:
    assert read_partition("t", partition(None), {}).elr is None
    assert read_partition("t", partition([]), {}).elr == ()


def test_a_partition_under_reassignment() -> None:
    found = read_partition("t", partition([2]), {("t", 3): ((4,), (2,))})
    assert (found.name, found.leader, found.adding, found.removing) == ("t-3", None, (4,), (2,))
    assert found.recorded_rf == 2


def log_dirs(error: int = 0, dir_error: int = 0) -> DescribeLogDirsResponse:
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = result.DescribeLogDirsTopic
    part = topic.DescribeLogDirsPartition
    return DescribeLogDirsResponse(
        error_code=error,
        results=[
            result(
                error_code=dir_error,
                log_dir="/d/log",
                total_bytes=-1,
                usable_bytes=50,
                is_cordoned=True,
                topics=[
                    topic(
                        name="t",
                        partitions=[
                            part(partition_index=0, partition_size=7, offset_lag=0, is_future_key=False),
                            part(partition_index=0, partition_size=3, offset_lag=4, is_future_key=True),
                        ],
                    )
                ],
            )
        ],
    )


def test_a_log_dir_with_a_move_under_way() -> None:
    (found,) = read_log_dirs(log_dirs(dir_error=56))
    assert (found.path, found.error, found.cordoned) == ("/d/log", 56, True)
    assert (found.total_bytes, found.usable_bytes) == (None, 50)
    assert (found.replicas, found.futures) == ({("t", 0): 7}, {("t", 0): 3})


def test_false_sizes_of_a_broker_are_no_negative_numbers() -> None:
    """The definition of a KafkaBroker takes no negative number of bytes: with one, the status of the broker could not be written."""
    answer = log_dirs()
    (result,) = answer.results
    result.total_bytes, result.usable_bytes = 10, 2**63 - 1
    result.topics[0].partitions[0].partition_size = -5
    (found,) = read_log_dirs(answer)
    assert (found.total_bytes, found.usable_bytes, found.replicas) == (10, 10, {("t", 0): 0})


def test_no_rights_are_not_no_log_dirs() -> None:
    with pytest.raises(ClusterAuthorizationFailedError):
        read_log_dirs(log_dirs(error=31))


def pem() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


@pytest.fixture(scope="module")
def reach() -> Access:
    certificate, key = pem()
    return Access(hosts={0: "localhost"}, authority=certificate, certificate=certificate, key=key)


def test_the_key_is_loaded_without_a_file(
    reach: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    context = reach.context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


async def test_without_access_the_view_says_why() -> None:
    gate = KafkaExecutor("ns/demo", 0.2)
    view, _ = await gate.look("no broker runs yet")
    assert view.error == "no broker runs yet"
    await gate.shutdown()


async def test_brokers_that_answer_nothing_are_asked_all_at_once(reach: Access) -> None:
    """One time-out for all of them together: nobody is asked only after another one's time was over."""
    open_now, together = 0, 0

    async def silent(reader: Any, writer: Any) -> None:
        nonlocal open_now, together
        open_now += 1
        together = max(together, open_now)
        await reader.read()
        open_now -= 1
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    hosts = Access(dict.fromkeys(range(5), "127.0.0.1"), reach.authority, reach.certificate, reach.key)
    gate = KafkaExecutor("ns/demo", 0.3, port)
    view, _ = await gate.look(hosts)
    assert "none of the 5 running brokers" in (view.error or "")
    assert view.partitions is None
    assert together == 5
    await gate.shutdown()
    server.close()


class FakeLink:
    made = 0
    asked: ClassVar[list[bool]] = []  # of each look, whether it asked what agents have
    agents: ClassVar[dict[str, Any] | None] = {}

    def __init__(self, *_: Any) -> None:
        FakeLink.made += 1
        self.clean = True

    def look(self, *, ask_rights: bool, agents: bool, memo: Any, **_: Any) -> Any:
        FakeLink.asked.append(agents)
        return KafkaView(cluster_id="c", agents=FakeLink.agents if agents else None), ask_rights, self.clean

    def close(self) -> None:
        pass


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Any:
    gate = KafkaExecutor("ns/demo", 0.5)

    async def answering(hosts: Any, context: Any) -> Any:
        return dict(hosts)

    monkeypatch.setattr(gate, "_answering", answering)
    monkeypatch.setattr(gate_module, "KafkaClient", FakeLink)
    FakeLink.made = 0
    FakeLink.asked.clear()
    return gate


async def test_the_client_is_kept_while_nothing_changes_and_renewed_when_brokers_came(
    gate: Any, reach: Access
) -> None:
    await gate.look(reach)
    await gate.look(reach)
    assert FakeLink.made == 1
    await gate.look(Access({**reach.hosts, 1: "other"}, reach.authority, reach.certificate, reach.key))
    assert FakeLink.made == 2
    await gate.shutdown()


async def test_the_client_is_renewed_after_an_unanswered_question_but_serves_its_pass_to_the_end(
    gate: Any, reach: Access
) -> None:
    await gate.look(reach)
    gate._link.clean = False
    view, granted = await gate.look(reach, ask_rights=True)
    assert (view.cluster_id, granted) == ("c", True)
    assert gate._link is not None
    await gate.look(reach)
    assert FakeLink.made == 2
    await gate.shutdown()


async def test_without_agents_their_rights_are_asked_for_until_there_are_none(
    gate: Any, reach: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, Any] | None] = [None, {"spindle-agent.node": frozenset()}, {}, {}]
    for told in answers:
        monkeypatch.setattr(FakeLink, "agents", told)
        await gate.look(reach, agents=False)
    assert FakeLink.asked == [True, True, True, False]
    await gate.look(reach, agents=True)
    assert FakeLink.asked[-1]
    await gate.shutdown()


def test_what_kafka_did_not_say_is_one_line_a_look(caplog: pytest.LogCaptureFixture) -> None:
    link = KafkaClient.__new__(KafkaClient)
    link._cluster, link._failed, link._unsaid = "ns/demo", False, []

    def fails(error: Exception) -> Any:
        def call() -> None:
            raise error

        return call

    for node in (0, 1):
        for _ in range(2):
            assert link.attempt(fails(UnknownBrokerIdError(str(node))), f"broker {node}") is None
    link.attempt(fails(OSError("no route")))
    with caplog.at_level("INFO"):
        link.tell_unsaid()
        link.tell_unsaid()
    (record,) = caplog.records
    assert record.getMessage() == (
        "ns/demo: requests to Kafka failed: broker 0: UnknownBrokerIdError: UnknownBrokerIdError: 0; "
        "broker 1: UnknownBrokerIdError: UnknownBrokerIdError: 1; no route"
    )
    assert link._failed


async def test_connections_whose_end_hangs_take_nothing_from_the_loops_own_threads(
    gate: Any, reach: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(FakeLink, "close", lambda _: never.wait())
    gate._timeout = 0.01
    for _ in range(40):  # more than the loop has threads, on any machine
        await gate.look(reach)
        await gate.close()
    try:
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "ran"), 5) == "ran"
        # The end of a loop waits for its threads.
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_default_executor(), 5)
    finally:
        never.set()


def test_users_without_end_keep_nobody_from_looking_after_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    link = KafkaClient.__new__(KafkaClient)
    link._cluster, link._failed, link._unsaid = "ns/demo", False, []
    link.timeout_ms, link.hosts, link.silent = 50, {0: "host"}, set()

    def asked(link: Any, users: Any) -> Any:
        for user in users:
            link.budget.spend()
            threading.Event().wait(0.001 if user == "many" else 0)
        return {}

    answers: dict[str, Any] = {
        "_quorum": (None, 0),
        "_describe_cluster": ("id", {}),
        "_partitions": ((), {}),
        "_features": {},
    }
    for question, answer in answers.items():
        monkeypatch.setattr(KafkaClient, question, lambda *_, answer=answer: answer)
    monkeypatch.setattr("spindle_operator.kafka_client.look_at_users", asked)
    monkeypatch.setattr("spindle_operator.kafka_client.look_at_agents", lambda _: {})
    few, *_ = link.look(ask_rights=False, users=["few"])
    assert few.users == {}
    many, *_ = link.look(ask_rights=False, users=["many"] * 10_000)
    assert many.users is None
    assert (many.cluster_id, many.partitions, many.agents) == ("id", (), {}), (
        "the rest of the look has its own time"
    )
