"""What the steps that look after bad disks share in one pass."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from spindle.cluster.view import STORAGE_ERROR, Broker, KafkaView, LogDir
from spindle.cluster.waiting import Waiting
from spindle.disks import correlated_failures, facts
from spindle.disks.lifecycle import DiskState
from spindle.healing.acceptance import Loss
from spindle.healing.replica_index import Key, ReplicaIndex
from spindle.moves.journal import Journal
from spindle.reconcile import objects
from spindle.reconcile.broker_disks import BrokerDisk, broker_disks
from spindle.reconcile.disk_usage import DiskUsage, ceilings, find_disk_usage, recorded_level
from spindle.reconcile.state import ClusterState
from spindle.rolling.deadlock import Blocked
from spindle.thresholds.bounds import UsageLevel

OUT: Final = frozenset({DiskState.EVACUATED, DiskState.DRAINED, DiskState.REMOVED})


@dataclass(frozen=True)
class StateRecord:
    """Where a disk is in its life at the end of a pass.

    Attributes:
        since: seconds since the epoch.
    """

    state: DiskState
    since: float
    reason: str
    message: str


@dataclass
class DiskInventory:
    """One pass's view of all disks.

    Attributes:
        journal: None if it could not be read: then nothing is moved, and nothing counts as empty.
        given_up: (broker, partition) that a person gave up, with no copy left anywhere.
        losses: what is lost with which disk at the moment.
        scaling_in: brokers that their pool has no more room for, and that may go.
        removing: disks that the spec has no more and that may go, all of those brokers' included.
        states: where each disk is, worked out in the course of the pass.
        blocked: brokers whose dead disks cannot be given up for now, because other partitions cannot spare them or lack copies.
    """

    state: ClusterState
    journal: Journal | None
    given_up: frozenset[tuple[int, Key]] = frozenset()
    losses: tuple[Loss, ...] = ()
    scaling_in: frozenset[int] = frozenset()
    removing: frozenset[tuple[int, str]] = frozenset()
    states: dict[tuple[int, str], StateRecord] = field(default_factory=dict)
    blocked: dict[int, Blocked] = field(default_factory=dict)

    @cached_property
    def slots(self) -> list[BrokerDisk]:
        """All disks."""
        return broker_disks(self.state)

    @cached_property
    def usages(self) -> Mapping[tuple[int, str], DiskUsage]:
        """How full each disk is; those of which nobody says are left out."""
        found = ((slot.key, find_disk_usage(self.state, slot)) for slot in self.slots)
        return {key: fill for key, fill in found if fill is not None}

    def level(self, slot: BrokerDisk) -> UsageLevel:
        """How far up the ladder of full disks a disk is; as far as it was, if nobody says now."""
        found = self.usages.get(slot.key)
        if found is not None:
            return found.level
        return recorded_level(slot) if slot.mode == facts.ACTIVE else UsageLevel.NORMAL

    @cached_property
    def by_broker(self) -> Mapping[int, list[BrokerDisk]]:
        """Disks by broker."""
        found: dict[int, list[BrokerDisk]] = {}
        for slot in self.slots:
            found.setdefault(slot.broker, []).append(slot)
        return found

    @cached_property
    def dead_brokers(self) -> frozenset[int]:
        """Brokers of which every disk is surely bad, so that Kafka cannot run there: what they hold is on dead dirs."""
        return frozenset(
            broker
            for broker, mine in self.by_broker.items()
            if (used := [slot for slot in mine if slot.mode != facts.ABSENT])
            and all(slot.health.surely_bad for slot in used)
            and not any(slot.running or slot.broker_answered for slot in used)
        )

    @cached_property
    def view(self) -> KafkaView:
        """What Kafka says, and of dead brokers what is known without asking them."""
        brokers = dict(self.state.kafka.brokers or {})
        for broker in self.dead_brokers & brokers.keys():
            brokers[broker] = self._dead_broker(brokers[broker])
        return replace(self.state.kafka, brokers=brokers) if brokers else self.state.kafka

    @cached_property
    def for_planning(self) -> KafkaView:
        """`view` for whoever plans with `limit`: each dir counts as so much fuller as its own ceiling is below that."""
        if not self._ceilings or not self.view.brokers:
            return self.view
        brokers = {i: self._levelled(broker) for i, broker in self.view.brokers.items()}
        return replace(self.view, brokers=brokers)

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
            if slot.mode != facts.ABSENT
        )
        return replace(broker, fenced=True, log_dirs=dirs)

    @cached_property
    def replica_index(self) -> ReplicaIndex:
        """Where replicas stand."""
        return ReplicaIndex(self.view)

    @cached_property
    def bad_since(self) -> Mapping[tuple[int, str], float]:
        """Since when each disk that is bad and was not evacuated is bad: what rule 9 counts."""
        return {
            slot.key: slot.health.since
            for slot in self.slots
            if slot.health.bad and slot.mode != facts.ABSENT and slot.recorded not in OUT
        }

    @cached_property
    def correlated_failures(self) -> Waiting | None:
        """Rule 9: why nothing may be done by itself about bad disks; None if something may."""
        share = self.state.spec.disks.automatic_share / 100
        return correlated_failures.may_act_on_failures(self.bad_since, len(self.slots), self.state.now, share)

    def may_act(self, slot: BrokerDisk) -> bool:
        """Whether something may be done about a bad disk: by itself, or because a person wants it to be emptied, or gives it up."""
        return self.correlated_failures is None or slot.request.drained or slot.given_up

    @cached_property
    def _ceilings(self) -> Mapping[tuple[int, str], float]:
        return ceilings(self.state)

    def ceiling(self, broker: int, path: str) -> float:
        """Rule 4: the share of a dir above which nothing may be moved in, by its pool's own thresholds if it has some."""
        return self._ceilings.get((broker, path), self.state.spec.disks.thresholds.reject_moves / 100)

    @cached_property
    def limit(self) -> float:
        """Rule 4 for the dirs as `for_planning` shows them: the highest of all ceilings."""
        return max((self.state.spec.disks.thresholds.reject_moves / 100, *self._ceilings.values()))

    def to_be_emptied(self, slot: BrokerDisk) -> bool:
        """Whether a disk is to be emptied though it works: a person wants that, or the spec has it no more."""
        return slot.request.drained or slot.key in self.removing

    def partitions_on(self, slot: BrokerDisk) -> frozenset[Key] | None:
        """What stands on a disk and is not given up; None if that is not known."""
        on = self.replica_index.on(slot.broker, slot.path)
        return None if on is None else on - self.given_up_on(slot.broker)

    def given_up_on(self, broker: int) -> frozenset[Key]:
        """Partitions of a broker that were given up."""
        return frozenset(key for at, key in self.given_up if at == broker)

    def incoming_to(self, slot: BrokerDisk) -> frozenset[Key]:
        """Partitions of which a move to this disk is under way."""
        moves = self.journal.moves if self.journal is not None else ()
        return frozenset(m.key for m in moves if (m.target, m.to_dir) == (slot.broker, slot.path))

    def object_name(self, slot: BrokerDisk) -> str:
        """What a wait about a disk regards."""
        return f"KafkaBroker/{objects.name(self.state.brokers[slot.broker])}/{slot.name}"

    def others(self, slot: BrokerDisk) -> list[BrokerDisk]:
        """The broker's other disks that it could run with."""
        return [
            other
            for other in self.by_broker[slot.broker]
            if other.name != slot.name and other.mode == facts.ACTIVE and not other.health.bad
        ]

    def state_of(self, slot: BrokerDisk) -> DiskState:
        """Where a disk is in its life now."""
        return self.states[slot.key].state

    def in_states(self, *states: DiskState) -> list[BrokerDisk]:
        """Disks that are in one of these states now."""
        return [slot for slot in self.slots if self.state_of(slot) in states]
