"""Partitions that stand on fewer racks than they could: after a zone was added or lost, or a node was moved to another one.

Nothing is moved for that by itself. Brokers that exist stay where their disks are, and replicas go where a plan sends them that a person, or
the cluster's rule for approval, has agreed to (the planner mends racks before it balances anything).
"""

from spindle.cluster.refusal import Refusal, counted, some
from spindle.cluster.view import KafkaView
from spindle.placement.racks import PlacementError, count_racks, rack_of, wanted_racks


def crowded(view: KafkaView) -> Refusal | None:
    """The partitions that could stand on more racks than they do; None if there are none, or that is not known.

    A replica on a broker that is down counts where its broker is: it comes back. What is being reassigned is left out.
    """
    if view.error or view.brokers is None or view.partitions is None:
        return None
    try:
        racks = rack_of({i: broker.rack for i, broker in view.brokers.items()})
    except PlacementError:
        return None  # said by those who place brokers
    up = {racks[i] for i, broker in view.brokers.items() if broker.fenced is False}
    found = sorted(
        p.name
        for p in view.partitions
        if not (p.adding or p.removing)
        and all(b in racks for b in p.replicas)
        and count_racks(p.replicas, racks) < wanted_racks(len(p.replicas), len(up))
    )
    if not found:
        return None
    return Refusal(
        rule=3,
        reason="ReplicasCrowded",
        message=f"{counted(len(found), 'partition')} stands on fewer racks than it could ({len(up)} racks are up): {some(found)}. "
        "If a rack fails, it loses more copies than it had to.",
        unblocked_by="A proposal of the rebalance job spreads them: spindle rebalance run, then approve it.",
        objects=tuple(found),
    )
