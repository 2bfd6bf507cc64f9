"""Partitions that stand on fewer racks than they could."""

from typing import Any

import pytest

from spindle.model.view import Broker, KafkaView, Partition
from spindle.moves.under_spread import under_spread_partitions


def view(racks: str, *partitions: tuple[int, ...], down: tuple[int, ...] = (), **more: Any) -> KafkaView:
    """Brokers 0, 1, … in racks named by a letter each; ``-`` for none."""
    brokers = {i: Broker(i, None if r == "-" else r, i in down, ()) for i, r in enumerate(racks)}
    made = tuple(Partition("t", i, r[0], r, r, **more) for i, r in enumerate(partitions))
    return KafkaView(brokers=brokers, partitions=made)


@pytest.mark.parametrize(
    ("racks", "replicas", "down", "found"),
    [
        pytest.param("abc", (0, 1, 2), (), False, id="spread"),
        pytest.param("abca", (0, 3, 1), (), True, id="two in one rack"),
        pytest.param("aba", (0, 1, 2), (), False, id="there are no more racks"),
        pytest.param("abca", (0, 1, 3), (2,), False, id="the third rack is down"),
        pytest.param("abca", (0, 1, 2), (2,), False, id="one that is down counts where it is"),
        pytest.param("abc", (0, 1), (), False, id="as many as it has replicas"),
        pytest.param("---", (0, 1, 2), (), False, id="no racks"),
        pytest.param("ab-", (0, 1, 2), (), False, id="mixed, which is said elsewhere"),
    ],
)
def test_crowded(racks: str, replicas: tuple[int, ...], down: tuple[int, ...], *, found: bool) -> None:
    refusal = under_spread_partitions(view(racks, replicas, down=down))
    assert (refusal is not None) is found
    if refusal is not None:
        assert refusal.objects == ("t-0",)


def test_what_is_being_reassigned_is_left_out() -> None:
    assert under_spread_partitions(view("abca", (0, 3, 1), adding=(1,))) is None


def test_what_is_not_known_is_not_told() -> None:
    assert under_spread_partitions(KafkaView(error="no")) is None
    assert under_spread_partitions(KafkaView(brokers={})) is None


def test_a_question_that_changed_after_it_was_asked_is_another_question() -> None:
    index = view("aab", (0, 1)).partition_index
    racks, wanted = {0: "a", 1: "a", 2: "b"}, [0, 1, 2]
    assert [p.index for p in index.on_fewer_racks(racks, wanted)] == [0]
    racks[1] = "b"
    assert index.on_fewer_racks(racks, wanted) == []
    racks[1] = "a"
    assert [p.index for p in index.on_fewer_racks(racks, wanted)] == [0]
    wanted[2] = 1
    assert index.on_fewer_racks(racks, wanted) == []
