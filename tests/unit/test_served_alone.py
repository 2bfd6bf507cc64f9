"""A broker is not stopped while it serves the only replica of a partition from a disk that it could not open again."""

import pytest

from spindle.evacuation.served_alone import served_alone
from spindle.model.replica_index import ReplicaIndex
from spindle.model.view import Partition
from tests.unit.test_healing import T, broker, log_dir, view


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "named"),
    [
        pytest.param((0,), (0,), 0, ("orders-0",), id="the only replica"),
        pytest.param((0, 1), (0,), 0, ("orders-0",), id="the other one is behind"),
        pytest.param((0, 1), (0, 1), 0, (), id="another one takes over"),
        pytest.param((0,), (0,), None, (), id="not served any more"),
    ],
)
def test_what_only_this_broker_serves(
    replicas: tuple[int, ...], isr: tuple[int, ...], leader: int | None, named: tuple[str, ...]
) -> None:
    partition = Partition(T, 0, leader, replicas, isr, (), (), ())
    index = ReplicaIndex(view([broker(0, log_dir("a", 0)), broker(1, log_dir("a", 0))], partition))

    assert served_alone(index, 0, frozenset({(T, 0)})) == named
    assert served_alone(index, 0, frozenset()) == ()
