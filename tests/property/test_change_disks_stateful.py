"""Whatever number of disks is asked for, in whatever order, wherever the operator dies: no rule is broken, and in the end it is so.

``SPINDLE_CHANGE_RUNS`` sets how many clusters are tried.
"""

import os
from functools import cache

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from spindle.api import names
from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import Driven, all_in, bounds
from tests.model.kafka import path_of

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

_RUNS = int(os.environ.get("SPINDLE_CHANGE_RUNS", examples(4)))
_STEPS = int(os.environ.get("SPINDLE_CHANGE_STEPS", "12"))
_SLOTS = 3  # disks of each node
_QUIET = 10


@cache
def _settled(count: int, storage: str) -> Checked:
    disks = {"count": count, "size": "1Gi", "storageClass": storage}
    pool = {"name": "main", "replicas": 3, "disks": disks}
    world = Checked.of("abc", disks=_SLOTS, brokerPools=[pool])
    world.settle(80)
    for index in range(4):
        world.kafkas.create("t", index, (0, 1, 2), all_in(path_of(f"disk{index % count}")))
        world.factors["t", index] = 3
    world.settle()
    return world


class Changing(Driven):
    """A cluster of which ever other numbers of disks are asked, and whose operator and processes die."""

    @initialize(count=st.integers(1, 3), storage=st.sampled_from(["local-disks", "local-disks", "standard"]))
    def begin(self, count: int, storage: str) -> None:
        self.world = _settled(count, storage).fork()
        self.count = count

    @rule(count=st.integers(1, 3))
    def ask(self, count: int) -> None:
        self.count = count
        self.world.cluster["spec"]["brokerPools"][0]["disks"]["count"] = count

    @rule(broker=st.integers(0, 2))
    def crash(self, broker: int) -> None:
        if broker in self.world.kafkas.running:
            self.world.crash(broker)

    @rule(broker=st.integers(0, 2), stopped=st.booleans())
    def stop(self, broker: int, stopped: bool) -> None:
        self.world.get("KafkaBroker", f"demo-broker-{broker}")["spec"].setdefault("maintenance", {})[
            "stopped"
        ] = stopped

    @rule(broker=st.integers(0, 2))
    def forget_the_status(self, broker: int) -> None:
        status = self.world.get("KafkaBroker", f"demo-broker-{broker}").get("status") or {}
        status.pop("disks", None)

    @rule(silent=st.booleans())
    def agents(self, silent: bool) -> None:
        self.world.silent = {"node1", "node2"} if silent else set()

    @rule(broker=st.integers(0, 2), disk=st.integers(0, 2), how=st.sampled_from(["dead", "missing", "well"]))
    def fail(self, broker: int, disk: int, how: str) -> None:
        if self._has_claim(broker, f"disk{disk}"):
            self.world.disk(broker, f"disk{disk}").state = how

    @rule()
    def free_what_was_kept(self) -> None:
        """A person wipes volumes that are kept, and gives them free."""
        for volume in self.world.all("PersistentVolume"):
            if volume["status"]["phase"] == "Released":
                self._wipe(volume["metadata"]["name"])

    def _wipe(self, name: str) -> None:
        volume = self.world.get("PersistentVolume", name)
        volume["spec"].pop("claimRef", None)
        volume["status"]["phase"] = "Available"
        self.world.put(volume)
        self.world.kafkas.volumes.pop(name, None)

    def holds_besides(self) -> None:
        assert self.world.destroyed == []

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.silent.clear()
        for broker in self.world.all("KafkaBroker"):
            broker["spec"].setdefault("maintenance", {})["stopped"] = False
        for volume in self.world.kafkas.volumes.values():
            volume.state = "well"
        for _ in range(4):
            self.world.now += 700  # what was bad at once is no longer of the last ten minutes (rule 9)
            self.world.breathe()
            self.end_quiet(_QUIET, 300)
            self.free_what_was_kept()
            self._replace_what_failed()
        self._whole()

    def _replace_what_failed(self) -> None:
        for broker in self.world.all("KafkaBroker"):
            broker_id = broker["spec"]["id"]
            for disk in (broker.get("status") or {}).get("disks") or ():
                if disk["state"] == "Evacuated" and self._has_claim(broker_id, disk["name"]):
                    self.world.swap(broker_id, disk["name"])

    def _has_claim(self, broker: int, disk: str) -> bool:
        claim = self.world.objects.get(("PersistentVolumeClaim", names.claim_name("demo", broker, disk)))
        return claim is not None and bool(claim["spec"].get("volumeName"))

    def _whole(self) -> None:
        waiting = self.world.cluster["status"]["waiting"]
        if any(wait["reason"] == "WouldBeUnderMinIsr" for wait in waiting):
            return
        for key, state in self.world.kafkas.partitions.items():
            assert sorted(state.isr) == sorted(state.replicas), f"{key}: {state}: {waiting}"
        wanted = [names.disk_name(index) for index in range(self.count)]
        for broker in self.world.all("KafkaBroker"):
            assert [disk["name"] for disk in broker["spec"]["disks"]] == wanted, waiting
            assert [disk["state"] for disk in broker["status"]["disks"]] == ["Active"] * self.count, waiting
        claims = [c for c in self.world.all("PersistentVolumeClaim") if "-disk" in c["metadata"]["name"]]
        assert len(claims) == 3 * self.count
        assert all(names.LABEL_ROLE in pod["metadata"]["labels"] for pod in self.world.all("Pod"))
        assert not any(self.world.kafkas.settings.values())


TestChanging = pytest.mark.filterwarnings("ignore")(Changing.TestCase)
TestChanging.settings = bounds(_RUNS, _STEPS)
