"""What the steps about failed and leaving disks share in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from spindle.api.enums import DiskState
from spindle.api.thresholds import UsageLevel
from spindle.disks import correlated_failures
from spindle.disks.acceptance import Loss
from spindle.disks.broker_disks import BrokerDisk, broker_disks
from spindle.disks.usage import DiskUsage, find_disk_usage, recorded_level
from spindle.model import disk_facts, objects
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.state import ClusterState
from spindle.model.view import STORAGE_ERROR, Broker, KafkaView, LogDir
from spindle.model.waiting import Waiting
from spindle.moves.ceilings import ceilings
from spindle.moves.journal import Journal

OUT: Final = frozenset({DiskState.EVACUATED, DiskState.DRAINED, DiskState.REMOVED})
# States of disks whose removal has started, or that hold nothing that needs a place elsewhere.
BEGUN: Final = frozenset({DiskState.DRAINING, DiskState.FAILED, DiskState.EVACUATING, *OUT})
SHUT: Final = frozenset({DiskState.CORDONED, DiskState.FAILED, DiskState.EVACUATING, DiskState.DRAINING})


@dataclass(frozen=True)
class StateRecord:
    """The state of a disk at the end of a pass.

    Attributes:
        since: seconds since the epoch.
    """

    state: DiskState
    since: float
    reason: str
    message: str


@dataclass
class DiskInventory:
    """One pass's view of all disks: what is observed, and five decisions about it.

    `spindle.reconcile.healing` sets the decisions in the order below, each once; what reads one before raises `AttributeError`.

    Attributes:
        journal: None if it could not be read; then nothing is moved, and no disk counts as empty.
        losses: what is lost with which disk at present.
        given_up: (broker, partition) whose loss a user accepted, with no replica left anywhere.
        scaling_in: brokers that the pool has too many of and that may be removed.
        removing: disks that the spec no longer has and that may be removed, with all disks of the brokers in `scaling_in`.
        states: the state of each disk at the end of the pass.
    """

    state: ClusterState
    journal: Journal | None
    losses: tuple[Loss, ...] = field(init=False)
    given_up: frozenset[tuple[int, Key]] = field(init=False)
    scaling_in: frozenset[int] = field(init=False)
    removing: frozenset[tuple[int, str]] = field(init=False)
    states: Mapping[tuple[int, str], StateRecord] = field(init=False)

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute that is not set yet.

        Raises:
            AttributeError: it is set already.
        """
        if name in self.__dict__:
            raise AttributeError(f"{name} is set already")
        super().__setattr__(name, value)

    @cached_property
    def slots(self) -> list[BrokerDisk]:
        """All disks."""
        return broker_disks(self.state)

    @cached_property
    def usages(self) -> Mapping[tuple[int, str], DiskUsage]:
        """Usage of each disk; disks with unknown usage are left out."""
        found = ((slot.key, find_disk_usage(self.state, slot)) for slot in self.slots)
        return {key: fill for key, fill in found if fill is not None}

    def level(self, slot: BrokerDisk) -> UsageLevel:
        """The usage level of a disk; the previous level while the usage is unknown."""
        found = self.usages.get(slot.key)
        if found is not None:
            return found.level
        return recorded_level(slot) if slot.mode == disk_facts.ACTIVE else UsageLevel.NORMAL

    @cached_property
    def by_broker(self) -> Mapping[int, list[BrokerDisk]]:
        """Disks by broker."""
        found: dict[int, list[BrokerDisk]] = {}
        for slot in self.slots:
            found.setdefault(slot.broker, []).append(slot)
        return found

    @cached_property
    def dead_brokers(self) -> frozenset[int]:
        """Brokers on which Kafka cannot run, since every disk is certainly bad or waits to be formatted: all their replicas are on dead dirs."""
        return frozenset(
            broker
            for broker, mine in self.by_broker.items()
            if (used := [slot for slot in mine if slot.mode != disk_facts.ABSENT])
            and any(slot.health.surely_bad for slot in used)
            and all(slot.health.surely_bad or slot.health.blank for slot in used)
            and not any(slot.running or slot.broker_answered for slot in used)
        )

    @cached_property
    def view(self) -> KafkaView:
        """Kafka's view, completed by what is known about dead brokers without asking them."""
        view = self.state.kafka
        brokers = dict(view.brokers or {})
        dead = self.dead_brokers & brokers.keys()
        if not dead:
            return view
        return view.with_brokers(brokers | {broker: self._dead_broker(brokers[broker]) for broker in dead})

    @cached_property
    def for_planning(self) -> KafkaView:
        """`view` for planning with `limit`: each dir counts as fuller by as much as its own limit is lower."""
        if not self._ceilings or not self.view.brokers:
            return self.view
        brokers = {i: self._levelled(broker) for i, broker in self.view.brokers.items()}
        return self.view.with_brokers(brokers)

    @cached_property
    def planning_index(self) -> ReplicaIndex:
        """`for_planning`, indexed."""
        return self.replica_index if self.for_planning is self.view else ReplicaIndex(self.for_planning)

    def _levelled(self, broker: Broker) -> Broker:
        if broker.log_dirs is None:
            return broker
        return replace(broker, log_dirs=tuple(self._lowered(broker.id, d) for d in broker.log_dirs))

    def _lowered(self, broker: int, log_dir: LogDir) -> LogDir:
        if log_dir.total_bytes is None or log_dir.usable_bytes is None:
            return log_dir
        less = self.limit - self.ceiling(broker, log_dir.path)
        return replace(log_dir, usable_bytes=max(0, int(log_dir.usable_bytes - less * log_dir.total_bytes)))

    def _dead_broker(self, broker: Broker) -> Broker:
        dirs = tuple(
            LogDir(slot.path, error=STORAGE_ERROR)
            for slot in self.by_broker[broker.id]
            if slot.mode != disk_facts.ABSENT
        )
        return replace(broker, fenced=True, log_dirs=dirs)

    @cached_property
    def replica_index(self) -> ReplicaIndex:
        """Where replicas are."""
        return ReplicaIndex(self.view)

    @cached_property
    def bad_since(self) -> Mapping[tuple[int, str], float]:
        """Since when each bad disk that was not evacuated is bad: the count behind 'no automatic action on many disks at once'."""
        return {
            slot.key: slot.health.since
            for slot in self.slots
            if slot.health.bad and slot.mode != disk_facts.ABSENT and slot.recorded not in OUT
        }

    @cached_property
    def correlated_failures(self) -> Waiting | None:
        """Why Spindle may not act on bad disks by itself (no automatic action on many disks at once, docs/safety.md); None if it may."""
        share = self.state.spec.disks.automatic_share / 100
        return correlated_failures.may_act_on_failures(self.bad_since, len(self.slots), self.state.now, share)

    def may_act(self, slot: BrokerDisk) -> bool:
        """Whether Spindle may act on a bad disk: by itself, or because a user asked to drain it or accepted its loss."""
        return self.correlated_failures is None or slot.request.drained or slot.given_up

    @cached_property
    def _ceilings(self) -> Mapping[tuple[int, str], float]:
        return ceilings(self.state)

    def ceiling(self, broker: int, path: str) -> float:
        """The share of a dir above which no replica may move in, from its pool's thresholds if it has some (no overfull target, docs/safety.md)."""
        return self._ceilings.get((broker, path), self.state.spec.disks.thresholds.reject_moves / 100)

    @cached_property
    def limit(self) -> float:
        """The same limit for the dirs as `for_planning` shows them: the highest of all limits."""
        return max((self.state.spec.disks.thresholds.reject_moves / 100, *self._ceilings.values()))

    def to_be_emptied(self, slot: BrokerDisk) -> bool:
        """Whether a working disk is to be drained: a user asked for it, or the spec no longer has it."""
        return slot.request.drained or slot.key in self.removing

    def partitions_on(self, slot: BrokerDisk) -> frozenset[Key] | None:
        """Replicas on a disk whose loss is not accepted; None if unknown."""
        on = self.replica_index.on(slot.broker, slot.path)
        return None if on is None else on - self.given_up_on(slot.broker)

    def given_up_on(self, broker: int) -> frozenset[Key]:
        """Partitions of a broker whose loss is accepted."""
        return frozenset(key for at, key in self.given_up if at == broker)

    def incoming_to(self, slot: BrokerDisk) -> frozenset[Key]:
        """Partitions that are moving to this disk."""
        moves = self.journal.moves if self.journal is not None else ()
        return frozenset(m.key for m in moves if (m.target, m.to_dir) == (slot.broker, slot.path))

    def object_name(self, slot: BrokerDisk) -> str:
        """The object of a waiting entry about a disk."""
        return f"KafkaBroker/{objects.name(self.state.brokers[slot.broker])}/{slot.name}"

    def others(self, slot: BrokerDisk) -> list[BrokerDisk]:
        """The broker's other disks that it could run with."""
        return [
            other
            for other in self.by_broker[slot.broker]
            if other.name != slot.name and other.mode == disk_facts.ACTIVE and not other.health.bad
        ]

    def state_of(self, slot: BrokerDisk) -> DiskState:
        """The present state of a disk."""
        return self.states[slot.key].state

    def in_states(self, *states: DiskState) -> list[BrokerDisk]:
        """Disks that are in one of these states now."""
        if self._present.isdisjoint(states):
            return []
        return [slot for slot in self.slots if self.state_of(slot) in states]

    @cached_property
    def _present(self) -> frozenset[DiskState]:
        return frozenset(record.state for record in self.states.values())
