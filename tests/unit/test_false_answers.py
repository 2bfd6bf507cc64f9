"""A broker that is false, or broken, answers with parts that no broker leaves out: that part of the view is unknown, and no pass ends."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaProtocolError
from kafka.protocol.admin import (
    DescribeClientQuotasResponse,
    DescribeClusterResponse,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse

from spindle.model.view import KafkaView
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.raw_answers import RawAnswer

_QUORUM = DescribeQuorumResponse.TopicData
_REPLICA = _QUORUM.PartitionData.ReplicaState
_PAGE = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_CONFIG = DescribeConfigsResponse.DescribeConfigsResult
_BROKER = DescribeClusterResponse.DescribeClusterBroker


def _replica(node: int) -> Any:
    return _REPLICA(
        replica_id=node,
        replica_directory_id=uuid.UUID(int=1),
        log_end_offset=1,
        last_fetch_timestamp=1,
        last_caught_up_timestamp=1,
    )


def _quorum(**changed: Any) -> Any:
    state = {
        "error_code": 0,
        "leader_id": 9000,
        "current_voters": [_replica(9000)],
        "observers": [_replica(0)],
    }
    partition = _QUORUM.PartitionData(**{**state, **changed})
    return DescribeQuorumResponse(error_code=0, topics=[_QUORUM(partitions=[partition])])


def _cluster(**changed: Any) -> Any:
    broker = _BROKER(broker_id=0, host="h", port=1, rack=None, is_fenced=False)
    told = {"error_code": 0, "cluster_id": "id", "brokers": [broker]}
    return DescribeClusterResponse(**{**told, **changed}, version=2)


def _raw(answer: Any, kind: Any, version: int) -> RawAnswer:
    return RawAnswer(kind[version], bytes(answer.encode(version=version)))


def _page(topics: Any) -> RawAnswer:
    answer = DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics, next_cursor=None)
    return _raw(answer, DescribeTopicPartitionsResponse, 0)


def _topic(**changed: Any) -> Any:
    one = _PAGE.DescribeTopicPartitionsResponsePartition(replica_nodes=[0], isr_nodes=[0])
    return _PAGE(**{"name": "t", "topic_id": uuid.UUID(int=2), "partitions": [one], **changed})


def _part(**changed: Any) -> RawAnswer:
    one = _PAGE.DescribeTopicPartitionsResponsePartition(
        **{"replica_nodes": [0], "isr_nodes": [0], **changed}
    )
    return _page([_topic(partitions=[one])])


def _configs(results: Any) -> RawAnswer:
    return _raw(DescribeConfigsResponse(results=results), DescribeConfigsResponse, 4)


def _dirs(results: Any) -> RawAnswer:
    return _raw(DescribeLogDirsResponse(error_code=0, results=results), DescribeLogDirsResponse, 5)


NOTHING: Any = None  # in place of a list: no broker says so, and the library's stubs do not know it

GOOD: dict[str, Any] = {
    "DescribeQuorumRequest": _quorum(),
    "DescribeClusterRequest": _cluster(),
    "ListPartitionReassignmentsRequest": ListPartitionReassignmentsResponse(error_code=0, topics=[]),
    "DescribeTopicPartitionsRequest": _page([_topic()]),
    "DescribeLogDirsRequest": _dirs([]),
    "DescribeConfigsRequest": _configs([_CONFIG(error_code=0, resource_name="t", configs=[])]),
    "DescribeClientQuotasRequest": DescribeClientQuotasResponse(error_code=0, entries=[]),
    "ApiVersionsRequest": ApiVersionsResponse(error_code=0, finalized_features=[], version=3),
}


def client(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> KafkaClient:
    link = KafkaClient.__new__(KafkaClient)
    link._cluster, link._failed, link._unsaid = "ns/demo", False, []
    link.timeout_ms, link.hosts, link.silent = 5000, {0: "host"}, set()
    given = {**GOOD, **answers}
    monkeypatch.setattr(link, "send", lambda request, _: given[type(request).__name__], raising=False)
    monkeypatch.setattr("spindle_operator.kafka_client.look_at_agents", lambda _: {})
    return link


def looked(link: KafkaClient) -> tuple[KafkaView, bool]:
    view, _, clean = link.look(ask_rights=False)
    return view, clean


def test_brokers_that_answer_as_they_should_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    view, clean = looked(client(monkeypatch))
    assert clean
    assert [p.name for p in view.partitions or ()] == ["t-0"]
    assert view.topics == {"t": {}}
    assert (view.brokers or {})[0].log_dirs == ()


def _no_partitions(view: KafkaView) -> bool:
    return view.partitions is None and view.topic_ids is None


FALSE: dict[str, tuple[str, Any, Callable[[KafkaView], bool]]] = {
    "no topics": ("DescribeTopicPartitionsRequest", _page(None), _no_partitions),
    "no partitions": ("DescribeTopicPartitionsRequest", _page([_topic(partitions=None)]), _no_partitions),
    "no replicas": ("DescribeTopicPartitionsRequest", _part(replica_nodes=None), _no_partitions),
    "no ISR": ("DescribeTopicPartitionsRequest", _part(isr_nodes=None), _no_partitions),
    "topic without name": ("DescribeTopicPartitionsRequest", _page([_topic(name=None)]), _no_partitions),
    "no reassignments": (
        "ListPartitionReassignmentsRequest",
        ListPartitionReassignmentsResponse(error_code=0, topics=NOTHING),
        _no_partitions,
    ),
    "no voters": ("DescribeQuorumRequest", _quorum(current_voters=None), lambda view: view.quorum is None),
    "no observers": ("DescribeQuorumRequest", _quorum(observers=None), lambda view: view.quorum is None),
    "no state": (
        "DescribeQuorumRequest",
        DescribeQuorumResponse(error_code=0, topics=[_QUORUM(partitions=[])]),
        lambda view: view.quorum is None,
    ),
    "no brokers": ("DescribeClusterRequest", _cluster(brokers=None), lambda view: view.brokers is None),
    "no dirs": (
        "DescribeLogDirsRequest",
        _dirs(None),
        lambda view: view.brokers is not None and view.brokers[0].log_dirs is None,
    ),
    "no settings": ("DescribeConfigsRequest", _configs([]), lambda view: view.topics == {}),
    "no list of settings": ("DescribeConfigsRequest", _configs(None), lambda view: view.topics is None),
    "a number that is none": (
        "DescribeConfigsRequest",
        _configs(
            [
                _CONFIG(
                    error_code=0,
                    resource_name="t",
                    configs=[
                        _CONFIG.DescribeConfigsResourceResult(
                            name="min.insync.replicas", value="many", config_source=1, synonyms=[]
                        )
                    ],
                )
            ]
        ),
        lambda view: view.min_isr is None,
    ),
    "no quota": (
        "DescribeClientQuotasRequest",
        DescribeClientQuotasResponse(
            error_code=0, entries=[DescribeClientQuotasResponse.EntryData(entity=[], values=NOTHING)]
        ),
        lambda view: view.partitions is not None,
    ),
}


@pytest.mark.parametrize("case", FALSE)
def test_what_a_false_broker_leaves_out_is_unknown(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request, answer, unknown = FALSE[case]
    view, clean = looked(client(monkeypatch, **{request: answer}))
    assert unknown(view)
    assert not clean


def test_a_topic_that_is_deleted_during_a_look_hides_the_settings_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = _CONFIG.DescribeConfigsResourceResult(
        name="min.insync.replicas", value="2", config_source=5, synonyms=[]
    )
    results = [
        _CONFIG(error_code=3, error_message="", resource_name="gone", configs=[]),
        _CONFIG(error_code=0, resource_name="t", configs=[held]),
    ]
    view, _ = looked(client(monkeypatch, DescribeConfigsRequest=_configs(results)))
    assert view.min_isr == {"t": 2}


async def test_an_answer_to_a_change_that_cannot_be_read_is_a_kafka_error() -> None:
    gate = KafkaExecutor("ns/demo", 1.0)

    def read() -> None:
        raise TypeError("'NoneType' object is not iterable")

    with pytest.raises(KafkaProtocolError, match="not iterable"):
        await gate._threaded(read)
    await gate.shutdown()
