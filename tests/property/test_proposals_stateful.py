"""Proposals of every kind on a cluster where anything happens, with an operator that dies anywhere: none moves against a rule, each
comes to an end, and nothing of it is left behind.

``SPINDLE_PROPOSAL_RUNS`` sets how many clusters are tried.
"""

import json
import os
from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from spindle.api import names
from spindle.api.enums import ProposalPhase
from spindle.model.times import stamp
from spindle.moves.journal import Journal, parse
from spindle.proposals.lifecycle import TRANSITIONS
from spindle.proposals.proposal import REASON
from tests.examples import examples
from tests.model.checked import Checked
from tests.model.driven import Driven, bounds
from tests.model.kafka import path_of

pytestmark = pytest.mark.slow  # whole passes, which the simulation judges more widely

_RUNS = int(os.environ.get("SPINDLE_PROPOSAL_RUNS", examples(4)))
_STEPS = int(os.environ.get("SPINDLE_PROPOSAL_STEPS", "16"))
_BROKERS, _DISKS, _PARTITIONS = 5, 2, 6
_HASH = "0123456789abcdef"
_QUIET = 12


@cache
def _settled() -> Checked:
    pool = {
        "name": "main",
        "replicas": _BROKERS,
        "disks": {"count": _DISKS, "size": "1Gi", "storageClass": "local-disks"},
    }
    world = Checked.of("abcab", disks=_DISKS, brokerPools=[pool])
    world.settle(80)
    for index in range(_PARTITIONS):
        replicas = tuple((index + step) % _BROKERS for step in range(3))
        world.kafkas.create("t", index, replicas, _disk_of)
        world.factors["t", index] = 3
    world.settle()
    return world


def _disk_of(broker: int) -> str:
    return path_of(f"disk{broker % _DISKS}")


BROKER = st.integers(0, _BROKERS - 1)
DISK = st.integers(0, _DISKS - 1)
MOVE = st.tuples(st.integers(0, _PARTITIONS - 1), st.integers(0, 2), BROKER, DISK, st.integers(0, 2))


