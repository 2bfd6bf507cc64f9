"""KafkaRebalances at the operator's edge: read whole only when they changed."""

from typing import Any

from spindle_operator.kinds import KAFKA_REBALANCE
from spindle_operator.rebalance_cache import RebalanceCache
from tests.unit.operator_fakes import FakeKube
from tests.unit.proposal_samples import D0, D1, move, rebalance


def put(kube: FakeKube, raw: dict[str, Any], version: str = "1") -> None:
    raw["metadata"] |= {"namespace": "ns", "resourceVersion": version}
    kube.objects[KAFKA_REBALANCE.path("ns", raw["metadata"]["name"])] = raw


async def test_each_is_read_once_for_each_version() -> None:
    kube, cache = FakeKube(), RebalanceCache()
    put(kube, rebalance(move(0, (0, D0), (2, D1))))
    for _ in range(3):
        (found,) = await cache.look(kube, "ns", "demo")
        assert len(found["spec"]["moves"]) == 1
    put(kube, rebalance(move(0, (0, D0), (2, D1)), approved="x"), "2")
    (found,) = await cache.look(kube, "ns", "demo")

    assert found["spec"]["approved"] == "x"
    assert kube.done("find") == ["demo-1", "demo-1"]


async def test_another_clusters_is_read_once_and_left_out() -> None:
    kube, cache = FakeKube(), RebalanceCache()
    put(kube, rebalance(cluster="other"))
    for version in "123":
        put(kube, rebalance(cluster="other"), version)
        assert await cache.look(kube, "ns", "demo") == []

    assert kube.done("find") == ["demo-1"]


async def test_of_one_that_is_over_the_moves_are_not_kept() -> None:
    kube, cache = FakeKube(), RebalanceCache()
    put(kube, rebalance(move(0, (0, D0), (2, D1)), status={"phase": "Done"}))
    (found,) = await cache.look(kube, "ns", "demo")

    assert found["spec"]["moves"] == []
    assert found["status"] == {"phase": "Done"}


async def test_one_that_is_gone_is_forgotten() -> None:
    kube, cache = FakeKube(), RebalanceCache()
    put(kube, rebalance())
    await cache.look(kube, "ns", "demo")
    kube.objects.clear()

    assert await cache.look(kube, "ns", "demo") == []


async def test_of_hundreds_the_oldest_are_looked_at_until_they_are_over() -> None:
    kube, cache = FakeKube(), RebalanceCache()
    for number in range(100):
        put(kube, rebalance(name=f"late-{number:03}", made="2026-09-02T00:00:00Z"))
    put(kube, rebalance(name="under-way", made="2026-09-01T00:00:00Z", status={"phase": "Executing"}))
    found = [each["metadata"]["name"] for each in await cache.look(kube, "ns", "demo")]
    assert (found[0], found[1], len(found)) == ("under-way", "late-000", 32)
    put(kube, rebalance(name="under-way", made="2026-09-01T00:00:00Z", status={"phase": "Done"}), version="2")
    assert len(await cache.look(kube, "ns", "demo")) == 33, "one that is over takes nobody's turn"
