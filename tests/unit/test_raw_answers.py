"""Responses that are decoded only where their bytes changed, and log dirs of which only sizes changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import ClusterAuthorizationFailedError, KafkaError, KafkaProtocolError
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from spindle.model.replica_sizes import ReplicaSizes
from spindle.model.view import KafkaView, Partition
from spindle_operator.answers import read_log_dirs
from spindle_operator.log_dir_layout import find_layout, read_with_layout
from spindle_operator.raw_answers import AnswerMemo, RawAnswer, undecoded

_DIR = DescribeLogDirsResponse.DescribeLogDirsResult
_TOPIC = _DIR.DescribeLogDirsTopic
_PARTITION = _TOPIC.DescribeLogDirsPartition

LONG = st.integers(-(2**63), 2**63 - 1)
PARTITIONS = st.builds(
    _PARTITION,
    partition_index=st.integers(-1, 2**31 - 1),
    partition_size=LONG,
    offset_lag=LONG,
    is_future_key=st.booleans(),
)
TOPICS = st.builds(_TOPIC, name=st.text(max_size=249), partitions=st.lists(PARTITIONS, max_size=4))
DIRS = st.lists(
    st.builds(
        _DIR,
        error_code=st.sampled_from([0, 56]),
        log_dir=st.text(max_size=300),
        topics=st.lists(TOPICS, max_size=4),
        total_bytes=LONG,
        usable_bytes=LONG,
        is_cordoned=st.booleans(),
    ),
    max_size=4,
)


def raw(dirs: list[Any], version: int = 5, error: int = 0, throttle: int = 0) -> RawAnswer:
    answer = DescribeLogDirsResponse(
        throttle_time_ms=throttle, error_code=error, results=dirs, version=version
    )
    return RawAnswer(DescribeLogDirsResponse[version], bytes(answer.encode()))


def resized(answer: RawAnswer, draw: Any) -> RawAnswer:
    """The same dirs with other sizes."""
    changed = answer.decode()
    for each in changed.results:
        each.total_bytes, each.usable_bytes = draw(LONG), draw(LONG)
        for topic in each.topics:
            for partition in topic.partitions:
                partition.partition_size, partition.offset_lag = draw(LONG), draw(LONG)
    return RawAnswer(answer.kind, bytes(changed.encode()))


@given(DIRS, st.sampled_from([1, 3, 4, 5]), st.data())
def test_other_sizes_are_read_as_the_library_reads_them(dirs: list[Any], version: int, data: Any) -> None:
    first = raw(dirs, version)
    value, layout = read_with_layout(first, None)
    assert value == read_log_dirs(first.decode())
    assert (layout is None) == (version < 4)
    second = resized(first, data.draw)
    assert read_with_layout(second, layout) == (read_log_dirs(second.decode()), layout)


@given(DIRS, DIRS)
def test_other_dirs_are_not_read_with_the_layout_of_the_former(before: list[Any], after: list[Any]) -> None:
    _, layout = read_with_layout(raw(before), None)
    value, _ = read_with_layout(raw(after), layout)
    assert value == read_log_dirs(raw(after).decode())


@given(DIRS.filter(bool), st.data())
def test_any_other_byte_ends_a_layout(dirs: list[Any], data: Any) -> None:
    answer = raw(dirs)
    layout = find_layout(answer, read_log_dirs(answer.decode()))
    assert layout is not None
    changing = {start + byte for start in layout.pairs for byte in range(16)}
    at = data.draw(st.integers(0, len(answer.body) - 1).filter(lambda i: i not in changing))
    body = bytearray(answer.body)
    body[at] ^= data.draw(st.integers(1, 255))
    assert layout.read(RawAnswer(answer.kind, bytes(body))) is None


@given(DIRS)
def test_a_layout_holds_no_second_copy_of_the_keys(dirs: list[Any]) -> None:
    answer = raw(dirs)
    read, layout = read_with_layout(answer, None)
    assert layout is not None
    for known, each in zip(layout.dirs, read, strict=True):
        assert isinstance(each.replicas, ReplicaSizes)
        assert isinstance(each.futures, ReplicaSizes)
        assert (known.keys, known.future_keys) == (each.replicas.columns, each.futures.columns)
        assert known.keys is each.replicas.columns
        assert known.future_keys is each.futures.columns
        assert not known.like.replicas
        assert not known.like.futures


def test_a_layout_that_reads_something_else_than_the_library_is_not_used() -> None:
    answer = raw([_DIR(error_code=0, log_dir="/d", topics=[], total_bytes=9, usable_bytes=3)])
    assert find_layout(answer, read_log_dirs(answer.decode())) is not None
    other = raw([_DIR(error_code=0, log_dir="/e", topics=[], total_bytes=9, usable_bytes=4)])
    assert find_layout(answer, read_log_dirs(other.decode())) is None
    assert find_layout(RawAnswer(answer.kind, answer.body[:9]), read_log_dirs(answer.decode())) is None


def test_an_error_is_raised_each_time() -> None:
    memo = AnswerMemo()
    for _ in range(2):
        memo.turn()
        with pytest.raises(ClusterAuthorizationFailedError):
            memo.read("q", raw([], error=31), read_with_layout)


def test_bytes_that_are_no_response_are_a_kafka_error() -> None:
    for body in (
        b"",
        b"\x00" * 5,
        b"\x00" * 6 + b"\xff" * 40,
        b"\x00" * 6 + b"\x02\x00\x00\x03\xff\xff" + b"\x00" * 30,
    ):
        with pytest.raises(KafkaError):
            RawAnswer(DescribeLogDirsResponse[5], body).decode()
    assert issubclass(KafkaProtocolError, KafkaError)


def test_the_same_bytes_are_the_same_object_for_as_long_as_they_are_asked_for() -> None:
    memo, answer = AnswerMemo(), raw([_DIR(error_code=0, log_dir="/d", topics=[])])
    memo.turn()
    first = memo.read("q", answer, read_with_layout)
    assert memo.read("r", answer, read_with_layout) is not first
    memo.turn()
    assert memo.read("q", answer, read_with_layout) is first
    memo.turn()
    memo.turn()
    assert memo.read("q", answer, read_with_layout) is not first


def test_joined_values_are_the_same_object_while_all_their_parts_are() -> None:
    memo, first, second = AnswerMemo(), (1, 2), (3,)
    memo.turn()
    whole = memo.join("q", [first, second])
    assert whole == (1, 2, 3)
    memo.turn()
    assert memo.join("q", [first, second]) is whole
    memo.turn()
    other = memo.join("q", [first, tuple(range(3, 4))])
    assert other == whole
    assert other is not whole
    memo.turn()
    assert memo.join("q", [first]) == first


def test_a_view_of_the_very_same_partitions_has_the_index_of_the_former() -> None:
    partitions = (Partition("t", 0, 1, (1,), (1,)),)
    before, after, other = (
        KafkaView(partitions=partitions),
        KafkaView(partitions=partitions),
        KafkaView(partitions=()),
    )
    index = before.partition_index
    after.share_index(before)
    other.share_index(before)
    assert after.partition_index is index
    assert other.partition_index is not index
    assert other.partition_index.assigned == {}


def test_the_same_bytes_in_another_version_are_read_again() -> None:
    memo, answer = AnswerMemo(), raw([_DIR(error_code=0, log_dir="/d", topics=[])], version=4)
    memo.turn()
    first = memo.read("q", answer, read_with_layout)
    memo.turn()
    with pytest.raises(KafkaProtocolError):  # version 5 has a byte more
        memo.read("q", RawAnswer(DescribeLogDirsResponse[5], answer.body), read_with_layout)
    assert first


def test_a_request_is_encoded_as_ever() -> None:
    requests = [kind(topics=None) for kind in (DescribeLogDirsRequest, undecoded(DescribeLogDirsRequest))]
    for request in requests:
        request.API_VERSION = 5
        request.with_header(7, "c")
    assert requests[0].encode(framed=True, header=True) == requests[1].encode(framed=True, header=True)
    answer = raw([], throttle=300)
    assert answer.throttle_time_ms == 300
