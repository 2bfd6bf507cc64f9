"""A hung disk: Kafka does not notice, its broker stays leader, and nobody can write. Whether to stop that broker at once.

Fencing is exempt from eviction and from rule 2 only where its partitions are unwritable already, one broker at a time.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from spindle.cluster.refusal import Refusal, counted, some
from spindle.cluster.view import Partition
from spindle.healing.standing import Standing


def may_fence(looked: Standing, broker: int, hung: Collection[str], down: AbstractSet[int]) -> Refusal | None:
    """Whether a broker with hung disks may be stopped now: None for yes.

    Exempt are partitions that stand on a hung dir, and those that the broker leads while it does not even answer for its
    log dirs. Every other partition in whose ISR it stands must keep its minimum without it (rule 2); where the broker
    is a follower with stuck fetchers, its leaders drop it from the ISR within half a minute anyway. Another broker that
    cannot be asked counts as long as it stands in the ISR: if it hangs as well, nobody can write there already.

    Args:
        looked: what Kafka says now; a hung broker rarely answers, so its own log dirs may be unknown.
        broker: the broker in question.
        hung: paths of its dirs that do not answer.
        down: other brokers that are down or going down.
    """
    others = sorted(set(down) - {broker})
    if others:
        return Refusal(
            rule=2,
            reason="AnotherBrokerDown",
            message=f"Broker {broker} has a hung disk and is to be stopped, but broker {some([str(b) for b in others])} is down "
            "as well: one at a time.",
            unblocked_by="The other broker is back, or the disk answers again.",
        )
    if not looked.known or looked.view.min_isr is None:
        return None  # nobody can say what depends on it, and nobody can write there: fenced it is noticed at least
    on_hung = [looked.on(broker, path) for path in hung]
    silent = looked.dirs(broker) is None
    stuck = frozenset().union(*(keys for keys in on_hung if keys is not None))
    short = sorted(
        p.name
        for p in looked.assigned.get(broker, ())
        if broker in p.isr
        and (p.topic, p.index) not in stuck
        and not (silent and p.leader == broker)
        and not _keeps(looked, p, broker)
    )
    if not short:
        return None
    return Refusal(
        rule=2,
        reason="BelowMinIsr",
        message=f"Broker {broker} has a hung disk and is to be stopped, but {counted(len(short), 'partition')} on its other "
        f"disks would fall under min.insync.replicas: {some(short)}.",
        unblocked_by="Their other replicas are back in sync, or the disk answers again.",
        objects=tuple(short),
    )


def _keeps(looked: Standing, partition: Partition, broker: int) -> bool:
    least = (looked.view.min_isr or {}).get(partition.topic)
    if least is None:
        return False
    key = (partition.topic, partition.index)
    staying = sum(looked.holds(b, key) or _silent(looked, b) for b in partition.isr if b != broker)
    return partition.recorded_rf <= least or staying >= least


def _silent(looked: Standing, broker: int) -> bool:
    known = looked.brokers.get(broker)
    return known is not None and not known.fenced and known.log_dirs is None
