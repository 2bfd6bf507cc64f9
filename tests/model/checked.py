"""The model cluster with the safety rules watched from outside: every action is looked at as it is carried out."""

import copy
from dataclasses import dataclass, field
from typing import Any

from spindle.api import names
from spindle.model.actions import Action, Delete, Evict, Reassign, UnregisterBroker
from tests.model.failing import Failing
from tests.model.kafka import CAPACITY, SIZE, Key, State, Volume


@dataclass
class Checked(Failing):
    """Collects what breaks a rule, as sentences.

    Attributes:
        broken: rule numbers with what happened.
        factors: how many replicas each partition should have.
    """

    broken: list[str] = field(default_factory=list)
    factors: dict[Key, int] = field(default_factory=dict)

    def act(self, action: Action) -> None:
        match action:
            case Evict():
                self._before_down(action.pod, fence=False)
            case Delete(kind="Pod"):
                self._before_down(action.name, fence=action.grace_seconds is not None)
            case Delete(kind="PersistentVolumeClaim"):
                self._before_claim_goes(action.name)
            case UnregisterBroker():
                self._before_forgotten(action.broker)
            case Reassign():
                for topic, index, replicas in action.assignments:
                    self._before_reassign((topic, index), replicas)
        super().act(action)

    def _before_down(self, pod_name: str, *, fence: bool) -> None:
        """Rule 2: nothing falls under its minimum by our hand; a hung broker may be stopped where nobody could write anyway."""
        pod = self.objects.get(("Pod", pod_name))
        if pod is None or pod["metadata"]["labels"].get(names.LABEL_ROLE) != names.ROLE_BROKER:
            return
        broker = int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
        process = self.kafkas.running.get(broker)
        if process is None:
            return
        for key, state in self.kafkas.partitions.items():
            held = self.kafkas.log(key, broker)
            if broker not in state.isr or held is None:
                continue
            if fence and (held[0].state == "hung" or state.leader == broker):
                continue
            left = [b for b in state.isr if b != broker and self.kafkas.holds(key, b)]
            before = [b for b in state.isr if self.kafkas.holds(key, b)]
            least = self.kafkas.min_isr
            factor = len(
                set(state.replicas) - set(state.adding)
            )  # what is on its way is not what it is meant to have
            factor = max(factor, self.factors.get(key, 0))  # nor is what Spindle left of it for a while
            if len(left) < least <= len(before) and factor > least:
                self.broken.append(f"rule 2: {key} has {len(left)} in sync without broker {broker}")

    def _before_claim_goes(self, name: str) -> None:
        """Rule 5: nothing stands on its disk, and the volume is kept."""
        claim = self.objects.get(("PersistentVolumeClaim", name))
        bound = (claim or {}).get("spec", {}).get("volumeName")
        if claim is None or not bound or claim["status"]["phase"] != "Bound":
            return
        if self.get("PersistentVolume", bound)["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
            self.broken.append(f"rule 5: {name} goes while its volume is not set to Retain")
        broker = int(claim["metadata"]["annotations"][names.ANN_NODE_ID])
        for key in self._standing(broker, self.disk_on(bound)):
            if key not in self.given_up:
                self.broken.append(f"rule 5: {key} stands on the disk of {name}, which is deleted")

    def _before_forgotten(self, broker: int) -> None:
        """Rule 5: nothing stands on it, and it does not run."""
        if broker in self.kafkas.running:
            self.broken.append(f"rule 5: broker {broker} is unregistered while it runs")
        for key, state in self.kafkas.partitions.items():
            if broker in {*state.replicas, *state.isr, *state.elr}:
                self.broken.append(f"rule 5: {key} stands on broker {broker}, which is unregistered")

    def _before_reassign(self, key: Key, replicas: tuple[int, ...] | None) -> None:
        state = self.kafkas.partitions.get(key)
        if state is None or replicas is None:
            return
        adding = [b for b in replicas if b not in state.replicas]
        removing = [b for b in state.replicas if b not in replicas]
        if len(adding) > 1 or len(removing) > 1:
            self.broken.append(f"rule 6: {key} goes from {state.replicas} to {replicas} at once")
        if state.adding and set(adding) - set(state.adding):
            self.broken.append(f"rule 6: {key} is being reassigned already")
        live = [b for b in state.replicas if self.kafkas.holds(key, b) and b not in state.adding]
        if not adding and removing:
            self._before_shrink(key, state, replicas)
        elif self._racks(replicas) < self._racks(live):
            self.broken.append(f"rule 3: {key} on {replicas} has fewer racks than on {live}")
        for broker in adding:
            self._before_add(key, state, broker)

    def _before_shrink(self, key: Key, state: State, replicas: tuple[int, ...]) -> None:
        able = [b for b in replicas if b in state.isr and self.kafkas.holds(key, b)]
        if len(able) < max(1, self.kafkas.min_isr):
            self.broken.append(f"rule 5: {key} shrinks to {replicas} with only {able} in sync")

    def _before_add(self, key: Key, state: State, broker: int) -> None:
        if broker in state.isr or broker in state.elr:
            self.broken.append(f"rule 1: an empty replica of {key} on broker {broker}, which may lead it")
        process = self.kafkas.running.get(broker)
        path = process.preferred.get(key) if process else None
        volume = process.live().get(path or "") if process else None
        if volume is None:
            return  # not placed, or gone in this very moment
        coming = [
            other
            for other, s in self.kafkas.partitions.items()
            if broker in s.adding
            and process is not None
            and process.preferred.get(other) == path
            and other not in volume.logs
        ]
        there = [k for k in volume.logs if broker in self.kafkas.partitions[k].replicas]
        size = sum(self.kafkas.sizes.get(topic, SIZE) for topic, _ in {*there, *coming, key})
        if volume.others + size > 0.9 * CAPACITY:
            self.broken.append(f"rule 4: {path} of broker {broker} would be overfull")

    def _racks(self, brokers: Any) -> int:
        return len({self.kafkas.racks.get(b) for b in brokers})

    def _run(self, pod: dict[str, Any]) -> None:
        broker = int(pod["metadata"]["labels"][names.LABEL_NODE_ID])
        mounted = {volume for _, volume in self._disks(pod)}
        for uid, process in self.processes.items():
            if uid != pod["metadata"]["uid"] and mounted & {v.name for v in process.dirs.values() if v}:
                self.broken.append(f"rule 7: two processes on a log dir of broker {broker}")
        super()._run(pod)
        process = self.processes[pod["metadata"]["uid"]]
        # A dir that the process does not know at all must not be where replicas of it stand.
        for disk in self.get("KafkaBroker", names.broker_name("demo", broker))["spec"]["disks"]:
            claim = self.objects.get(("PersistentVolumeClaim", disk["claim"])) or {"spec": {}}
            if names.log_dir(disk["name"]) in process.dirs or not claim["spec"].get("volumeName"):
                continue
            volume = self.disk(broker, disk["name"])
            for key in self._standing(broker, volume):
                if key not in self.given_up:
                    self.broken.append(
                        f"rule 5: {key} stands on {disk['name']} of broker {broker}, which runs without it"
                    )

    given_up: set[Key] = field(default_factory=set)

    def _standing(self, broker: int, volume: Volume) -> list[Key]:
        """Partitions whose replica on this broker the controller has on this very disk."""
        return [
            key
            for key, state in self.kafkas.partitions.items()
            if volume.id is not None and broker in state.replicas and state.dirs.get(broker) == volume.id
        ]

    def fork(self) -> "Checked":
        """The same once more, to go another way from here."""
        return copy.deepcopy(self)
