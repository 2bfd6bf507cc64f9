"""How many passes a proposal takes on a cluster that is at rest: each costs a look at everything, and seconds on a busy machine."""

from typing import Any

import pytest

from spindle.api import names
from spindle.model.times import stamp
from tests.model.failing import Failing
from tests.model.kafka import path_of
from tests.unit.proposal_samples import HASH

_BROKERS = 5


@pytest.fixture
def world() -> Failing:
    pool = {
        "name": "main",
        "replicas": _BROKERS,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    made = Failing.of("abcab", disks=2, brokerPools=[pool])
    made.settle(80)
    for index in range(_BROKERS):
        replicas = tuple((index + step) % _BROKERS for step in range(3))
        made.kafkas.create("t", index, replicas, lambda broker: path_of(f"disk{broker % 2}"))
    made.settle()
    return made


def propose(world: Failing, **spec: Any) -> None:
    made = {
        "cluster": "demo",
        "inputHash": HASH,
        "approved": HASH,
        "expires": stamp(world.now + 5000),
        "moves": [],
        **spec,
    }
    meta = {"name": "p1", "creationTimestamp": stamp(world.now)}
    world.put({"apiVersion": names.API_VERSION, "kind": "KafkaRebalance", "metadata": meta, "spec": made})


def passes_until_done(world: Failing, most: int = 12) -> int:
    for count in range(1, most + 1):
        world.reconcile()
        world.breathe()
        if world.get("KafkaRebalance", "p1")["status"]["phase"] == "Done":
            return count
    raise AssertionError(world.get("KafkaRebalance", "p1")["status"])


def test_new_leaders_alone_take_three_passes(world: Failing) -> None:
    """It is noted that it was begun; the orders are changed and the leaders elected; it is seen that they lead."""
    leaders = [
        {"topic": "t", "partition": index, "broker": (index + 1) % _BROKERS} for index in range(_BROKERS)
    ]
    propose(world, leaders=leaders)

    assert passes_until_done(world) == 3
    assert {key[1]: state.leader for key, state in world.kafkas.partitions.items()} == {
        lead["partition"]: lead["broker"] for lead in leaders
    }


def test_a_proposal_of_nothing_is_done_in_two_passes(world: Failing) -> None:
    propose(world)

    assert passes_until_done(world) == 2
