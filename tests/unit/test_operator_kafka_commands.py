"""What Kafka is told, and how it says no. The answers are kafka-python's own message classes, filled by hand."""

from collections.abc import Mapping
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterClientQuotasResponse,
    AlterPartitionReassignmentsResponse,
    AlterReplicaLogDirsResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DescribeClientQuotasResponse,
    DescribeConfigsResponse,
    ElectLeadersResponse,
    IncrementalAlterConfigsResponse,
)
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from spindle.model.config_values import ConfigValues
from spindle.model.view import BROKER_SETTINGS, CORDONED, LEADER_RATE, PRODUCER_RATE
from spindle_operator import kafka_commands
from spindle_operator.answers import read_quota, read_settings, read_standing
from spindle_operator.connection import Connection
from spindle_operator.kafka_commands import RejectedError


class Link(Connection):
    """Answers with what it was given, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.sent: list[tuple[Any, int]] = []
        self.hosts = {0: "a", 3: "b"}
        self.silent = {0}
        self.timeout_ms = 1000

    def send(self, request: Any, node: int) -> Any:
        self.sent.append((request, node))
        return self.answer


def placed(**codes: int) -> Link:
    topic = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
    part = topic.AlterReplicaLogDirPartitionResult
    results = [
        topic(topic_name=name, partitions=[part(partition_index=0, error_code=code)])
        for name, code in codes.items()
    ]
    return Link(AlterReplicaLogDirsResponse(throttle_time_ms=0, results=results))


def test_a_replica_that_is_not_there_yet_is_placed_all_the_same() -> None:
    link = placed(moved=0, unheard=3, absent=9)
    kafka_commands.place(link, 2, [("t", 0, "/a"), ("t", 1, "/a"), ("u", 0, "/b")])
    ((request, node),) = link.sent
    assert node == 2
    dirs = {d.path: {t.name: list(t.partitions) for t in d.topics} for d in request.dirs}
    assert dirs == {"/a": {"t": [0, 1]}, "/b": {"u": [0]}}


def test_a_dir_that_does_not_take_it_is_named() -> None:
    with pytest.raises(RejectedError, match=r"broker 2 rejects the log dir of wrong-0: LogDirNotFoundError$"):
        kafka_commands.place(placed(fine=9, wrong=57), 2, [("wrong", 0, "/a")])


def reassigned(*codes: int) -> Link:
    topic = AlterPartitionReassignmentsResponse.ReassignableTopicResponse
    part = topic.ReassignablePartitionResponse
    parts = [part(partition_index=i, error_code=code, error_message="no") for i, code in enumerate(codes)]
    return Link(
        AlterPartitionReassignmentsResponse(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            responses=[topic(name="t", partitions=parts)],
        )
    )


def test_reassigning_and_cancelling_in_one_go_at_a_broker_that_answers() -> None:
    link = reassigned(0, 85)
    kafka_commands.reassign(link, [("t", 0, (1, 2)), ("t", 1, None)])
    ((request, node),) = link.sent
    assert node == 3
    (topic,) = request.topics
    assert [(p.partition_index, p.replicas) for p in topic.partitions] == [(0, [1, 2]), (1, None)]


def test_partitions_that_are_not_reassigned_are_named_with_the_reason() -> None:
    with pytest.raises(
        RejectedError, match=r"rejects the reassignment of t-1: InvalidReplicationAssignmentError \(no\)$"
    ):
        kafka_commands.reassign(reassigned(0, 39), [("t", 0, (1, 2)), ("t", 1, (9,))])


@pytest.mark.parametrize(("kind", "name", "node"), [("topic", "t", 3), ("broker", "7", 7)])
def test_settings_are_set_and_deleted_and_a_broker_is_asked_itself(kind: Any, name: str, node: int) -> None:
    link = Link(IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=[]))
    kafka_commands.set_configs(link, kind, name, {"a": "1", "b": None})
    ((request, asked),) = link.sent
    assert asked == node
    (resource,) = request.resources
    assert [(c.name, c.config_operation, c.value) for c in resource.configs] == [
        ("a", 0, "1"),
        ("b", 1, None),
    ]


@pytest.mark.parametrize(
    ("value", "sent"),
    [pytest.param("1000", (1000.0, False), id="set"), pytest.param(None, (0.0, True), id="taken")],
)
def test_the_quota_of_users_without_one_is_set_and_taken_away(
    value: str | None, sent: tuple[float, bool]
) -> None:
    link = Link(AlterClientQuotasResponse(throttle_time_ms=0, entries=[]))
    kafka_commands.set_quota(link, {PRODUCER_RATE: value})
    (entry,) = link.sent[0][0].entries
    assert [(e.entity_type, e.entity_name) for e in entry.entity] == [("user", None)]
    assert [(op.key, op.value, op.remove) for op in entry.ops] == [(PRODUCER_RATE, *sent)]


def test_the_quota_of_users_without_one_is_read() -> None:
    entry = DescribeClientQuotasResponse.EntryData
    values = [
        entry.ValueData(key=PRODUCER_RATE, value=1e6),
        entry.ValueData(key="request_percentage", value=5.0),
    ]
    answer = DescribeClientQuotasResponse(
        throttle_time_ms=0, error_code=0, error_message=None, entries=[entry(entity=[], values=values)]
    )
    assert read_quota(answer) == {PRODUCER_RATE: "1000000"}


class Trimming(Link):
    """A leader with offsets 100 to 300."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(None)
        self.code = code

    def send(self, request: Any, node: int) -> Any:
        super().send(request, node)
        if isinstance(request, ListOffsetsRequest):
            topic = ListOffsetsResponse.ListOffsetsTopicResponse
            part = topic.ListOffsetsPartitionResponse
            offset = 100 if request.topics[0].partitions[0].timestamp == -2 else 300
            parts = [
                part(partition_index=p.partition_index, error_code=0, offset=offset)
                for p in request.topics[0].partitions
            ]
            return ListOffsetsResponse(throttle_time_ms=0, topics=[topic(name="t", partitions=parts)])
        result = DeleteRecordsResponse.DeleteRecordsTopicResult
        done = result.DeleteRecordsPartitionResult(partition_index=0, low_watermark=0, error_code=self.code)
        return DeleteRecordsResponse(throttle_time_ms=0, topics=[result(name="t", partitions=[done])])


