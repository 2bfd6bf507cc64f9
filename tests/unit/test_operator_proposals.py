"""KafkaRebalances at the operator's edge: read whole only when they changed."""

from typing import Any

from spindle_operator.kinds import KAFKA_REBALANCE
from spindle_operator.proposals import Shelf
from tests.unit.operator_fakes import FakeKube
from tests.unit.proposal_samples import D0, D1, move, rebalance


def put(kube: FakeKube, raw: dict[str, Any], version: str = "1") -> None:
    raw["metadata"] |= {"namespace": "ns", "resourceVersion": version}
    kube.objects[KAFKA_REBALANCE.path("ns", raw["metadata"]["name"])] = raw


async def test_each_is_read_once_for_each_version() -> None:
    kube, shelf = FakeKube(), Shelf()
    put(kube, rebalance(move(0, (0, D0), (2, D1))))
    for _ in range(3):
        (found,) = await shelf.look(kube, "ns", "demo")
        assert len(found["spec"]["moves"]) == 1
    put(kube, rebalance(move(0, (0, D0), (2, D1)), approved="x"), "2")
    (found,) = await shelf.look(kube, "ns", "demo")

    assert found["spec"]["approved"] == "x"
    assert kube.done("find") == ["demo-1", "demo-1"]


async def test_another_clusters_is_read_once_and_left_out() -> None:
    kube, shelf = FakeKube(), Shelf()
    put(kube, rebalance(cluster="other"))
    for version in "123":
        put(kube, rebalance(cluster="other"), version)
        assert await shelf.look(kube, "ns", "demo") == []

    assert kube.done("find") == ["demo-1"]


async def test_of_one_that_is_over_the_moves_are_not_kept() -> None:
    kube, shelf = FakeKube(), Shelf()
    put(kube, rebalance(move(0, (0, D0), (2, D1)), status={"phase": "Done"}))
    (found,) = await shelf.look(kube, "ns", "demo")

    assert found["spec"]["moves"] == []
    assert found["status"] == {"phase": "Done"}


async def test_one_that_is_gone_is_forgotten() -> None:
    kube, shelf = FakeKube(), Shelf()
    put(kube, rebalance())
    await shelf.look(kube, "ns", "demo")
    kube.objects.clear()

    assert await shelf.look(kube, "ns", "demo") == []
