"""Looks at a Kafka whose topics come, go, are made again and change: what is remembered of pages gives what decoding all of them gives."""

import uuid
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeTopicPartitionsResponse

from spindle_operator.kafka_client import KafkaClient
from spindle_operator.raw_answers import AnswerMemo, RawAnswer
from tests.examples import examples

_TOPIC = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_PARTITION = _TOPIC.DescribeTopicPartitionsResponsePartition
_CURSOR = DescribeTopicPartitionsResponse.Cursor
NAMES = [f"t{number}" for number in range(6)]
NODES = st.lists(st.integers(0, 4), max_size=3, unique=True)


class Brokers:
    """Kafka's topics, told in pages of a few partitions."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[uuid.UUID, list[Any]]] = {}
        self.made = 0
        self.limit = 4

    def make(self, name: str, count: int) -> None:
        self.made += 1
        self.topics[name] = (uuid.UUID(int=self.made), [])
        self.grow(name, count)

    def grow(self, name: str, count: int) -> None:
        partitions = self.topics[name][1]
        for _ in range(count):
            partitions.append(
                _PARTITION(
                    partition_index=len(partitions), leader_id=0, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                )
            )

    def page(self, after: tuple[str, int] | None) -> RawAnswer:
        """As DescribeTopicPartitionsRequestHandler: at most so many partitions, the topics in order."""
        found: list[Any] = []
        cursor, left = None, self.limit
        for name, (topic_id, partitions) in sorted(self.topics.items()):
            first = 0
            if after is not None:
                if name < after[0]:
                    continue
                first = after[1] if name == after[0] else 0
            if not left:
                cursor = _CURSOR(topic_name=name, partition_index=first)
                break
            some = partitions[first : first + left]
            found.append(_TOPIC(name=name, topic_id=topic_id, partitions=some))
            left -= len(some)
            if first + len(some) < len(partitions):
                cursor = _CURSOR(topic_name=name, partition_index=first + len(some))
                break
        answer = DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=found, next_cursor=cursor)
        return RawAnswer(DescribeTopicPartitionsResponse[0], bytes(answer.encode(version=0)))


def client(brokers: Brokers) -> KafkaClient:
    link = KafkaClient.__new__(KafkaClient)
    link._memo = AnswerMemo()

    def send(request: Any, _: int) -> RawAnswer:
        cursor = request.cursor
        return brokers.page(cursor and (cursor.topic_name, cursor.partition_index))

    link.send = send  # type: ignore[method-assign, assignment]
    link._reassignments = lambda _: {}  # type: ignore[method-assign, assignment]
    return link


def look(link: KafkaClient) -> Any:
    link._memo.turn()
    return link._partitions(0)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_what_is_remembered_gives_what_a_fresh_look_gives(data: Any) -> None:
    brokers = Brokers()
    brokers.limit = data.draw(st.integers(1, 7))
    link = client(brokers)
    for _ in range(data.draw(st.integers(1, 8))):
        for _ in range(data.draw(st.integers(0, 3))):
            name = data.draw(st.sampled_from(NAMES))
            change = data.draw(st.sampled_from(["make", "delete", "grow", "change"]))
            if change == "make":  # anew if there is one
                brokers.make(name, data.draw(st.integers(1, 5)))
            elif name in brokers.topics and change == "delete":
                del brokers.topics[name]
            elif name in brokers.topics and change == "grow":
                brokers.grow(name, data.draw(st.integers(1, 3)))
            elif name in brokers.topics:
                one = data.draw(st.sampled_from(brokers.topics[name][1]))
                what = data.draw(
                    st.sampled_from(["isr_nodes", "replica_nodes", "eligible_leader_replicas", "leader_id"])
                )
                setattr(one, what, data.draw(st.integers(-1, 4) if what == "leader_id" else NODES))
        found = look(link)
        assert found == look(client(brokers))
        told = {(topic, p.partition_index) for topic, (_, rows) in brokers.topics.items() for p in rows}
        assert {(p.topic, p.index) for p in found[0]} == told
        assert found[1].keys() == brokers.topics.keys()
        pages = {key for key in link._memo._now if key[0] == "partitions"}  # type: ignore[index]
        assert len(pages) <= len(told) + 1, "nothing is kept of pages that nobody asks for any more"
