"""Whether to stop a broker with a hung disk at once: Kafka does not detect the hang, the broker stays leader, and writes block.

Fencing is exempt from eviction and from "no restart below min.insync.replicas" (`docs/safety.md`, rule 2) only where the broker's partitions
are unwritable already, one broker at a time.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

from spindle.disks.correlated_failures import SHARED_FOR_SECONDS
from spindle.model.replica_index import Key, ReplicaIndex
from spindle.model.restart_safety import BELOW_MIN_ISR
from spindle.model.view import Partition
from spindle.model.waiting import Waiting, counted, some


def may_fence(
    replica_index: ReplicaIndex,
    broker: int,
    hung: Collection[str],
    down: AbstractSet[int],
    before: Mapping[Key, tuple[int, ...]] | None = None,
) -> Waiting | None:
    """Whether a broker with hung disks may be stopped now: None for yes.

    Exempt are partitions on a hung dir, and those that the broker leads while it does not even answer for its
    log dirs. Every other partition with the broker in its ISR must keep its minimum without it: "no restart below min.insync.replicas"
    (`docs/safety.md`, rule 2). Where the broker is a follower with stuck fetchers, the leaders drop it from the ISR within half a minute anyway.
    Another broker that does not answer counts as long as it is in the ISR: if it hangs as well, writes there block already.

    Args:
        replica_index: the current state of Kafka; a hung broker rarely answers, so its own log dirs may be unknown.
        broker: the broker in question.
        hung: paths of its dirs that do not answer.
        down: other brokers that are down or being taken down.
        before: see `rolling.brokers.Rolling`.
    """
    if not replica_index.known or replica_index.view.min_isr is None:
        return _unknown(replica_index, broker)
    others = sorted(set(down) - {broker})
    if others:
        return Waiting.refused(
            rule=2,
            reason="AnotherBrokerDown",
            message=f"Broker {broker} has a hung disk and should be stopped, but broker{'' if len(others) == 1 else 's'} {some([str(b) for b in others])} "
            f"{'is' if len(others) == 1 else 'are'} down as well. Spindle stops only one broker at a time for a hung disk.",
            unblocked_by="Nothing to do: Spindle continues when the other "
            f"{'broker is' if len(others) == 1 else 'brokers are'} back, or when the disk answers again.",
        )
    on_hung = [replica_index.on(broker, path) for path in hung]
    silent = replica_index.dirs(broker) is None
    stuck = frozenset().union(*(keys for keys in on_hung if keys is not None))
    if alone := _sole_in_sync(replica_index, broker, stuck, silent=silent):
        return _only_in_sync(broker, alone)
    short = sorted(
        p.name
        for p in replica_index.assigned.get(broker, ())
        if broker in p.isr
        and (p.topic, p.index) not in stuck
        and not (silent and p.leader == broker)
        and not _keeps(replica_index, p, broker, before or {})
    )
    if not short:
        return None
    return Waiting.refused(
        rule=2,
        reason=BELOW_MIN_ISR,
        message=f"Broker {broker} has a hung disk and should be stopped, but {counted(len(short), 'partition')} on its other disks would fall "
        f"below min.insync.replicas: {some(short)}.",
        unblocked_by="Nothing to do: Spindle continues when the other replicas are back in sync, or when the disk answers again.",
        objects=tuple(short),
    )


def _sole_in_sync(
    replica_index: ReplicaIndex, broker: int, stuck: AbstractSet[Key], *, silent: bool
) -> list[str]:
    """Names of the partitions affected by the hang, if this broker is the only in-sync replica of each one that it is in sync with.

    No other broker could take over, so stopping the broker would gain nothing; and if it does not hang after all (a node so overloaded that
    each write takes seconds), stopping it would remove their only leader.
    """
    mine = [
        p
        for p in replica_index.assigned.get(broker, ())
        if ((p.topic, p.index) in stuck or (silent and p.leader == broker)) and broker in p.isr
    ]
    return [] if any(set(p.isr) != {broker} for p in mine) else sorted(p.name for p in mine)


def _unknown(replica_index: ReplicaIndex, broker: int) -> Waiting:
    return Waiting.refused(
        rule=8,
        reason="KafkaUnknown",
        message=f"Broker {broker} has a hung disk and should be stopped, but Spindle does not know which partitions depend on it: "
        f"{replica_index.view.error or 'not everything could be read'}. Possibly only the operator cannot reach Kafka.",
        unblocked_by="Spindle continues when it can query Kafka again, or when the disk answers. If the broker certainly hangs, delete its pod with "
        "`kubectl delete pod --grace-period=1`: it then starts without the disk.",
    )


def _only_in_sync(broker: int, named: list[str]) -> Waiting:
    return Waiting.refused(
        rule=2,
        reason="OnlyInSyncReplica",
        message=f"A disk of broker {broker} does not answer, but this broker has the only in-sync replica of {counted(len(named), 'partition')} on "
        f"it, so no other broker could take over: {some(named)}. Spindle does not stop the broker.",
        unblocked_by="Spindle continues when another replica is in sync, or when the disk answers. If the disk is lost, delete the broker's pod with "
        "`kubectl delete pod --grace-period=1`: it then starts without the disk.",
        objects=tuple(named),
    )


def stalls_alone(
    broker: int,
    stalled: Collection[tuple[int, str]],
    neighbours: Collection[int],
    most: int,
    lasting: float,
) -> Waiting | None:
    """Whether a disk hangs by itself, so that its broker should be stopped: None for yes.

    If other disks of the same node stall as well, or disks of many brokers do, the cause is a starved node, or the storage that
    they share; a broker stopped for that is missing when it is over. On one node, a stall that lasts for a minute still counts as
    a hang (a controller with all of its disks, for example). Disks of many brokers do not hang independently at the same
    time, however long it lasts: stopping brokers would load the others more.

    Args:
        broker: the broker of the hung disk.
        stalled: (broker, disk) of every write that has been pending for long, including the one in question.
        neighbours: brokers on the same node, including this one.
        most: number of brokers whose disks may stall together.
        lasting: seconds for which the disk has been hanging.
    """
    here = {disk for disk in stalled if disk[0] in neighbours}
    brokers = {b for b, _ in stalled}
    many = len(brokers) > most
    if not many and (lasting >= SHARED_FOR_SECONDS or len(here) <= 1):
        return None
    named = sorted(f"{b}/{disk}" for b, disk in (stalled if many else here))
    return Waiting.refused(
        rule=9,
        reason="CorrelatedDiskStalls",
        message=f"Writes to {counted(len(named), 'disk')} are stalled at the same time ({some(named)}), so the cause is probably the node or its "
        f"storage and not a disk of broker {broker}. Spindle does not stop the broker.",
        unblocked_by="Find out what overloads the nodes or their storage. Spindle continues when the disks answer."
        if many
        else "Nothing to do: Spindle continues when the disks answer. A disk that still hangs after "
        f"{SHARED_FOR_SECONDS:g} s counts as hung.",
        objects=tuple(named),
    )


def _keeps(
    replica_index: ReplicaIndex, partition: Partition, broker: int, before: Mapping[Key, tuple[int, ...]]
) -> bool:
    least = (replica_index.view.min_isr or {}).get(partition.topic)
    if least is None:
        return False
    key = (partition.topic, partition.index)
    staying = sum(
        replica_index.holds(b, key) or _silent(replica_index, b) for b in partition.isr if b != broker
    )
    return max(partition.recorded_rf, len(before.get(key, ()))) <= least or staying >= least


def _silent(replica_index: ReplicaIndex, broker: int) -> bool:
    known = replica_index.brokers.get(broker)
    return known is not None and not known.fenced and known.log_dirs is None
