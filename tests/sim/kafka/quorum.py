"""Decisions of the controllers: registrations, fencing, leaders, ISR and ELR, reassignments.

Modelled on `ReplicationControlManager` and `ClusterControlManager` of Kafka 4.3.1. Leaders change only on events: a broker leaves, joins, reports
a dir, or a leader reports its ISR. Leaderless partitions are not checked in between, except for the periodic election of preferred leaders.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.sim.disks import FileSystem, Key, Log
from tests.sim.kafka import partitions
from tests.sim.kafka.partitions import Election
from tests.sim.kafka.state import (
    PREFERRED_EVERY,
    SESSION,
    Broker,
    Controller,
    KafkaFault,
    Part,
    Process,
    StartError,
    State,
)

Answer = tuple[int, str]


class Quorum(State):
    """The controllers."""

    _balanced_at = 0.0

    def start_controller(
        self,
        uid: str,
        node_id: int,
        directory_id: str,
        node: str,
        *,
        fs: FileSystem,
        voters: Any = None,
        props: Any = None,
    ) -> None:
        """Start a controller's process.

        Raises:
            StartError: it exits at once.
        """
        if fs.state in ("dead", "readonly"):
            raise StartError("its metadata log cannot be written")
        others = fs.meta is not None and self.cluster_id not in ("", fs.meta["cluster.id"])
        if others and not (self.controllers or self.processes):
            self._begin_anew()
        self.controllers[uid] = Controller(uid, node_id, directory_id, node, fs, self.kernel.now)
        if voters and not self.voters:
            self.voters = list(voters)
        if fs.meta:
            self.cluster_id = self.cluster_id or fs.meta["cluster.id"]

    def _begin_anew(self) -> None:
        """These are controllers of another cluster, without the state of the former one: data whose loss was not accepted is lost."""
        for part in self.parts.values():
            self.ledger.serves(part.key, part.ident, Log(part.ident[0]), "its cluster no longer exists")
        self.cluster_id, self.voters, self.quota = "", [], {}
        for known in (self.brokers, self.parts, self.configs):
            known.clear()

    # -- one partition

    def change(self, part: Part, *, but: int | None = None, **wanted: Any) -> bool:
        """Change a partition; ``but`` is a broker that may not lead. Returns whether anything has changed."""
        replicas, epoch = list(part.replicas), part.epoch
        changed = partitions.change(
            part,
            elr=self.elr,
            min_isr=self.effective_min_isr(part.topic),
            able=lambda broker: broker != but and self.able(part, broker),
            default_dir=self.default_dir,
            **wanted,
        )
        if part.epoch != epoch:
            # `Replica.resetReplicaState`: an in-sync replica counts as caught up from now on, any other one as far as it has
            # fetched.
            part.caught = dict.fromkeys(part.isr, self.kernel.now)
        if part.replicas != replicas:
            self.version += 1
            part.caught = {b: part.caught.get(b, -1e12) for b in part.replicas}
        return changed

    def _without(self, parts: Iterable[Part], broker: int) -> None:
        for part in list(parts):
            self.change(part, but=broker, isr=[b for b in part.isr if b != broker])

    def _in_sync(self, broker: int) -> list[Part]:
        return [part for part in self.parts.values() if broker in part.isr]

    def alter_isr(self, part: Part, isr: list[int]) -> bool:
        """A leader reports its ISR; returns whether it is accepted."""
        found = [self.brokers.get(b) for b in isr]
        if any(b is None or b.fenced or b.leaving for b in found):
            return False
        self.change(part, isr=isr)
        return True

    # -- registrations

    def register(self, process: Process) -> bool:
        """Register a new process of a broker; returns whether it was accepted."""
        before = self.brokers.get(process.broker)
        if before is not None and not before.fenced and self.kernel.now - before.heard < SESSION:
            return False  # DUPLICATE_BROKER_REGISTRATION until the session of the former process has expired
        ids = {fs.meta["directory.id"] for fs in process.live().values() if fs.meta}
        clean = before is not None and process.previous == before.epoch
        if before is not None:
            self._shut_down(process.broker, clean=clean)
        self.brokers[process.broker] = Broker(
            process.broker, process.rack, self.next_serial(), process.incarnation, ids, heard=self.kernel.now
        )
        return True

    def _shut_down(self, broker: int, *, clean: bool) -> None:
        """The former process has ended: if it was not shut down cleanly, it is removed from every ELR."""
        if clean or not self.elr:
            self._without(self._in_sync(broker), broker)
            return
        for part in list(self.parts.values()):
            if broker in part.isr or broker in part.elr:
                isr = [b for b in part.isr if b != broker]
                self.change(part, but=broker, isr=isr, unclean_shutdown=broker)

    def unfence(self, found: Broker) -> None:
        """A broker has caught up with the metadata: it may lead."""
        found.fenced = False
        for part in list(self.parts.values()):
            if part.leader is None:
                self.change(part)

    def fence(self, found: Broker) -> None:
        """A broker's session has expired."""
        if not found.fenced:
            self._without(self._in_sync(found.id), found.id)
        found.fenced, found.leaving = True, False

    def grant_shutdown(self, found: Broker) -> None:
        """A broker requests its shutdown: it leads nothing from now on."""
        found.leaving = True
        self._without(self._in_sync(found.id), found.id)

    def dirs_offline(self, found: Broker, directories: set[str]) -> None:
        """A broker reports its failed dirs."""
        lost = found.dirs & directories
        if lost:
            self._without((p for p in self.parts.values() if p.dirs.get(found.id) in lost), found.id)
            found.dirs -= lost

    def assign_dir(self, found: Broker, key: Key, directory: str) -> None:
        """A broker reports the dir of a replica (AssignReplicasToDirs)."""
        part = self.parts.get(key)
        if part is None or found.id not in part.replicas:
            return
        self.change(part, dirs={found.id: directory})
        if directory not in found.dirs:
            self._without([part], found.id)

    def unregister(self, broker: int) -> Answer:
        """Unregister a broker, whether or not it has replicas."""
        if broker not in self.brokers:
            return 102, "BROKER_ID_NOT_REGISTERED"
        self.on_unregister(broker)
        self._without([p for p in self.parts.values() if broker in p.isr or broker in p.elr], broker)
        del self.brokers[broker]
        return 0, ""

    def oversee(self) -> None:
        """Called each second: expired sessions, and periodically preferred leaders."""
        if not self.majority():
            return
        now = self.kernel.now
        for found in list(self.brokers.values()):
            if not found.fenced and now - found.heard > SESSION:
                self.fence(found)
        if now - self._balanced_at >= PREFERRED_EVERY:
            self._balanced_at = now
            for part in list(self.parts.values()):
                if part.leader != part.replicas[0]:
                    self.change(part, election="preferred")

    # -- requests

    def elect(self, part: Part, kind: Election) -> Answer:
        """ElectLeaders."""
        if (kind == "preferred" and part.leader == part.replicas[0]) or (
            kind == "unclean" and part.leader is not None
        ):
            return 84, "ELECTION_NOT_NEEDED"
        if self.change(part, election=kind):
            return 0, ""
        return (
            (80, "PREFERRED_LEADER_NOT_AVAILABLE")
            if kind == "preferred"
            else (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE")
        )

    def reassign(self, part: Part, target: list[int], *, by_spindle: bool) -> Answer:
        """AlterPartitionReassignments: replicas that are not in the target are removed, new ones come first."""
        if any(b not in self.brokers for b in target) or not target or len(set(target)) != len(target):
            return 39, "INVALID_REPLICA_ASSIGNMENT"
        if by_spindle:
            self.on_reassign(part, target)
            self._change_factor(part, target)
        else:
            part.reassigned, part.rf, part.changes = True, len(target), False
        coming = sorted(b for b in target if b not in part.replicas)
        going = sorted(b for b in part.replicas if b not in target)
        self.change(part, replicas=[*target, *going], adding=coming or None, removing=going or None)
        return 0, ""

    def _change_factor(self, part: Part, target: list[int]) -> None:
        """Spindle adds or removes a replica because a KafkaTopic asks for that, and not because a disk is dead."""
        part.settle_factor()
        asked, coming = self.asked_factors(part.topic), [b for b in target if b not in part.replicas]
        fewer = not coming and len(target) < len(part.replicas) > min(asked, default=99)
        more = bool(coming) and max(len(part.replicas), part.rf) < len(target) <= max(asked, default=0)
        if fewer:
            part.rf = len(target)
        part.changes = fewer or more

    def cancel(self, part: Part) -> Answer:
        """The former replicas, unless none of them is in sync."""
        if not part.adding and not part.removing:
            return 85, "NO_REASSIGNMENT_IN_PROGRESS"
        isr = [b for b in part.isr if b not in part.adding]
        if not isr:
            return 39, "INVALID_REPLICA_ASSIGNMENT"
        back = [b for b in part.replicas if b not in part.adding]
        if part.changes:
            part.rf, part.changes = len(back), False
        self.change(part, isr=isr, replicas=back, adding=[], removing=[])
        return 0, ""

    def make_topic(self, name: str, assignments: list[list[int]], configs: dict[str, str]) -> list[Part]:
        """Create a topic with these replicas, with leaders where possible.

        Raises:
            KafkaFault: no broker can lead one of its partitions (`ReplicationControlManager.createTopic`).
        """
        # A fenced broker, or one that is shutting down, is not in the first ISR, and Kafka creates no partition with an empty ISR.
        isrs = [[b for b in replicas if self._active(b)] for replicas in assignments]
        if not all(isrs):
            raise KafkaFault(
                38, "INVALID_REPLICATION_FACTOR", "All brokers are fenced or in controlled shutdown."
            )
        ident = self.new_uuid()
        self.configs["topic", name] = dict(configs)
        made = []
        for index, (replicas, isr) in enumerate(zip(assignments, isrs, strict=True)):
            dirs = {b: self.default_dir(b) for b in replicas}
            part = Part(name, index, ident, list(replicas), isr, None, dirs=dirs, rf=len(replicas))
            self.parts[part.key] = part
            made.append(part)
        for part in made:
            self.change(part)
        self.version += 1
        return made

    def placement(self, partitions_: int, rf: int) -> list[list[int]]:
        """The replicas of a new topic: spread over racks, with a broker first that is not fenced.

        Brokers that are shutting down, and those all of whose dirs are cordoned, are left out (`UsableBrokerIterator`); fenced brokers are a last resort.

        Raises:
            KafkaFault: there are too few brokers.
        """
        open_to = [b for b in sorted(self.brokers) if not self.brokers[b].leaving and self._takes_replicas(b)]
        unfenced = [b for b in open_to if not self.brokers[b].fenced]
        if not unfenced or len(open_to) < rf:
            raise KafkaFault(38, "INVALID_REPLICATION_FACTOR")
        racks = {b: self.brokers[b].rack for b in open_to}
        fenced = [b for b in open_to if b not in unfenced]
        return [_spread(unfenced, fenced, racks, rf, index) for index in range(partitions_)]

    def _active(self, broker: int) -> bool:
        """Whether a broker may be in the first ISR of a partition."""
        found = self.brokers[broker]
        return not found.fenced and not found.leaving

    def _takes_replicas(self, broker: int) -> bool:
        process = self.process_of(broker)
        cordoned = self.cordoned(process) if process is not None else set()
        return process is None or ("*" not in cordoned and bool(set(process.live()) - cordoned))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic, and its acknowledged records."""
        for key in [k for k in self.parts if k[0] == topic]:
            self.ledger.forget(self.parts.pop(key).ident)
        self.configs.pop(("topic", topic), None)
        self.version += 1


def _spread(
    able: list[int], fenced: list[int], racks: dict[int, str | None], rf: int, index: int
) -> list[int]:
    order = able[index % len(able) :] + able[: index % len(able)] + fenced
    chosen: list[int] = []

    def crowding(used: list[str | None]) -> Callable[[int], tuple[int, int]]:
        return lambda broker: (used.count(racks[broker]), order.index(broker))

    while len(chosen) < rf:
        used = [racks[b] for b in chosen]
        chosen.append(min((b for b in order if b not in chosen), key=crowding(used)))
    return chosen
