"""Pages of partitions of which only the topics that changed are decoded."""

import copy
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import KafkaError, KafkaProtocolError
from kafka.protocol.admin import DescribeTopicPartitionsResponse

from spindle_operator.partition_pages import read_page
from spindle_operator.raw_answers import RawAnswer

_TOPIC = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_PARTITION = _TOPIC.DescribeTopicPartitionsResponsePartition
_CURSOR = DescribeTopicPartitionsResponse.Cursor

NODES = st.lists(st.integers(0, 2**31 - 1), max_size=4)
PARTITIONS = st.builds(
    _PARTITION,
    error_code=st.sampled_from([0, 5]),
    partition_index=st.integers(0, 2**31 - 1),
    leader_id=st.integers(-1, 2**31 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    replica_nodes=NODES,
    isr_nodes=NODES,
    eligible_leader_replicas=st.none() | NODES,
    last_known_elr=st.none() | NODES,
    offline_replicas=NODES,
)
TOPICS = st.builds(
    _TOPIC,
    error_code=st.sampled_from([0, 0, 0, 3]),
    name=st.none() | st.text(max_size=249),
    topic_id=st.uuids() | st.just(uuid.UUID(int=0)),
    is_internal=st.booleans(),
    partitions=st.lists(PARTITIONS, max_size=3),
    topic_authorized_operations=st.integers(-(2**31), 2**31 - 1),
)
CURSORS = st.none() | st.builds(
    _CURSOR, topic_name=st.text(max_size=249), partition_index=st.integers(0, 2**31 - 1)
)
PAGES = st.lists(TOPICS, max_size=4)


def raw(topics: list[Any], cursor: Any = None, throttle: int = 0) -> RawAnswer:
    page = DescribeTopicPartitionsResponse(throttle_time_ms=throttle, topics=topics, next_cursor=cursor)
    return RawAnswer(DescribeTopicPartitionsResponse[0], bytes(page.encode(version=0)))


def value(topic: Any) -> str:
    """Everything that a topic says."""
    return repr(topic)


def cursor_of(cursor: Any) -> tuple[str, int] | None:
    return cursor and (cursor.topic_name, cursor.partition_index)


def as_a_whole(answer: RawAnswer) -> tuple[list[str], tuple[str, int] | None]:
    page = answer.decode()
    return [value(topic) for topic in page.topics], cursor_of(page.next_cursor)


@given(PAGES, CURSORS, CURSORS, st.data())
def test_topics_that_changed_are_read_as_the_library_reads_them(
    topics: list[Any], cursor: Any, other: Any, data: Any
) -> None:
    first = raw(topics, cursor)
    values, after, layout = read_page(first, None, value)
    assert (values, cursor_of(after)) == as_a_whole(first)
    assert layout is not None
    changed = copy.copy(topics)
    for number in data.draw(st.sets(st.sampled_from(range(len(topics))))) if topics else ():
        changed[number] = data.draw(TOPICS)
        if data.draw(st.booleans()):
            changed[number].name, changed[number].topic_id = topics[number].name, topics[number].topic_id
    second = raw(changed, other, throttle=data.draw(st.integers(0, 9)))
    values, after, layout = read_page(second, layout, value)
    assert (values, cursor_of(after)) == as_a_whole(second)
    values, after, _ = read_page(first, layout, value)
    assert (values, cursor_of(after)) == as_a_whole(first)


@given(PAGES, PAGES, CURSORS)
def test_other_topics_are_not_read_with_the_layout_of_the_former(
    before: list[Any], now: list[Any], cursor: Any
) -> None:
    _, _, layout = read_page(raw(before), None, value)
    values, after, _ = read_page(raw(now, cursor), layout, value)
    assert (values, cursor_of(after)) == as_a_whole(raw(now, cursor))


@given(PAGES.filter(bool), CURSORS, st.data())
def test_whatever_byte_differs_the_page_is_read_as_the_library_reads_it(
    topics: list[Any], cursor: Any, data: Any
) -> None:
    first = raw(topics, cursor)
    _, _, layout = read_page(first, None, value)
    body = bytearray(first.body)
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    second = RawAnswer(first.kind, bytes(body))
    is_read_as_the_library_reads_it(second, layout)


def is_read_as_the_library_reads_it(answer: RawAnswer, layout: Any) -> None:
    try:
        expected = as_a_whole(answer)
    except KafkaProtocolError:
        with pytest.raises(KafkaProtocolError):
            read_page(answer, layout, value)
        return
    values, after, _ = read_page(answer, layout, value)
    assert (values, cursor_of(after)) == expected


def test_null_in_place_of_any_list_or_name_is_read_as_the_library_reads_it() -> None:
    one = _PARTITION(0, 0, 0, 0, [], [], None, None, [])
    topics = [
        _TOPIC(0, None, uuid.UUID(int=7), is_internal=False, partitions=found, topic_authorized_operations=0)
        for found in ([one], [])
    ]
    first = raw(topics)
    _, _, layout = read_page(first, None, value)
    for at in range(5, len(first.body)):  # after the throttle time and the number of topics
        is_read_as_the_library_reads_it(
            RawAnswer(first.kind, first.body[:at] + b"\0" + first.body[at + 1 :]), layout
        )


def page_of(count: int) -> list[Any]:
    return [
        _TOPIC(
            name=f"t{number}",
            topic_id=uuid.UUID(int=number + 1),
            partitions=[
                _PARTITION(partition_index=i, leader_id=0, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2])
                for i in range(3)
            ],
        )
        for number in range(count)
    ]


