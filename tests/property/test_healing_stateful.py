"""Whatever fails, in whatever order, wherever the operator dies: no rule is broken, and in the end all is quiet.

``SPINDLE_HEALING_RUNS`` sets how many clusters are tried (a few by default; thousands take hours of processor time).
"""

import os
from functools import cache

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from spindle.moves.journal import parse
from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import Driven, all_in, bounds
from tests.model.kafka import State, Volume, path_of

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

_RUNS = int(os.environ.get("SPINDLE_HEALING_RUNS", examples(6)))
_STEPS = int(os.environ.get("SPINDLE_HEALING_STEPS", "25"))
_QUIET = 14  # passes without an action; longer than any dwell time


@cache
def _settled(brokers: int, rf: int) -> Checked:
    pool = {
        "name": "main",
        "replicas": brokers,
        "disks": {"count": 2, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abcabc"[:brokers], brokerPools=[pool])
    world.settle(80)
    for index in range(4):
        replicas = tuple((index + i) % brokers for i in range(rf if index else 2))
        path = path_of(f"disk{index % 2}")
        world.kafkas.create("t", index, replicas, all_in(path))
        world.factors["t", index] = len(replicas)
    world.settle()
    return world


class Healing(Driven):
    """A cluster in which disks, processes, agents and the operator fail at random."""

    pulled: list[tuple[int, str, Volume]]

    @initialize(brokers=st.sampled_from([3, 4, 6]), elr=st.booleans())
    def begin(self, brokers: int, elr: bool) -> None:
        self.world = _settled(brokers, 3).fork()
        self.world.kafkas.with_elr = elr
        self.brokers = brokers
        self.pulled = []

    def _disk(self, broker: int, disk: int) -> Volume:
        return self.world.disk(broker % self.brokers, f"disk{disk}")

    @rule(
        broker=st.integers(0, 5),
        disk=st.integers(0, 1),
        how=st.sampled_from(["dead", "dead", "hung", "readonly", "missing", "slow", "suspect NotAnswering"]),
    )
    def fail(self, broker: int, disk: int, how: str) -> None:
        volume = self._disk(broker, disk)
        if volume.state == "well":
            volume.state = how

    @rule(broker=st.integers(0, 5), disk=st.integers(0, 1))
    def recover(self, broker: int, disk: int) -> None:
        self._disk(broker, disk).state = "well"

    @rule(broker=st.integers(0, 5))
    def crash(self, broker: int) -> None:
        broker %= self.brokers
        if broker in self.world.kafkas.running:
            self.world.crash(broker)

    @rule(node=st.integers(1, 6))
    def agent_falls_silent(self, node: int) -> None:
        self.world.silent.add(f"node{node}")

    @rule()
    def agents_are_back(self) -> None:
        self.world.silent.clear()

    @rule(broker=st.integers(0, 5), stopped=st.booleans())
    def stop(self, broker: int, stopped: bool) -> None:
        self.world.get("KafkaBroker", f"demo-broker-{broker % self.brokers}")["spec"].setdefault(
            "maintenance", {}
        )["stopped"] = stopped

    @rule(roll=st.integers(1, 99))
    def change_the_configuration(self, roll: int) -> None:
        self.world.cluster["spec"]["config"] = {"log.retention.hours": str(roll)}

    @rule(broker=st.integers(0, 5), disk=st.integers(0, 1), drained=st.booleans(), cordoned=st.booleans())
    def ask_for(self, broker: int, disk: int, drained: bool, cordoned: bool) -> None:
        spec = self.world.get("KafkaBroker", f"demo-broker-{broker % self.brokers}")["spec"]
        state = "Drained" if drained else "Cordoned"
        entries = [{"name": f"disk{disk}", "desiredState": state}] if drained or cordoned else []
        spec.setdefault("maintenance", {})["disks"] = entries

    @rule(beats=st.integers(1, 12))
    def time_goes_by(self, beats: int) -> None:
        for _ in range(beats):
            self.world.breathe()

    @rule()
    def replace_what_is_safe_to_pull(self) -> None:
        """A person pulls what the status calls safe, and puts a new disk in."""
        for broker in self.world.all("KafkaBroker"):
            for disk in (broker.get("status") or {}).get("disks") or ():
                if disk["state"] in ("Evacuated", "Drained"):
                    self._pull(broker["spec"]["id"], disk["name"])

    def _pull(self, broker: int, disk: str) -> None:
        volume = self.world.disk(broker, disk)
        standing = [k for k in self.world._standing(broker, volume) if k not in self.world.given_up]
        assert not standing, f"{disk} of broker {broker} is called safe to pull, and {standing} stand on it"
        self.pulled.append((broker, disk, self.world.swap(broker, disk)))

    @rule(broker=st.integers(0, 5), disk=st.integers(0, 1))
    def replace_at_once(self, broker: int, disk: int) -> None:
        """A person swaps a dead disk before the status calls it safe to pull; every log on it is in sync elsewhere."""
        broker, volume = broker % self.brokers, self._disk(broker, disk)
        states = [self.world.kafkas.partitions[key] for key in self.world._standing(broker, volume)]
        if volume.state == "dead" and not any(self._needs(state, broker) for state in states):
            self.world.swap(broker, f"disk{disk}")

    def _needs(self, state: State, broker: int) -> bool:
        return broker in (*state.isr, *state.elr) or not state.isr

    @precondition(lambda self: bool(getattr(self, "pulled", None)))
    @rule()
    def put_an_old_disk_back(self) -> None:
        broker, disk, old = self.pulled.pop()
        if self.world.disk(broker, disk).id is None:
            self.world.swap(broker, disk, old)

    def teardown(self) -> None:
        """Failures stop: hung disks answer, agents and people are back. Then it has to end quiet."""
        if not hasattr(self, "world"):
            return
        for volume in self.world.kafkas.volumes.values():
            if volume.state in ("hung", "missing"):
                volume.state = "well"
        self.world.silent.clear()
        for broker in self.world.all("KafkaBroker"):
            broker["spec"].setdefault("maintenance", {})["stopped"] = False
            broker["spec"].setdefault("maintenance", {})["disks"] = []
        self.end_quiet(_QUIET, 400)
        # Whatever can be well is: then the cluster is whole again, but for what waits for new disks.
        for volume in self.world.kafkas.volumes.values():
            volume.state = "well"
        for _ in range(4):
            self.world.now += 700  # what was bad at once is no longer of the last ten minutes (rule 9)
            self.world.breathe()
            self.end_quiet(_QUIET, 400)
            self.replace_what_is_safe_to_pull()
        self._whole()

    def _whole(self) -> None:
        waiting = self.world.cluster["status"]["waiting"]
        if any(wait["reason"] == "WouldBeUnderMinIsr" for wait in waiting):
            return  # two brokers need a restart, and each holds what the other lacks: rule 2 leaves that to a person
        for key, state in self.world.kafkas.partitions.items():
            assert state.leader is not None, f"{key} has no leader: {waiting}"
            assert sorted(state.isr) == sorted(state.replicas), f"{key}: {state}: {waiting}"
            assert len(state.replicas) == self.world.factors[key], f"{key}: {state}: {waiting}"
            assert not state.adding
            assert not state.removing
        states = {d["state"] for b in self.world.all("KafkaBroker") for d in b["status"]["disks"]}
        assert states == {"Active"}, waiting
        assert not any(self.world.kafkas.settings.values()), self.world.kafkas.settings
        journal = (
            parse(self.world.get("ConfigMap", "demo-moves")["data"]["journal"]) if self._moved() else None
        )
        assert not journal, f"left in the journal: {journal}"

    def _moved(self) -> bool:
        return ("ConfigMap", "demo-moves") in self.world.objects


TestHealing = pytest.mark.filterwarnings("ignore")(Healing.TestCase)
TestHealing.settings = bounds(_RUNS, _STEPS)
