"""Reassignments by others: which never end, and what cancels them."""

import json
import re
from typing import Any

import pytest

from spindle.evacuation.drop_replicas import may_drop_replica
from spindle.model.reassigned import how_to_cancel, never_in_sync
from spindle.model.replica_index import ReplicaIndex
from spindle.model.view import KafkaView, Partition
from spindle.moves.journal import Journal
from spindle.moves.verify import forgotten
from tests.model.moving import execute
from tests.unit.test_moves_execute import D0, D1, LIMITS, MOVE, T, kafka


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    index: int = 0,
) -> Partition:
    return Partition("t", index, isr[0] if isr else None, replicas, isr, adding=adding, removing=removing)


def listed(text: str) -> list[dict[str, Any]]:
    """Partitions of the file that a way out has."""
    found = re.search(r"with (\{.*\}) in FILE", text)
    return json.loads(found[1])["partitions"] if found else []


@pytest.mark.parametrize(
    ("made", "waits_for"),
    [
        pytest.param(partition((0, 1, 2), (0, 2), removing=(2,)), (1,), id="fewer, and the dead one stays"),
        pytest.param(partition((0, 1, 2), (0, 2), removing=(1,)), (), id="fewer, and the dead one goes"),
        pytest.param(partition((0, 1, 2, 3), (0, 2), (3,), (2,)), (), id="as many: who stays is not waited for"),
        pytest.param(partition((0, 1, 2), (0, 2), (1,), (2,)), (1,), id="it was to come on the dead one"),
        pytest.param(partition((0, 1), (0,), adding=(1,)), (1,), id="more, on the dead one"),
        pytest.param(partition((0, 1, 2), (0, 1, 2), removing=(2,)), (), id="still in sync"),
    ],
)  # fmt: skip
def test_what_kafka_waits_for(made: Partition, waits_for: tuple[int, ...]) -> None:
    assert never_in_sync(made, lambda broker: broker == 1) == waits_for


def test_the_way_out_is_a_command_with_its_file() -> None:
    text = how_to_cancel([partition((0, 1, 2), (0, 2), removing=(2,))])
    assert "kafka-reassign-partitions.sh --cancel --preserve-throttles" in text
    assert listed(text) == [{"topic": "t", "partition": 0, "replicas": [0, 1, 2]}]


def test_what_only_adds_the_tool_does_not_cancel() -> None:
    text = how_to_cancel([partition((0, 1), (0,), adding=(1,))])
    assert listed(text) == []
    assert "Admin.alterPartitionReassignments without a target for t-0 " in text


def test_what_kafka_cannot_cancel_is_completed_with_the_replicas_in_sync() -> None:
    text = how_to_cancel([partition((1, 2, 0), (1,), adding=(1, 2), removing=(0,))])
    assert "--cancel" not in text
    assert "kafka-reassign-partitions.sh --execute --additional " in text
    assert listed(text) == [{"topic": "t", "partition": 0, "replicas": [1]}]


def test_without_any_replica_in_sync_a_reassignment_can_neither_be_cancelled_nor_completed() -> None:
    text = how_to_cancel([partition((1, 0), (), adding=(1,), removing=(0,))])
    assert listed(text) == []
    assert "DataAtRisk" in text


def test_of_many_a_few_are_listed() -> None:
    text = how_to_cancel([partition((0, 1), (0,), removing=(1,), index=i) for i in range(9)])
    assert len(listed(text)) == 5
    assert "4 more partitions" in text


def test_a_move_that_it_keeps_from_beginning_says_that_it_never_ends() -> None:
    k = kafka()
    k.die(1, D0)
    k.die(1, D1)
    k.begin(T, [0, 1], foreign=True)
    view = k.view()
    found = next(p for p in view.partitions or () if (p.topic, p.index) == T)
    assert found.removing == (2,)
    assert 1 not in found.isr
    (refused,) = execute(view, Journal(), [MOVE], LIMITS).refusals
    assert refused.refusal.reason == "ExternalReassignment"
    assert "cannot complete" in refused.refusal.message
    assert [(p["topic"], p["partition"]) for p in listed(refused.refusal.unblocked_by)] == [T]


def test_a_shrink_that_it_keeps_from_beginning_says_so_too() -> None:
    view = KafkaView(
        brokers={},
        partitions=(partition((0, 1, 2), (0, 2), removing=(2,)),),
        min_isr={"t": 1},
    )
    refusal = may_drop_replica(ReplicaIndex(view), 1, [("t", 0)])
    assert refusal is not None
    assert refusal.reason == "ReassignmentInProgress"
    assert "The reassignment of t-0 cannot complete" in refusal.message
    assert len(listed(refusal.unblocked_by)) == 1
    ends = KafkaView(brokers={}, partitions=(partition((0, 1, 2), (0, 2), removing=(1,)),), min_isr={"t": 1})
    refusal = may_drop_replica(ReplicaIndex(ends), 1, [("t", 0)])
    assert refusal is not None
    assert "cannot complete" not in refusal.message


@pytest.mark.parametrize(
    ("made", "ends"),
    [
        pytest.param(partition((0, 2, 1), (0,), (0,), (1,)), True, id="the added replica was elected uncleanly"),
        pytest.param(partition((0, 2, 1), (0,), (0,), (1, 2)), True, id="alone, two go"),
        pytest.param(partition((0, 3, 2, 1), (0,), (0,), (1, 2)), False, id="fewer, and one that stays is missing"),
        pytest.param(partition((0, 2, 1), (2,), (0,), (1,)), False, id="the added replica is not in sync"),
        pytest.param(partition((0, 1), (0,), (0,)), False, id="nothing goes"),
    ],
)  # fmt: skip
def test_a_move_of_its_own_that_kafka_does_not_complete_is_asked_for_again(
    made: Partition, ends: bool
) -> None:
    assert forgotten(made) is ends