def counted(answer: RawAnswer, layout: Any) -> tuple[list[str], Any]:
    """Names of the topics that were decoded."""
    read: list[str] = []

    def name(topic: Any) -> str:
        read.append(topic.name)
        return str(topic.name)

    return read, read_page(answer, layout, name)[2]


def test_only_topics_that_changed_are_decoded() -> None:
    topics = page_of(5)
    read, layout = counted(raw(topics, _CURSOR(topic_name="t5", partition_index=0)), None)
    assert read == ["t0", "t1", "t2", "t3", "t4"]
    topics[1].partitions[2].isr_nodes = [0, 2]
    topics[4].partitions[0].isr_nodes = [0]
    second = raw(topics, _CURSOR(topic_name="t5", partition_index=0))
    read, layout = counted(second, layout)
    assert read == ["t1", "t4"]
    assert counted(second, layout)[0] == []


def test_topics_and_arrays_may_be_long() -> None:
    topics = page_of(300)
    topics[7].partitions = [
        _PARTITION(partition_index=i, replica_nodes=list(range(200)), isr_nodes=[0]) for i in range(150)
    ]
    _, layout = counted(raw(topics), None)
    topics[7].partitions[1].isr_nodes = list(range(130))
    read, layout = counted(raw(topics), layout)
    assert read == ["t7"]
    assert counted(raw(topics), layout)[0] == []


def test_a_topic_that_came_or_went_is_read_with_all_others() -> None:
    _, layout = counted(raw(page_of(3)), None)
    assert counted(raw(page_of(4)), layout)[0] == ["t0", "t1", "t2", "t3"]
    assert counted(raw(page_of(2)), layout)[0] == ["t0", "t1"]


def test_a_page_with_fields_that_are_not_known_is_decoded_as_a_whole() -> None:
    body = bytearray(raw(page_of(1)).body)
    # Tagged fields of the only topic, before the cursor's and the page's own end: one of tag 7, a byte long.
    at = len(body) - 3
    assert body[at:] == b"\0\xff\0"
    body[at:] = b"\1\7\1\x2a\xff\0"
    answer = RawAnswer(DescribeTopicPartitionsResponse[0], bytes(body))
    read, layout = counted(answer, None)
    assert read == ["t0"]
    assert layout is None


def test_a_page_whose_last_topic_comes_to_have_such_fields_is_read_as_the_library_reads_it() -> None:
    end = b"\0\1\3zz\0\0\0\3\0\0"  # of the topic, the cursor, and the page
    body = raw(page_of(1), _CURSOR(topic_name="zz", partition_index=3)).body
    assert body.endswith(end)
    _, layout = counted(RawAnswer(DescribeTopicPartitionsResponse[0], body), None)
    # The number and length of the field read like the end of a page that is the last one.
    body = body.removesuffix(end) + b"\1\xff\1\0" + end[1:]
    for throttle in range(2):
        answer = RawAnswer(DescribeTopicPartitionsResponse[0], bytes(3) + bytes([throttle]) + body[4:])
        _, cursor, layout = read_page(answer, layout, value)
        assert cursor_of(cursor) == ("zz", 3)


def test_what_the_value_of_a_topic_raises_is_raised() -> None:
    _, _, layout = read_page(raw(page_of(2)), None, value)
    topics = page_of(2)
    topics[1].error_code = 3

    def refuse(topic: Any) -> str:
        if topic.error_code:
            raise KafkaError(topic.name)
        return value(topic)

    with pytest.raises(KafkaError):
        read_page(raw(topics), layout, refuse)