def test_the_oldest_share_of_the_records_is_deleted_by_their_leader() -> None:
    link = Trimming()
    kafka_commands.trim(link, [("t", 0, 3, 0.25), ("t", 1, 3, 0.5)])
    request, node = link.sent[-1]
    assert node == 3
    assert {p.partition_index: p.offset for p in request.topics[0].partitions} == {0: 150, 1: 200}


def test_partitions_whose_records_stay_are_named() -> None:
    with pytest.raises(RejectedError, match=r"does not delete records of t-0: PolicyViolationError$"):
        kafka_commands.trim(Trimming(44), [("t", 0, 3, 0.25)])


def elected(code: int) -> Link:
    topic = ElectLeadersResponse.ReplicaElectionResult
    result = topic.PartitionResult(partition_id=0, error_code=code, error_message=None)
    return Link(
        ElectLeadersResponse(
            throttle_time_ms=0,
            error_code=0,
            replica_election_results=[topic(topic="t", partition_result=[result])],
        )
    )


@pytest.mark.parametrize(("unclean", "kind"), [(False, 0), (True, 1)])
def test_elections(unclean: bool, kind: int) -> None:
    link = elected(84)
    kafka_commands.elect(link, [("t", 0)], unclean=unclean)
    assert int(link.sent[0][0].election_type) == kind
    with pytest.raises(RejectedError, match="no leader is elected for t-0: EligibleLeadersNotAvailableError"):
        kafka_commands.elect(elected(83), [("t", 0)], unclean=unclean)


def test_only_what_is_set_on_the_broker_itself_counts_as_its_setting() -> None:
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult

    def entry(name: str, value: str | None, source: int) -> Any:
        return config(name=name, value=value, config_source=source, synonyms=[])

    answer = result(
        error_code=0,
        resource_type=4,
        resource_name="1",
        configs=[
            entry(LEADER_RATE, "5", 2),
            entry("follower.replication.throttled.rate", "6", 3),
            entry("cordoned.log.dirs", "", 2),
            entry("replica.alter.log.dirs.io.max.bytes.per.second", "9", 5),
            entry("log.retention.ms", "7", 2),
        ],
    )
    assert read_settings(answer, BROKER_SETTINGS) == {LEADER_RATE: "5"}


def test_what_is_set_counts_where_it_does_not_hold() -> None:
    """A broker that was started with a cordon of a dir that it does not have tells what is set among the synonyms (tests/kafka/test_cordons.py)."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    synonym = result.DescribeConfigsResourceResult.DescribeConfigsSynonym
    cordon = result.DescribeConfigsResourceResult(
        name=CORDONED,
        value="",
        config_source=2,
        synonyms=[
            synonym(name=CORDONED, value="/gone", source=2),
            synonym(name=CORDONED, value="", source=5),
        ],
    )
    answer = result(error_code=0, resource_type=4, resource_name="1", configs=[cordon])

    assert read_settings(answer, BROKER_SETTINGS) == {CORDONED: "/gone"}


def standing(value: str) -> Mapping[str, ConfigValues]:
    """Of a broker that has this value in its file, newly decoded."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    config = result.DescribeConfigsResourceResult
    synonyms = [
        config.DescribeConfigsSynonym(name=name, value=value + str(source), source=source)
        for name, source in (("log.retention.ms", 4), ("log.retention.ms", 5), ("log.retention.hours", 4))
    ]
    known, other = (
        config(name=name, value=value, config_source=4, synonyms=synonyms)
        for name in ("log.retention.ms", "log.retention.hours")
    )
    answer = result(error_code=0, resource_type=4, resource_name="1", configs=[known, other])
    return read_standing(answer, ["log.retention.ms"])


def test_where_settings_are_set_is_held_once_for_brokers_that_have_the_same() -> None:
    assert standing("7") == {"log.retention.ms": ConfigValues(static="74", default="75")}
    assert standing("7") is standing("7")
    assert standing("7") != standing("8")
    # What a false broker sends is not kept for others.
    long = "7" * 10_000
    assert standing(long) == {"log.retention.ms": ConfigValues(static=long + "4", default=long + "5")}
    assert standing(long) is not standing(long)


def made(code: int) -> Link:
    topic = CreateTopicsResponse.CreatableTopicResult
    return Link(
        CreateTopicsResponse(
            throttle_time_ms=0, topics=[topic(name="t", error_code=code, error_message="it is there")]
        )
    )


def test_a_topic_is_made_on_the_brokers_that_were_chosen() -> None:
    link = made(0)
    kafka_commands.create_topic(link, "t", [(2, 0), (1, 2)], {"retention.ms": "5"})
    ((request, _),) = link.sent
    (topic,) = request.topics
    assert [(row.partition_index, list(row.broker_ids)) for row in topic.assignments] == [
        (0, [2, 0]),
        (1, [1, 2]),
    ]
    assert [(config.name, config.value) for config in topic.configs] == [("retention.ms", "5")]


def test_a_topic_that_is_there_already_is_told() -> None:
    with pytest.raises(RejectedError, match=r"Kafka does not create topic t: .*it is there"):
        kafka_commands.create_topic(made(36), "t", [(0,)], {})