class Proposing(Driven):
    """A cluster for which proposals are made, approved, stopped and deleted, while disks, brokers and the operator fail."""

    @initialize()
    def begin(self) -> None:
        self.world = _settled().fork()
        self.made = 0
        self.phases: dict[str, str] = {}
        self.late: tuple[int | None, str, set[tuple[str, int]]] | None = None

    @rule(
        moves=st.lists(MOVE, min_size=1, max_size=6),
        approved=st.booleans(),
        lifetime=st.sampled_from([60, 5000]),
    )
    def propose(self, moves: list[tuple[int, int, int, int, int]], approved: bool, lifetime: int) -> None:
        """From what is so now; whether it is wise or allowed does not matter."""
        planned = [planned for each in moves if (planned := self._planned(*each)) is not None]
        self.made += 1
        spec: dict[str, Any] = {
            "cluster": "demo",
            "inputHash": _HASH,
            "expires": stamp(self.world.now + lifetime),
            "moves": sorted(planned, key=lambda each: int(each["wave"])),
        }
        if approved:
            spec["approved"] = _HASH
        meta = {"name": f"p{self.made:03}", "creationTimestamp": stamp(self.world.now + self.made)}
        self.world.put(
            {"apiVersion": names.API_VERSION, "kind": "KafkaRebalance", "metadata": meta, "spec": spec}
        )

    def _planned(self, index: int, replica: int, target: int, disk: int, wave: int) -> dict[str, Any] | None:
        state = self.world.kafkas.partitions.get(("t", index))
        if state is None or replica >= len(state.replicas):
            return None
        source = state.replicas[replica]
        process = self.world.kafkas.running.get(source)
        at = process.where(("t", index)) if process is not None else None
        if at is None:
            return None
        return {
            "topic": "t",
            "partition": index,
            "fromBroker": source,
            "fromDir": at,
            "toBroker": target,
            "toDir": path_of(f"disk{disk}"),
            "bytes": 100,
            "wave": wave,
        }

    def _open(self) -> list[dict[str, Any]]:
        return [
            raw
            for raw in self.world.all("KafkaRebalance")
            if not ProposalPhase((raw.get("status") or {}).get("phase") or "Proposed").over
        ]

    @rule(which=st.integers(0, 3), how=st.sampled_from(["approve", "stop", "withdraw", "delete"]))
    def decide(self, which: int, how: str) -> None:
        """A person does something with a proposal."""
        found = self._open()
        if not found:
            return
        raw = found[which % len(found)]
        if how == "approve":
            raw["spec"]["approved"] = _HASH
        elif how == "stop":
            raw["spec"]["stop"] = True
        elif how == "withdraw":
            raw["spec"].pop("approved", None)
        else:
            del self.world.objects["KafkaRebalance", raw["metadata"]["name"]]

    @rule(broker=BROKER)
    def crash(self, broker: int) -> None:
        if broker in self.world.kafkas.running:
            self.world.crash(broker)

    @rule(broker=BROKER, disk=DISK, how=st.sampled_from(["dead", "well", "slow"]))
    def disk(self, broker: int, disk: int, how: str) -> None:
        self.world.disk(broker, f"disk{disk}").state = how

    @rule(broker=BROKER, disk=DISK, cordoned=st.booleans())
    def cordon(self, broker: int, disk: int, cordoned: bool) -> None:
        spec = self.world.get("KafkaBroker", f"demo-broker-{broker}")["spec"]
        entries = [{"name": f"disk{disk}", "desiredState": "Cordoned"}] if cordoned else []
        spec["maintenance"] = {"disks": entries}

    @rule(index=st.integers(0, _PARTITIONS - 1))
    def delete_partition(self, index: int) -> None:
        """Its topic is deleted, as far as this model has topics."""
        if self.world.kafkas.partitions.pop(("t", index), None) is not None:
            for volume in self.world.kafkas.volumes.values():
                volume.logs.pop(("t", index), None)

    @rule(size=st.sampled_from([100, 3000]))
    def grow(self, size: int) -> None:
        self.world.kafkas.sizes["t"] = size

    @rule(shut=st.booleans())
    def window(self, shut: bool) -> None:
        """A window that is closed at this time of the day, or none."""
        hour = (int(self.world.now) // 3600 + 5) % 24
        windows = [{"start": f"0 {hour} * * *", "durationMinutes": 60}] if shut else []
        self.world.cluster["spec"].setdefault("rebalance", {})["windows"] = windows

    @rule(minutes=st.sampled_from([None, 1, 2]))
    def limit(self, minutes: int | None) -> None:
        """How long a proposal may be carried out."""
        rules = self.world.cluster["spec"].setdefault("rebalance", {})
        rules.pop("maxDurationMinutes", None)
        if minutes is not None:
            rules["maxDurationMinutes"] = minutes

    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        self.world.cluster["spec"]["paused"] = paused

    def holds_besides(self) -> None:
        """Each proposal goes only where its life allows, and at most one is carried out."""
        found = {
            raw["metadata"]["name"]: (raw.get("status") or {}).get("phase") or "Proposed"
            for raw in self.world.all("KafkaRebalance")
        }
        for name, phase in found.items():
            before = ProposalPhase(self.phases.get(name, "Proposed"))
            assert phase == before or _reachable(before, ProposalPhase(phase)), f"{name}: {before} → {phase}"
        assert list(found.values()).count("Executing") <= 1
        self.phases = found
        self._begins_nothing_late()

    def _begins_nothing_late(self) -> None:
        """Once its time is over by the record, nothing of a proposal is begun any more."""
        minutes = self.world.cluster["spec"].get("rebalance", {}).get("maxDurationMinutes")
        now = {move.key for move in self._journal().moves if move.reason == REASON}
        name = next((name for name, phase in self.phases.items() if phase == "Executing"), None)
        if self.late is not None and self.late[:2] == (minutes, name):
            assert now <= self.late[2], f"{name} has had its {minutes} minutes"
        ran = self.world.get("KafkaRebalance", name)["status"].get("ranSeconds", 0) if name else 0
        self.late = (minutes, name, now) if name and minutes and ran >= 60 * minutes else None

    def _journal(self) -> Journal:
        record = self.world.objects.get(("ConfigMap", "demo-moves"))
        return parse(record["data"]["journal"]) if record else parse(None)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.cluster["spec"]["paused"] = False
        self.world.cluster["spec"].pop("rebalance", None)
        self.world.kafkas.sizes["t"] = 100
        for broker in self.world.all("KafkaBroker"):
            broker["spec"].pop("maintenance", None)
        for volume in self.world.kafkas.volumes.values():
            volume.state = "well"
        for _ in range(3):
            # Half an hour and more, looked at all along: what waits without any progress is given up.
            for _ in range(10):
                self.world.now += 200
                self.world.breathe()
                self.one_pass()
            self.end_quiet(_QUIET, 400)
        self._nothing_is_left()

    def _nothing_is_left(self) -> None:
        for raw in self._open():
            assert (raw.get("status") or {}).get("phase") == "Proposed", raw["status"]
        assert [move for move in self._journal().moves if move.reason == REASON] == []
        throttled = {where: values for where, values in self.world.kafkas.settings.items() if values}
        assert throttled == {}, json.dumps({str(k): v for k, v in throttled.items()})
        for key, state in self.world.kafkas.partitions.items():
            assert not state.adding, f"{key}: {state}"
            assert not state.removing, f"{key}: {state}"
        assert not any(broker["spec"].get("moves") for broker in self.world.all("KafkaBroker"))


def _reachable(before: ProposalPhase, after: ProposalPhase) -> bool:
    """Several passes may lie between two looks."""
    seen, todo = {before}, [before]
    while todo:
        phase = todo.pop()
        for target in {row.target for row in TRANSITIONS if phase in row.sources} - seen:
            seen.add(target)
            todo.append(target)
    return after in seen


TestProposing = pytest.mark.filterwarnings("ignore")(Proposing.TestCase)
TestProposing.settings = bounds(_RUNS, _STEPS)
