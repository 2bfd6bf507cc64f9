"""A hung disk: Kafka does not notice, its broker stays leader, and nobody can write. Whether to stop that broker at once.

Fencing is exempt from eviction and from rule 2 only where its partitions are unwritable already, one broker at a time.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from spindle.cluster.view import Partition
from spindle.cluster.waiting import Waiting, counted, some
from spindle.healing.replica_index import Key, ReplicaIndex

SHARED_FOR_SECONDS: Final = (
    60.0  # for which several disks that stall together are taken for a starved machine
)


def may_fence(
    replica_index: ReplicaIndex,
    broker: int,
    hung: Collection[str],
    down: AbstractSet[int],
    before: Mapping[Key, tuple[int, ...]] | None = None,
) -> Waiting | None:
    """Whether a broker with hung disks may be stopped now: None for yes.

    Exempt are partitions that stand on a hung dir, and those that the broker leads while it does not even answer for its
    log dirs. Every other partition in whose ISR it stands must keep its minimum without it (rule 2); where the broker
    is a follower with stuck fetchers, its leaders drop it from the ISR within half a minute anyway. Another broker that
    cannot be asked counts as long as it stands in the ISR: if it hangs as well, nobody can write there already.

    Args:
        replica_index: what Kafka says now; a hung broker rarely answers, so its own log dirs may be unknown.
        broker: the broker in question.
        hung: paths of its dirs that do not answer.
        down: other brokers that are down or going down.
        before: see `rolling.brokers.Rolling`.
    """
    others = sorted(set(down) - {broker})
    if others:
        return Waiting.refused(
            rule=2,
            reason="AnotherBrokerDown",
            message=f"Broker {broker} has a hung disk and is to be stopped, but broker {some([str(b) for b in others])} is down "
            "as well: one at a time.",
            unblocked_by="The other broker is back, or the disk answers again.",
        )
    if not replica_index.known or replica_index.view.min_isr is None:
        return _unknown(replica_index, broker)
    on_hung = [replica_index.on(broker, path) for path in hung]
    silent = replica_index.dirs(broker) is None
    stuck = frozenset().union(*(keys for keys in on_hung if keys is not None))
    if alone := _only_alone(replica_index, broker, stuck, silent=silent):
        return _nobody_takes_over(broker, alone)
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
        reason="WouldBeUnderMinIsr",
        message=f"Broker {broker} has a hung disk and is to be stopped, but {counted(len(short), 'partition')} on its other "
        f"disks would fall under min.insync.replicas: {some(short)}.",
        unblocked_by="Their other replicas are back in sync, or the disk answers again.",
        objects=tuple(short),
    )


def _only_alone(
    replica_index: ReplicaIndex, broker: int, stuck: AbstractSet[Key], *, silent: bool
) -> list[str]:
    """Names of the partitions that the hang is about, if this broker is the only in-sync replica of each that it is in sync with.

    Whoever else had to take over could not, so stopping the broker wins nothing; and if it does not hang after all (a machine so loaded that
    each write takes seconds), it takes away the one leader that they have.
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
        message=f"Broker {broker} has a hung disk and is to be stopped, but what depends on it is not known: "
        f"{replica_index.view.error or 'not everything could be read'}. It may be only the operator that cannot reach Kafka.",
        unblocked_by="Kafka can be asked again, or the disk answers. If it is sure that the broker hangs, delete its pod with "
        "`kubectl delete pod --grace-period=1`: it then starts without the disk.",
    )


def _nobody_takes_over(broker: int, named: list[str]) -> Waiting:
    return Waiting.refused(
        rule=2,
        reason="OnlyInSyncReplica",
        message=f"A disk of broker {broker} does not answer, but this broker is the only in-sync replica of {counted(len(named), 'partition')} on "
        f"it, so nobody could take over: {some(named)}. The broker is not stopped for it.",
        unblocked_by="Another replica is in sync, or the disk answers. If the disk is lost, delete the broker's pod with "
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
    """Whether a disk hangs by itself, so that its broker is to be stopped for it: None for yes.

    Where other disks of the same node stall as well, or disks of many brokers do, it is the machine that is starved, or what
    they hang on; a broker that is stopped for that is missing when it is over. On one node what has lasted for a minute counts as
    a hang all the same (a controller with all of its disks, say). Disks of many brokers do not hang by themselves at the same
    time, however long it lasts: stopping brokers for it would load the others more.

    Args:
        broker: whose disk hangs.
        stalled: (broker, disk) of every write that is pending for long now, the one in question included.
        neighbours: brokers on the same node, this one included.
        most: brokers of which disks may stall together.
        lasting: seconds for which it hangs.
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
        message=f"Writes to {counted(len(named), 'disk')} are stalled at the same time ({some(named)}), so it is hardly a disk of "
        f"broker {broker} that hangs, but the machine. The broker is not stopped for it.",
        unblocked_by="The disks answer: look for what keeps the machines or their storage busy."
        if many
        else f"The disks answer. What still hangs after {SHARED_FOR_SECONDS:g} s counts as a hang all the same.",
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
