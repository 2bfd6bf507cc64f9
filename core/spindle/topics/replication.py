"""Changes of the replication factor of topics: replicas that are added, replicas that leave, and what waits.

Both are requests to the executor of moves. Each pass compares Kafka with the specs afresh, so a change that was interrupted, or that is taken back half-way, needs no
record here: an addition that is not wanted any more is cancelled, and a replica that has left already is added again like any other.
Replicas that Spindle dropped for a while count as there, and their partitions are left to healing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from spindle.config.release import version_to_run
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.unavailable import on_closed_node, unavailable
from spindle.model.view import Partition
from spindle.model.waiting import Waiting, counted, some
from spindle.moves.journal import GROW, Journal, Move, RemovedReplica
from spindle.moves.kafka_index import KafkaIndex, PartitionKey
from spindle.moves.missing_replicas import meant
from spindle.moves.removals import may_remove
from spindle.moves.requests import MoveRequests
from spindle.topics.observed import ObservedTopics
from spindle.topics.replica_choice import Grower, HeldReplica, choose_leaver
from spindle.topics.rooms import rooms_of
from spindle.topics.topic_pass import CHANGING, TopicVerdict
from spindle.topics.wanted import MIN_ISR, WantedTopic, default_min_isr, topic_name, wanted

_ACTION: Final = "ChangeReplicas"
_MOST: Final = 200  # additions that a pass asks for: far more than may run at a time


@dataclass(frozen=True)
class ReplicaChanges:
    """What a pass does about replication factors.

    Attributes:
        verdicts: topic → what its KafkaTopic says; topics whose replication factor is as asked for are left out.
    """

    requests: MoveRequests = field(default_factory=MoveRequests)
    verdicts: Mapping[str, TopicVerdict] = field(default_factory=dict)


def change_replicas(
    state: ClusterState,
    builder: PlanBuilder,
    inventory: DiskInventory,
    automatic: MoveRequests,
    journal: Journal | None,
) -> ReplicaChanges:
    """Compare the replication factors of topics with their KafkaTopics.

    Args:
        state, builder, inventory: of this pass.
        automatic: what healing, thresholds and repairs ask for; it comes first.
        journal: None if it cannot be read; then nothing is changed.
    """
    observed = ObservedTopics(state.kafka)
    if journal is None or not observed.known or "kafkatopics" in state.snap.unknown:
        return ReplicaChanges()
    found = _Changes(state, builder, inventory, automatic, journal, observed)
    kept: set[str] = set()  # topics whose additions continue
    version = version_to_run(state)
    for name, topic in owners_of(state).items():
        wish = (topic.get("spec") or {}).get("replicas")
        if wish is None or _has(observed.partitions(name), wish):
            continue
        want = wanted(topic, version)
        if want.problems:
            kept.add(name)
        elif _on_record(topic, observed.id(name)):
            found.compare(topic, want, wish)
    stopped = {
        move.key
        for move in journal.moves
        if move.reason == GROW
        and not move.within
        and move.topic not in kept
        and move.key not in found.growing
    }
    moves, removals = tuple([*found.moves, *found.held_up][:_MOST]), tuple(found.removals)
    return ReplicaChanges(
        MoveRequests(moves=moves, removals=removals, withdrawn=frozenset(stopped)), found.verdicts
    )


def owners_of(state: ClusterState) -> dict[str, SnapshotObject]:
    """Topic → the KafkaTopic that has it: of several, the oldest one that is not being deleted."""
    found: dict[str, SnapshotObject] = {}
    for topic in sorted(state.snap.topics, key=age):
        if not objects.deleting(topic):
            found.setdefault(topic_name(topic), topic)
    return found


def age(topic: SnapshotObject) -> tuple[str, str]:
    """Sort key: the older of two KafkaTopics comes first."""
    return str(topic["metadata"].get("creationTimestamp") or ""), objects.uid(topic)


def _has(partitions: Sequence[Partition], replicas: int) -> bool:
    """Whether each partition has so many replicas, and none is being added."""
    return all(len(partition.replicas) == replicas and not partition.adding for partition in partitions)


def _on_record(topic: SnapshotObject, found: str | None) -> bool:
    """Whether an existing topic is the one whose id the KafkaTopic has on record."""
    return found is not None and (topic.get("status") or {}).get("topicId") == found


class _Changes:
    """The changes of one pass."""

    def __init__(
        self,
        state: ClusterState,
        builder: PlanBuilder,
        inventory: DiskInventory,
        automatic: MoveRequests,
        journal: Journal,
        observed: ObservedTopics,
    ) -> None:
        self._state, self._builder, self._inventory = state, builder, inventory
        self._automatic, self._journal, self._observed = automatic, journal, observed
        self._moving = {move.key: move for move in journal.moves}
        self._dropped = {entry.key for entry in (*journal.dropped, *automatic.shrinks)}
        self._recorded: dict[PartitionKey, list[RemovedReplica]] = {}
        for each in journal.removed:
            self._recorded.setdefault(each.key, []).append(each)
        self._freed: Counter[tuple[int, str]] = Counter()
        for entry in journal.cleanups:
            self._freed[entry.broker, entry.dir] += entry.bytes
        self.moves: list[Move] = []
        self.held_up: list[
            Move
        ] = []  # of partitions that cannot get a replica now: they come last, or they would delay all others
        self.removals: list[RemovedReplica] = []
        self.growing: set[PartitionKey] = set()
        self.verdicts: dict[str, TopicVerdict] = {}

    @cached_property
    def _look(self) -> KafkaIndex:
        return KafkaIndex(self._state.kafka, self._automatic.closed, self._automatic.bad)

    @cached_property
    def _grower(self) -> Grower:
        rooms = rooms_of(self._inventory, self._automatic, self._journal)
        # A broker with an offline dir may have had the partition there, and is about to restart without it.
        rooms.brokers = {i: room for i, room in rooms.brokers.items() if not self._look.offline(i)}
        racks = {i: str(broker["spec"].get("rack") or "") for i, broker in self._state.staying.items()}
        return Grower(rooms, racks)

    @cached_property
    def _down(self) -> frozenset[int]:
        """Brokers that are down, are being taken down, or may be evicted at any moment."""
        state = self._state
        return unavailable(state) | {i for i in state.brokers if on_closed_node(state, i)}

    @cached_property
    def _restarting(self) -> frozenset[int]:
        """Brokers that Spindle restarts: their replicas are back in a moment, so they leave no sooner than others."""
        return frozenset(int(mark["nodeId"]) for mark in self._state.unavailable_records)

    @cached_property
    def _meant(self) -> Mapping[PartitionKey, tuple[int, ...]]:
        return meant(self._journal, self._state.kafka.partition_index.by_key)

    def _factor(self, partition: Partition) -> int:
        """The replication factor of a partition; replicas that were dropped for a while count."""
        return max(partition.recorded_rf, len(self._meant.get((partition.topic, partition.index), ())))

    def compare(self, of: SnapshotObject, want: WantedTopic, wish: int) -> None:
        """Ask for what the topic of one KafkaTopic needs."""
        topic, name, partitions = objects.name(of), want.name, self._observed.partitions(want.name)
        few = [p for p in partitions if self._factor(p) < wish]
        many = [p for p in partitions if self._factor(p) > wish]
        self.growing |= {(name, p.index) for p in few}
        if not (few or many):
            return
        refused = self._too_few(of, want, wish) if many else None
        if refused is None and few and wish > len(self._state.staying):
            refused = self._not_placeable(topic, wish, few)
        if refused is not None:
            self.verdicts[name] = refused
            return
        unplaced, pending = list(self._grow(name, few)), self._reduce(name, many)
        waits = [self._not_placeable(topic, wish, unplaced)] if unplaced else []
        waits += [self._told(topic, refusal.reason, *_several(refusal, more)) for refusal, more in pending]
        copies = sum(1 for move in self._journal.moves if move.topic == name and move.reason == GROW)
        self.verdicts[name] = (
            waits[0]
            if waits and not copies
            else _progress(name, len(partitions), len(few) + len(many), wish, copies)
        )

    def _too_few(self, topic: SnapshotObject, want: WantedTopic, wish: int) -> TopicVerdict | None:
        """Whether so few replicas could not be written to with acks=all, now or as soon as the topic has the settings of its spec."""
        now = (self._state.kafka.min_isr or {}).get(want.name)
        if now is None:
            return None
        least = self._asked_min_isr(topic, want, now)
        if wish >= max(now, least):
            return None
        if least <= wish:
            return TopicVerdict(CHANGING, f"{MIN_ISR} of topic {want.name} is lowered first.")
        return self._told(
            objects.name(topic),
            "ReplicasBelowMinIsr",
            f"{MIN_ISR} of topic {want.name} {'is' if least == now else 'will be'} {least}, and spec.replicas is {wish}: no producer with acks=all could write.",
            f"Set spec.replicas to {least} or more, or {MIN_ISR} in spec.config to {max(1, wish - 1)}.",
        )

    def _asked_min_isr(self, topic: SnapshotObject, want: WantedTopic, now: int) -> int:
        """The ``min.insync.replicas`` that a topic gets: of its spec, or the cluster's where the spec no longer has one that Spindle set."""
        if (asked := want.spec.config.get(MIN_ISR)) is not None:
            return int(asked)
        spec = self._state.spec
        removed = MIN_ISR in ((topic.get("status") or {}).get("config") or ())
        return default_min_isr(spec.config, self._state.broker_count) if removed else now

    # Additions

    def _grow(self, name: str, few: Sequence[Partition]) -> Iterator[Partition]:
        """Ask for one more replica of each partition; yields those for which there is no place."""
        due = [p for p in few if (name, p.index) not in self._moving.keys() | self._dropped]
        if not due or len(self.moves) >= _MOST:
            return
        held_by: Counter[int] = Counter()
        dirs: Counter[tuple[int, str]] = Counter()
        for partition in self._observed.partitions(name):
            held_by.update(partition.replicas)
            for broker in partition.replicas:
                if (held := self._look.standing(broker, (name, partition.index))) is not None:
                    dirs[broker, held.path] += 1
        able = [p for p in due if p.leader is not None and not (p.adding or p.removing)]
        others = [p for p in due if p.leader is None or p.adding or p.removing]
        for group, moves in ((able, self.moves), (others, self.held_up)):
            for partition in group[: _MOST - len(moves)]:
                size = self._look.size((name, partition.index))
                chosen = self._grower.choose(partition.replicas, size, held_by, dirs)
                if chosen is None:
                    yield partition
                    continue
                broker, path = chosen
                moves.append(Move(name, partition.index, None, None, broker, path, size, GROW))

    def _not_placeable(self, topic: str, wish: int, few: Sequence[Partition]) -> TopicVerdict:
        staying = self._state.staying
        racks = len({broker["spec"].get("rack") for broker in staying.values()})
        several = f", spread over {counted(min(wish, racks), 'rack')}" if racks > 1 else ""
        one = len(few) == 1
        return self._told(
            topic,
            "ReplicasNotPlaceable",
            f"{counted(len(few), 'partition')} of topic {few[0].topic} {'gets' if one else 'get'} no further replica now: {counted(wish, 'replica')}{several} need as many brokers that run and "
            f"have a log dir with room for {'it' if one else 'them'} ({some([p.name for p in few])}). The cluster has {counted(len(staying), 'broker')}.",
            f"Start or add brokers, free space, or set spec.replicas of the KafkaTopic to {min(p.recorded_rf for p in few)}.",
        )

    # Removals

    def _reduce(self, name: str, many: Sequence[Partition]) -> list[tuple[Waiting, list[str]]]:
        """Ask for the removal of one replica of each partition; returns why some have to wait, and their names."""
        held: dict[str, tuple[Waiting, list[str]]] = {}
        if not many:
            return []
        of_topic = Counter(b for p in self._observed.partitions(name) for b in p.replicas)
        for partition in many:
            key = name, partition.index
            begun = [e for e in self._recorded.get(key, ()) if e.broker in partition.replicas]
            if begun:
                self.removals.append(begun[-1])
                of_topic[begun[-1].broker] -= 1
            elif key not in self._moving.keys() | self._dropped:
                broker = choose_leaver([self._held(partition, b, of_topic[b]) for b in partition.replicas])
                refusal = may_remove(self._look, partition, broker, self._down)
                if refusal is None:
                    self.removals.append(RemovedReplica(*key, broker))
                    self._free(partition, broker)
                    of_topic[broker] -= 1
                else:
                    held.setdefault(refusal.reason, (refusal, []))[1].append(partition.name)
        return list(held.values())

    def _held(self, partition: Partition, broker: int, of_topic: int) -> HeldReplica:
        look, key = self._look, (partition.topic, partition.index)
        held = look.standing(broker, key)
        total = held.total_bytes if held is not None else None
        fullness, closed = 0.0, held is None or not look.open(broker, held)
        if held is not None and total and held.usable_bytes is not None:
            fullness = (total - held.usable_bytes - self._freed[broker, held.path]) / total
        return HeldReplica(
            broker,
            self._observed.racks.get(broker, f"of broker {broker}"),
            in_sync=broker in self._restarting or (broker in partition.isr and look.live(broker, partition)),
            unwanted=closed or broker not in self._state.staying,
            of_topic=of_topic,
            fullness=fullness,
        )

    def _free(self, partition: Partition, broker: int) -> None:
        key = partition.topic, partition.index
        if (held := self._look.standing(broker, key)) is not None:
            self._freed[broker, held.path] += held.replicas[key]

    def _told(self, topic: str, reason: str, message: str, way_out: str) -> TopicVerdict:
        """An entry of the cluster's status, and what the KafkaTopic says."""
        self._builder.wait(Waiting(_ACTION, f"KafkaTopic/{topic}", reason, message, way_out))
        return TopicVerdict(reason, f"{message} To resolve: {way_out}")


def _progress(name: str, partitions: int, differing: int, wish: int, copies: int) -> TopicVerdict:
    done = partitions - differing
    are = "is" if copies == 1 else "are"
    running = f" {copies} {'copy' if copies == 1 else 'copies'} {are} in progress." if copies else ""
    return TopicVerdict(
        CHANGING,
        f"{done} of {counted(partitions, 'partition')} of topic {name} {'has' if done == 1 else 'have'} {counted(wish, 'replica')}.{running}",
    )


def _several(refusal: Waiting, named: Sequence[str]) -> tuple[str, str]:
    """Message and way out of a refusal that holds for several partitions."""
    same = f" The same applies to {some(named[1:])}." if len(named) > 1 else ""
    return f"{refusal.message}{same}", refusal.unblocked_by
