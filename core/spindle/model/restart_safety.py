"""No voluntary take-down of a broker leaves a partition below min.insync.replicas (docs/safety.md)."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from copy import copy

from spindle.model.blockers import Blocker
from spindle.model.restart_verdict import RestartVerdict
from spindle.model.view import Broker, KafkaView, Partition
from spindle.model.waiting import Waiting, counted, some

_RULE = 2
BELOW_MIN_ISR = "WouldBeUnderMinIsr"

TopicPartition = tuple[str, int]  # topic, partition


class RestartSafety:
    """One observation of Kafka, indexed by broker, so that many brokers can be checked cheaply.

    How "on a live log dir" is determined: metadata and log dirs are not read at the same moment, and each question uses the
    interpretation that permits less.

    - Is the broker in question in this ISR? Only a replica that is *known* to be lost is excluded: its broker answered, has an offline
      dir, shows the replica on no live one, and the partition has no leader. (While there is a leader, the controller removes replicas on
      failed dirs from the ISR by itself; one that is still in it may be a log that was created after the dirs were read.) A broker that
      does not answer counts as live.
    - Does another ISR member keep the partition available? Only if it is registered, not fenced, and shows the replica on a live dir. A
      broker that does not answer does not count: it may be hung, and stays in the ISR meanwhile.
    """

    def __init__(
        self, view: KafkaView, before: Mapping[TopicPartition, tuple[int, ...]] | None = None
    ) -> None:
        """Index a view.

        Args:
            view: one observation of Kafka.
            before: (topic, partition) → its intended assignment, where Spindle itself temporarily dropped replicas.
        """
        self._view = view
        self.before: Mapping[TopicPartition, tuple[int, ...]] = before or {}
        self._unknown = _what_is_unknown(view)
        self._brokers: Mapping[int, Broker] = view.brokers or {}
        self._index = view.partition_index

    def meaning(self, before: Mapping[TopicPartition, tuple[int, ...]] | None) -> "RestartSafety":
        """The same view, without indexing it again, for other intended assignments (``before``)."""
        other = copy(self)
        other.before = before or {}
        return other

    def may_go_down(self, broker_id: int, down: AbstractSet[int] = frozenset()) -> RestartVerdict:
        """Whether a broker may be taken down now.

        A broker that is in no ISR may: nothing depends on it. So may a broker that is known to be fenced and leads nothing: for clients it
        is down already.

        Args:
            broker_id: the broker to take down.
            down: brokers that are down or being taken down, whether or not Kafka has noticed yet.
        """
        if self._unknown:
            return RestartVerdict(
                Waiting.refused(
                    rule=_RULE,
                    reason="KafkaUnknown",
                    message=f"Spindle does not take broker {broker_id} down, because it does not know which partitions need it: {self._unknown}.",
                    unblocked_by="Nothing to do: Spindle continues when Kafka answers again.",
                )
            )
        standing = [
            p for p in self._index.in_isr(broker_id) if p.leader is not None or not self._lost(broker_id, p)
        ]
        # A replica that is being added on a failed dir needs the restart and is not disturbed by it.
        arriving = [p for p in self._index.arriving.get(broker_id, ()) if not self._lost(broker_id, p)]
        broker = self._brokers.get(broker_id)
        if broker is not None and broker.fenced and not any(p.leader == broker_id for p in standing):
            return RestartVerdict()
        if arriving:
            return RestartVerdict(_reassigning(broker_id, arriving))
        return self._without(broker_id, standing, down | {broker_id})

    def blockers(
        self, broker_id: int, partitions: Collection[str], down: AbstractSet[int], *, all_back: bool = False
    ) -> tuple[Blocker, ...]:
        """What must happen before a broker can be taken down, for each of these partitions; those that only need to catch up are left out.

        Args:
            broker_id: the broker to take down.
            partitions: names of the partitions that need it.
            down: brokers that are down or being taken down.
            all_back: whether every other replica must be back, not only min.insync.replicas of them.
        """
        found, named, down = [], frozenset(partitions), down | {broker_id}
        for p in self._view.partitions or ():
            min_isr = (self._view.min_isr or {}).get(p.topic)
            if p.name not in named or min_isr is None:
                continue
            members = {*p.replicas, *self.before.get((p.topic, p.index), ())} - {broker_id}
            able = {b for b in set(p.replicas) & members - down if b in p.adding or self._holds(b, p)}
            missing = frozenset(members - able)
            needs = len(missing) if all_back else min_isr - len(able)
            if needs > 0:
                found.append(Blocker(p.name, missing, needs))
        return tuple(found)

    def left_alone(self, broker_id: int, partitions: Collection[str], down: AbstractSet[int]) -> list[str]:
        """Those of these partitions without another in-sync replica on a live dir: without the broker they have no leader."""
        others, named = down | {broker_id}, frozenset(partitions)
        return [
            p.name
            for p in self._index.in_isr(broker_id)
            if p.name in named and not self._enough(p, set(p.isr) - set(p.adding) - others, 1)
        ]

    def in_sync(self, broker_id: int) -> bool | None:
        """Whether a broker is unfenced and back in every ISR that it belongs to; None if that is not known.

        Replicas that a reassignment is adding do not count. A replica on a failed dir does.
        """
        if self._view.error or self._view.brokers is None or self._view.partitions is None:
            return None
        broker = self._brokers.get(broker_id)
        if broker is None or broker.fenced or self._index.lagging.get(broker_id):
            return False
        return None if broker.fenced is None else True

    def behind(self, broker_id: int) -> tuple[str, ...]:
        """Partitions (``topic-0``) of a broker in whose ISR it is missing; replicas that are being added do not count."""
        return tuple(sorted(partition.name for partition in self._index.lagging.get(broker_id, ())))

    def in_sync_as_far_as_possible(self, broker_id: int, hung: int | None = None) -> bool | None:
        """Like `in_sync`, but without replicas that are known to be lost: waiting does not bring them back.

        A broker with a failed disk never gets fully in sync by itself, and a replica cannot catch up while its partition has no leader.
        Used to decide whether a restart is complete.

        Args:
            broker_id: the broker in question.
            hung: a broker from which no replica can catch up, because a disk of it does not answer: replicas that it leads do not count.
        """
        if self._view.error or self._view.brokers is None or self._view.partitions is None:
            return None
        broker = self._brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        lagging = any(
            p.leader not in (None, hung) and not self._lost(broker_id, p)
            for p in self._index.lagging.get(broker_id, ())
        )
        if lagging:
            return False
        return None if broker.fenced is None else True

    def _without(self, broker_id: int, standing: list[Partition], down: AbstractSet[int]) -> RestartVerdict:
        """The verdict on the partitions with the broker in their ISR."""
        named, unknown, short = [], [], []
        unasked: set[int] = set()
        for partition in standing:
            min_isr = (self._view.min_isr or {}).get(partition.topic)
            if min_isr is None:
                unknown.append(partition.name)
            elif self._meant(partition) <= min_isr:
                named.append(partition.name)
            elif not self._keeps(partition, min_isr, down):
                short.append(partition.name)
                unasked.update(self._unasked(partition, down))
        if unknown:
            return RestartVerdict(_min_isr_unknown(broker_id, sorted(unknown)), tuple(sorted(named)))
        if short:
            return RestartVerdict(
                _below_min_isr(broker_id, sorted(short), sorted(unasked)), tuple(sorted(named))
            )
        return RestartVerdict(named=tuple(sorted(named)))

    def _meant(self, partition: Partition) -> int:
        """Intended number of replicas of a partition: more than its assignment while Spindle has temporarily dropped some."""
        return max(partition.recorded_rf, len(self.before.get((partition.topic, partition.index), ())))

    def _keeps(self, partition: Partition, min_isr: int, down: AbstractSet[int]) -> bool:
        """Whether the partition keeps min.insync.replicas without these brokers, however its reassignment ends."""
        isr = set(partition.isr)
        # Now, and if the reassignment is cancelled: replicas that are being added do not count.
        staying = isr - set(partition.adding) - down
        if not self._enough(partition, staying, min_isr):
            return False
        if not (partition.removing or partition.adding):
            return True
        # If the reassignment completes: all of `adding` are in the ISR then, and `removing` are gone.
        if not all(b in isr or self._may_join(b, down) for b in partition.adding):
            return True
        joining = set(partition.adding) - isr
        return self._enough(partition, isr - set(partition.removing) - down, min_isr - len(joining))

    def _enough(self, partition: Partition, brokers: AbstractSet[int], needed: int) -> bool:
        """Whether enough of these brokers have the partition on a live dir."""
        if len(brokers) < needed:
            return False
        found = 0
        for broker_id in brokers:
            if found >= needed:
                return True
            found += self._holds(broker_id, partition)
        return found >= needed

    def _holds(self, broker_id: int, partition: Partition) -> bool:
        """Whether a broker is known to be up with the replica on a live dir."""
        broker = self._brokers.get(broker_id)
        if broker is None or broker.fenced:
            return False
        return broker.live is not None and (partition.topic, partition.index) in broker.live

    def _may_join(self, broker_id: int, down: AbstractSet[int]) -> bool:
        """Whether a replica that is being added could join the ISR."""
        broker = self._brokers.get(broker_id)
        return broker is not None and not broker.fenced and broker_id not in down

    def _lost(self, broker_id: int, partition: Partition) -> bool:
        """Whether a broker answered, has an offline dir, and shows the replica on no live one."""
        broker = self._brokers.get(broker_id)
        if broker is None or broker.log_dirs is None or broker.live is None:
            return False
        offline = any(log_dir.error for log_dir in broker.log_dirs)
        return offline and (partition.topic, partition.index) not in broker.live

    def _unasked(self, partition: Partition, down: AbstractSet[int]) -> set[int]:
        """ISR members that would stay but did not answer DescribeLogDirs."""
        return {
            broker_id
            for broker_id in set(partition.isr) - down
            if (broker := self._brokers.get(broker_id)) is not None and broker.log_dirs is None
        }


def may_go_down(view: KafkaView, broker_id: int, down: AbstractSet[int] = frozenset()) -> RestartVerdict:
    """Like `RestartSafety.may_go_down`, for a single check."""
    return RestartSafety(view).may_go_down(broker_id, down)


def in_sync(view: KafkaView, broker_id: int) -> bool | None:
    """Like `RestartSafety.in_sync`, for a single check."""
    return RestartSafety(view).in_sync(broker_id)


def _what_is_unknown(view: KafkaView) -> str:
    """Which parts of the view are missing, as a clause; empty if none is."""
    if view.error:
        return view.error.rstrip(".")
    missing = [
        what
        for what, value in (
            ("the brokers", view.brokers),
            ("the partitions", view.partitions),
            ("the topics' min.insync.replicas", view.min_isr),
        )
        if value is None
    ]
    return f"{' and '.join(missing)} could not be read" if missing else ""


def _reassigning(broker_id: int, partitions: list[Partition]) -> Waiting:
    objects = tuple(sorted(p.name for p in partitions))
    return Waiting.refused(
        rule=_RULE,
        reason="ReassignmentInProgress",
        message=f"Without broker {broker_id}, the reassignment of {counted(len(objects), 'partition')} to it would stall: "
        f"{some(objects)}.",
        unblocked_by="Wait until the reassignment completes, or cancel it.",
        objects=objects,
    )


def _min_isr_unknown(broker_id: int, partitions: list[str]) -> Waiting:
    return Waiting.refused(
        rule=_RULE,
        reason="MinIsrUnknown",
        message=f"Spindle does not take broker {broker_id} down, because it does not know min.insync.replicas of "
        f"{counted(len(partitions), 'partition')} on it: {some(partitions)}.",
        unblocked_by="Nothing to do: Spindle continues when Kafka returns the configuration of these topics.",
        objects=tuple(partitions),
    )


def _below_min_isr(broker_id: int, partitions: list[str], unasked: list[int]) -> Waiting:
    silent = (
        f"; not counted, because DescribeLogDirs was not answered: {'broker' if len(unasked) == 1 else 'brokers'} {some([str(i) for i in unasked])}"
        if unasked
        else ""
    )
    return Waiting.refused(
        rule=_RULE,
        reason=BELOW_MIN_ISR,
        message=f"Without broker {broker_id}, {counted(len(partitions), 'partition')} would have fewer in-sync replicas "
        f"than min.insync.replicas: {some(partitions)}{silent}.",
        unblocked_by="Bring the other replicas of these partitions back in sync. Spindle continues by itself when brokers that are restarting "
        "are back in sync.",
        objects=tuple(partitions),
    )
