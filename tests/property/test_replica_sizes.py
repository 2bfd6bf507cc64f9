"""Columns of replicas are to their readers what a dict of the same content is."""

import copy
import pickle
from array import array
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.model.replica_sizes import NONE, Key, ReplicaKeys, ReplicaSizes, total_bytes
from spindle.model.view import Broker, LogDir

# Few names and numbers, so that most keys have something in common with another one.
KEYS = st.tuples(
    st.sampled_from(["", "a", "a-0", "b", "é", "\U0001f600"]) | st.text(max_size=3),
    st.integers(-1, 3) | st.sampled_from([-(2**31), 2**31 - 1]),
)
DICTS = st.dictionaries(KEYS, st.integers(0, 3) | st.integers(0, 2**63 - 1), max_size=12)
NO_KEYS: list[Any] = [
    None,
    0,
    "",
    "ab",
    "a-0",
    (),
    ("a",),
    ("a", "0"),
    (0, "a"),
    ("a", None),
    ("a", 0, 1),
    (None, 0),
    b"ab",
]


@given(DICTS, st.lists(KEYS))
def test_every_key_is_found_and_no_other(replicas: dict[Key, int], others: list[Key]) -> None:
    columns = ReplicaSizes.of(replicas)
    for key in (*replicas, *others):
        assert (key in columns) == (key in replicas)
        assert columns.get(key) == replicas.get(key)
        assert columns.get(key, -1) == replicas.get(key, -1)
        if key in replicas:
            assert columns[key] == replicas[key]
        else:
            with pytest.raises(KeyError):
                columns[key]


@given(DICTS, st.sampled_from(NO_KEYS))
def test_what_is_no_key_is_not_there(replicas: dict[Key, int], key: Any) -> None:
    assert key not in ReplicaSizes.of(replicas)


def test_a_number_that_is_equal_to_a_partition_is_the_same_key() -> None:
    """As in a dict."""
    columns = ReplicaSizes.of({("a", 1): 7})
    assert columns[("a", True)] == columns[("a", 1.0)] == 7  # type: ignore[index]


@given(DICTS)
def test_they_are_read_in_the_order_of_their_keys(replicas: dict[Key, int]) -> None:
    columns = ReplicaSizes.of(replicas)
    assert len(columns) == len(replicas)
    assert bool(columns) == bool(replicas)
    assert list(columns) == list(columns.keys()) == sorted(replicas)
    assert list(columns.items()) == sorted(replicas.items())
    assert list(columns.values()) == [size for _, size in sorted(replicas.items())]
    assert sum(columns.values()) == total_bytes(columns) == total_bytes(replicas) == sum(replicas.values())
    assert (len(columns.keys()), len(columns.values()), len(columns.items())) == (len(replicas),) * 3
    assert frozenset(columns) == frozenset(replicas)
    assert {**columns} == dict(columns) == replicas


@given(DICTS, DICTS)
def test_sets_of_their_keys_and_items(one: dict[Key, int], other: dict[Key, int]) -> None:
    columns, others = ReplicaSizes.of(one), ReplicaSizes.of(other)
    assert columns.keys() | others.keys() == one.keys() | other.keys()
    assert columns.keys() & other.keys() == one.keys() & other.keys()
    assert one.keys() - others.keys() == one.keys() - other.keys()
    assert columns.items() & others.items() == one.items() & other.items()
    assert frozenset().union(columns.keys(), others.keys()) == frozenset(one) | frozenset(other)


@given(DICTS, DICTS)
def test_equality_is_that_of_the_dicts(one: dict[Key, int], other: dict[Key, int]) -> None:
    equal = one == other
    assert (ReplicaSizes.of(one) == ReplicaSizes.of(other)) == equal
    assert (ReplicaSizes.of(one) == other) == equal
    assert (one == ReplicaSizes.of(other)) == equal
    assert (ReplicaSizes.of(one) != ReplicaSizes.of(other)) != equal
    dirs = [
        LogDir("/d", replicas=one, futures=other),
        LogDir("/d", replicas=ReplicaSizes.of(one), futures=ReplicaSizes.of(other)),
    ]
    assert dirs[0] == dirs[1]
    assert ReplicaSizes.of(one) == ReplicaSizes.of(dict(reversed(one.items())))
    assert ReplicaSizes.of(one) != sorted(one)


@given(DICTS, st.integers(1, 2**40))
def test_another_size_is_a_difference(replicas: dict[Key, int], more: int) -> None:
    columns = ReplicaSizes.of(replicas)
    grown = ReplicaSizes(columns.columns, array("q", ((size + more) % 2**62 for size in columns.values())))
    assert (grown == columns) == (dict(grown) == replicas)
    assert grown.columns is columns.columns


@given(st.lists(KEYS, max_size=12))
def test_keys_are_held_once(keys: list[Key]) -> None:
    found = ReplicaKeys(keys)
    assert list(found) == sorted(set(keys))
    assert len(found) == len(set(keys))
    assert found == ReplicaKeys(reversed(keys))
    for at, key in enumerate(found):
        assert found.find(key) == at


@given(DICTS)
def test_a_copy_is_equal(replicas: dict[Key, int]) -> None:
    log_dir = LogDir("/d", replicas=ReplicaSizes.of(replicas))
    for made in (
        copy.copy(log_dir),
        copy.deepcopy(log_dir),
        pickle.loads(pickle.dumps(log_dir)),  # noqa: S301 - written here
        replace(log_dir, error=0),
    ):
        assert made == log_dir
        assert made.replicas == replicas
        assert isinstance(made.replicas, ReplicaSizes)


@given(DICTS, DICTS)
def test_what_is_live_on_a_broker(one: dict[Key, int], other: dict[Key, int]) -> None:
    dirs = tuple(
        LogDir(f"/{at}", error=at // 2 * 56, replicas=each)
        for at, each in enumerate((one, other, {("dead", 0): 1}))
    )
    columns = tuple(replace(each, replicas=ReplicaSizes.of(each.replicas)) for each in dirs)
    assert (
        Broker(1, None, log_dirs=columns).live
        == Broker(1, None, log_dirs=dirs).live
        == frozenset({*one, *other})
    )
    assert [each.other_bytes for each in columns] == [each.other_bytes for each in dirs]


def test_they_are_as_little_hashable_as_a_dict() -> None:
    for each in (NONE, NONE.columns):
        with pytest.raises(TypeError):
            hash(each)


def test_as_many_sizes_as_keys() -> None:
    with pytest.raises(ValueError, match="1 keys have 0 sizes"):
        ReplicaSizes(ReplicaKeys([("a", 0)]), array("q"))


def test_without_replicas_nothing_is_held() -> None:
    assert ReplicaSizes.of({}) is NONE
    assert repr(ReplicaSizes.of({("a", 0): 1})) == "ReplicaSizes({('a', 0): 1})"
