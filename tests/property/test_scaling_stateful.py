"""However many brokers are asked for, in whatever order, wherever the operator dies: no rule is broken, and in the end it is so.

``SPINDLE_SCALE_RUNS`` sets how many clusters are tried.
"""

import os
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import Driven, all_in, bounds
from tests.model.kafka import path_of

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

_RUNS = int(os.environ.get("SPINDLE_SCALE_RUNS", examples(4)))
_STEPS = int(os.environ.get("SPINDLE_SCALE_STEPS", "12"))
_QUIET = 10
_COPIES = 3


def _pool(name: str, replicas: int, count: int = 2) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": replicas,
        "disks": {"count": count, "size": "1Gi", "storageClass": "local-disks"},
    }


@cache
def _settled(brokers: int) -> Checked:
    world = Checked.of("abcabcabc", disks=3, brokerPools=[_pool("main", brokers)])
    world.settle(80)
    for index in range(4):
        replicas = tuple((index + copy) % brokers for copy in range(_COPIES))
        world.kafkas.create("t", index, replicas, all_in(path_of(f"disk{index % 2}")))
        world.factors["t", index] = _COPIES
    world.settle()
    return world


class Scaling(Driven):
    """A cluster of which ever other numbers of brokers are asked, and whose operator and processes die."""

    @initialize(brokers=st.integers(3, 5))
    def begin(self, brokers: int) -> None:
        self.world = _settled(brokers).fork()
        self.wanted = {"main": brokers}

    @rule(brokers=st.integers(1, 6))
    def ask(self, brokers: int) -> None:
        """What cannot be is refused; the last number that was asked for counts."""
        self._want({**self.wanted, "main": brokers})

    @rule(brokers=st.integers(0, 3))
    def another_pool(self, brokers: int) -> None:
        """A second pool comes, changes, and is removed."""
        rest = {name: count for name, count in self.wanted.items() if name != "other"}
        self._want({**rest, "other": brokers} if brokers else rest)

    def _want(self, wanted: dict[str, int]) -> None:
        self.wanted = wanted
        counts = {"main": 2, "other": 3}
        self.world.cluster["spec"]["brokerPools"] = [
            _pool(name, brokers, counts[name]) for name, brokers in sorted(wanted.items())
        ]

    @rule(broker=st.integers(0, 6))
    def crash(self, broker: int) -> None:
        if broker in self.world.kafkas.running:
            self.world.crash(broker)

    @rule(broker=st.integers(0, 6), first=st.booleans())
    def name_it(self, broker: int, first: bool) -> None:
        if found := self._record(broker):
            found["spec"].setdefault("maintenance", {})["removeFirst"] = first

    @rule(broker=st.integers(0, 6), stopped=st.booleans())
    def stop(self, broker: int, stopped: bool) -> None:
        if found := self._record(broker):
            found["spec"].setdefault("maintenance", {})["stopped"] = stopped

    @rule(broker=st.integers(0, 6))
    def forget_the_status(self, broker: int) -> None:
        if found := self._record(broker):
            (found.get("status") or {}).pop("disks", None)

    @rule(up=st.booleans())
    def kafka_answers(self, up: bool) -> None:
        self.world.kafka_up = up

    @rule(broker=st.integers(0, 6))
    def a_topic_is_made(self, broker: int) -> None:
        """Anybody may make a topic at any time, on whichever brokers run."""
        able = [b for b in sorted(self.world.kafkas.running) if self.world.kafkas.running[b].live()]
        if len(able) < _COPIES or broker not in able:
            return
        number = len(self.world.kafkas.partitions)
        replicas = (broker, *[b for b in able if b != broker][: _COPIES - 1])
        self.world.kafkas.make_topic(f"late-{number}", (replicas,), {})
        self.world.factors[f"late-{number}", 0] = _COPIES

    def _record(self, broker: int) -> dict[str, Any] | None:
        return self.world.objects.get(("KafkaBroker", f"demo-broker-{broker}"))

    def holds_besides(self) -> None:
        assert self.world.destroyed == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.kafka_up = True
        for broker in self.world.all("KafkaBroker"):
            broker["spec"].setdefault("maintenance", {})["stopped"] = False
        # What was asked for and cannot be is taken back: three copies need three brokers, on as many racks.
        self._want({"main": 4})
        for _ in range(2):
            self.world.now += 700
            self.world.breathe()
            self.end_quiet(_QUIET, 400)
        self._whole()

    def _whole(self) -> None:
        waiting = self.world.cluster["status"]["waiting"]
        if any(wait["reason"] == "WouldBeUnderMinIsr" for wait in waiting):
            return
        for key, state in self.world.kafkas.partitions.items():
            assert sorted(state.isr) == sorted(state.replicas), f"{key}: {state}: {waiting}"
            assert len(state.replicas) == _COPIES, f"{key}: {state}: {waiting}"
        records = self.world.all("KafkaBroker")
        if any(wait["reason"] == "InsufficientRacks" for wait in waiting):
            return  # those that a person named are the last of their rack, and stay
        assert [record["spec"]["pool"] for record in records] == ["main"] * 4, waiting
        assert len(self.world.registered) == 4, waiting
        for record in records:
            assert {disk["state"] for disk in record["status"]["disks"]} == {"Active"}, waiting
            assert not record["spec"].get("leaving")
            assert not record["spec"].get("joining")
        assert not any(self.world.kafkas.settings.get(("broker", str(b))) for b in range(12))


TestScaling = pytest.mark.filterwarnings("ignore")(Scaling.TestCase)
TestScaling.settings = bounds(_RUNS, _STEPS)
