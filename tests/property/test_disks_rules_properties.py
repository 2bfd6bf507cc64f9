"""Rule 1 against a model of Kafka: whatever happens in between, no format that was allowed loses an acknowledged record.

The model has what makes the hazard: the last in-sync replica is remembered and elected when its broker comes back,
whatever is on its disk by then, and followers truncate to their leader.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from spindle.disks.rules import may_format
from spindle.model.view import Broker, KafkaView, LogDir, Partition

BROKERS = (0, 1, 2)
ASSIGNMENTS = ((0, 1), (1, 2, 0), (2,), (0, 2))


@dataclass
class Replicas:
    """One partition; ``logs`` holds how many of the acknowledged records each broker has, None on a dead disk."""

    assigned: tuple[int, ...]
    isr: list[int] = field(default_factory=list)
    leader: int | None = None
    last_known: int | None = None
    clean: bool = False
    acknowledged: int = 0
    logs: dict[int, int | None] = field(default_factory=dict)

    def leaves(self, broker: int, *, clean: bool) -> None:
        """A broker can't serve its replica any more."""
        if broker in self.isr:
            self.isr.remove(broker)
            if not self.isr:
                self.last_known, self.clean = broker, clean
        if self.leader == broker:
            self.leader = self.isr[0] if self.isr else None

    def returns(self, broker: int) -> None:
        """A broker serves its replica, with what is on its disk."""
        if self.leader is None and self.last_known == broker:
            self.leader, self.isr = broker, [broker]
        elif self.leader is not None and broker not in self.isr:
            self.logs[broker] = self.logs[self.leader]
            self.isr.append(broker)


class Cluster(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.up = set(BROKERS)
        self.partitions = [
            Replicas(a, isr=list(a), leader=a[0], logs=dict.fromkeys(a, 0)) for a in ASSIGNMENTS
        ]

    def view(self) -> KafkaView:
        def dirs(broker: int) -> tuple[LogDir, ...]:
            shown = {("t", i): 1 for i, p in enumerate(self.partitions) if p.logs.get(broker) is not None}
            return (LogDir("/d", replicas=shown),)

        return KafkaView(
            brokers={b: Broker(b, None, fenced=b not in self.up, log_dirs=dirs(b)) for b in BROKERS},
            partitions=tuple(
                Partition(
                    topic="t",
                    index=index,
                    leader=p.leader,
                    replicas=p.assigned,
                    isr=tuple(p.isr),
                    elr=(p.last_known,) if p.clean and not p.isr and p.last_known is not None else (),
                )
                for index, p in enumerate(self.partitions)
            ),
        )

    @rule(index=st.integers(0, len(ASSIGNMENTS) - 1))
    def produce(self, index: int) -> None:
        partition = self.partitions[index]
        if partition.leader is not None:
            partition.acknowledged += 1
            for broker in partition.isr:
                partition.logs[broker] = (partition.logs[broker] or 0) + 1

    @rule(broker=st.sampled_from(BROKERS), clean=st.booleans())
    def goes_down(self, broker: int, clean: bool) -> None:
        self.up.discard(broker)
        for partition in self.partitions:
            partition.leaves(broker, clean=clean)

    @rule(broker=st.sampled_from(BROKERS))
    def comes_up(self, broker: int) -> None:
        if broker not in self.up and all(p.logs.get(broker, 0) is not None for p in self.partitions):
            self.up.add(broker)
            for partition in self.partitions:
                if broker in partition.assigned:
                    partition.returns(broker)

    @rule(broker=st.sampled_from(BROKERS))
    def disk_dies(self, broker: int) -> None:
        for partition in self.partitions:
            if broker in partition.assigned:
                partition.leaves(broker, clean=False)
                partition.logs[broker] = None
        self.up.discard(broker)

    @rule(broker=st.sampled_from(BROKERS), known=st.booleans())
    def replaced_and_formatted(self, broker: int, known: bool) -> None:
        on_disk = {("t", i) for i, p in enumerate(self.partitions) if broker in p.assigned} if known else None
        if broker in self.up or may_format(self.view(), broker, on_disk) is not None:
            return
        for partition in self.partitions:
            if broker in partition.assigned:
                partition.logs[broker] = 0

    @invariant()
    def no_leader_lacks_what_was_acknowledged(self) -> None:
        for partition in self.partitions:
            if partition.leader is not None:
                assert partition.logs[partition.leader] == partition.acknowledged


Cluster.TestCase.settings = settings(max_examples=400, stateful_step_count=25, deadline=None)
TestCluster = Cluster.TestCase
