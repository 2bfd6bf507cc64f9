"""Whatever fills and empties, wherever the operator dies: no rule is broken, and when there is room all is as it was.

``SPINDLE_FILLING_RUNS`` sets how many clusters are tried.
"""

import os
from functools import cache

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from spindle.model.view import MAX_MESSAGE_BYTES
from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import Driven, all_in, bounds
from tests.model.kafka import CAPACITY, path_of

_RUNS = int(os.environ.get("SPINDLE_FILLING_RUNS", examples(4)))
_STEPS = int(os.environ.get("SPINDLE_FILLING_STEPS", "15"))
_QUIET = 4  # passes without an action
_TOPICS = ("a", "b", "c", "d")
_RESORTS = ("reduceRetention", "throttleProducers", "blockProducers")  # deleted records do not come back


@cache
def _settled(brokers: int) -> Checked:
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abcabc"[:brokers], brokerPools=[pool])
    world.settle(80)
    for index, topic in enumerate(_TOPICS):
        replicas = tuple((index + i) % brokers for i in range(3))
        world.kafkas.create(topic, 0, replicas, all_in(path_of(f"disk{index % 2}")))
        world.kafkas.sizes[topic] = 1000
        world.factors[topic, 0] = 3
    world.settle()
    return world


class Filling(Driven):
    """A cluster whose disks fill and empty at random."""

    @initialize(brokers=st.sampled_from([3, 4, 6]), on=st.sets(st.sampled_from(_RESORTS)))
    def begin(self, brokers: int, on: set[str]) -> None:
        self.world = _settled(brokers).fork()
        self.world.cluster["spec"]["disks"] = {"lastResortActions": dict.fromkeys(on, True)}
        self.brokers = brokers
        self.mine: dict[str, str] = {}

    @rule(
        broker=st.integers(0, 5), disk=st.integers(0, 1), percent=st.sampled_from([0, 40, 72, 82, 88, 93, 99])
    )
    def a_neighbour_fills(self, broker: int, disk: int, percent: int) -> None:
        volume = self.world.disk(broker % self.brokers, f"disk{disk}")
        logs = sum(self.world.kafkas.sizes.get(topic, 0) for topic, _ in volume.logs)
        volume.others = max(0, percent * CAPACITY // 100 - logs)

    @rule(topic=st.sampled_from(_TOPICS), size=st.sampled_from([200, 1000, 2500, 4500]))
    def a_topic_grows_or_shrinks(self, topic: str, size: int) -> None:
        self.world.kafkas.sizes[topic] = size

    @rule(topic=st.sampled_from(_TOPICS), value=st.sampled_from(["5000", "70000"]))
    def a_user_sets_something(self, topic: str, value: str) -> None:
        self.mine[topic] = value
        self.world.kafkas.configure("topic", topic, {MAX_MESSAGE_BYTES: value})

    def holds_besides(self) -> None:
        assert all(len(state.replicas) >= 2 for state in self.world.kafkas.partitions.values())

    def teardown(self) -> None:
        """There is room again. Then everything is as it was, and what users set is what they set."""
        if not hasattr(self, "world"):
            return
        for volume in self.world.kafkas.volumes.values():
            volume.others = 0
        self.world.kafkas.sizes |= dict.fromkeys(_TOPICS, 500)
        self.end_quiet(_QUIET, 120)
        kafka, waiting = self.world.kafkas, self.world.cluster["status"]["waiting"]
        left = {key: values for key, values in kafka.settings.items() if values}
        assert left == {("topic", topic): {MAX_MESSAGE_BYTES: value} for topic, value in self.mine.items()}
        assert all(len(state.isr) == 3 for state in kafka.partitions.values()), waiting
        levels = {d["usage"]["level"] for b in self.world.all("KafkaBroker") for d in b["status"]["disks"]}
        assert levels == {"Normal"}, waiting


TestFilling = pytest.mark.filterwarnings("ignore")(Filling.TestCase)
TestFilling.settings = bounds(_RUNS, _STEPS)
