"""Partitions by key are to their readers what a dict of the same content is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.view import KafkaView, Partition

KEYS = st.tuples(st.sampled_from(["a", "b", "", "a-0"]), st.integers(-1, 5))
NO_KEYS: list[Any] = [None, 0, "", "a", (), ("a",), ("a", "0"), (0, "a"), ("a", 0, 1), ["a"]]


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Partition, ...]:
    """In any order, with gaps and with the same key several times; or as Kafka lists them."""
    if draw(st.booleans()):
        keys = draw(st.lists(KEYS, max_size=12))
    else:
        counts = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 5)))
        keys = [(topic, index) for topic, count in counts.items() for index in range(count)]
    return tuple(Partition(topic, index, None, (at,), ()) for at, (topic, index) in enumerate(keys))


@given(partitions(), st.lists(KEYS))
def test_it_reads_as_a_dict_does(everything: tuple[Partition, ...], others: list[tuple[str, int]]) -> None:
    found, like = (
        KafkaView(partitions=everything).partition_index.by_key,
        {(p.topic, p.index): p for p in everything},
    )
    assert (found == like, like == found, len(found), bool(found)) == (True, True, len(like), bool(like))
    assert dict(found.items()) == dict(found) == like
    assert list(found) == list(found.keys()) == [(p.topic, p.index) for p in found.values()]
    assert [*found.items()] == [*zip(found, found.values(), strict=True)]
    assert found.keys() - set(others) == like.keys() - set(others)
    assert frozenset(found) == frozenset(like)
    for key in (*like, *others):
        assert (key in found) == (key in like)
        assert found.get(key) is like.get(key)
        assert found.get(key, 7) == like.get(key, 7)
        if key in like:
            assert found[key] is like[key]
        else:
            with pytest.raises(KeyError):
                found[key]


@given(partitions(), st.sampled_from(NO_KEYS))
def test_what_is_no_key_is_not_there(everything: tuple[Partition, ...], key: Any) -> None:
    assert key not in KafkaView(partitions=everything).partition_index.by_key


def test_partitions_as_kafka_lists_them_are_read_in_their_order() -> None:
    everything = tuple(Partition(topic, index, None, (), ()) for topic in "ba" for index in range(3))
    assert [*KafkaView(partitions=everything).partition_index.by_key.values()] == [*everything]
