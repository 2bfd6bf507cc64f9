"""Partitions that stand on fewer racks than they could: after a zone was added or lost, or a node was moved to another one.

Brokers that exist stay where their disks are, and replicas go where a plan sends them that a person, or the cluster's rule for approval, has
agreed to (the planner mends racks before it balances anything). Only what healing crowded is spread by itself, see `spindle.healing.rack_spread`.
"""

from collections.abc import Collection

from spindle.cluster.view import KafkaView
from spindle.cluster.waiting import Waiting, counted, some
from spindle.placement.racks import PlacementError, count_racks, rack_of, wanted_racks

_BY_PERSON = "A proposal of the rebalance job spreads them: spindle rebalance run, then approve it."
_BY_ITSELF = (
    "They are spread again by themselves, once nothing is to be healed or grown back and a disk in another rack takes them; if none does: "
    "free space there, or add a broker."
)


def under_spread_partitions(view: KafkaView, ours: Collection[tuple[str, int]] = ()) -> Waiting | None:
    """The partitions that could stand on more racks than they do; None if there are none, or that is not known.

    A replica on a broker that is down counts where its broker is: it comes back. What is being reassigned is left out.

    Args:
        view: what Kafka says.
        ours: (topic, partition) of what healing crowded.
    """
    if view.error or view.brokers is None or view.partitions is None:
        return None
    try:
        racks = rack_of({i: broker.rack for i, broker in view.brokers.items()})
    except PlacementError:
        return None  # said by those who place brokers
    up = {racks[i] for i, broker in view.brokers.items() if broker.fenced is False}
    found = sorted(
        (p.name, (p.topic, p.index) in ours)
        for p in view.partitions
        if not (p.adding or p.removing)
        and all(b in racks for b in p.replicas)
        and count_racks(p.replicas, racks) < wanted_racks(len(p.replicas), len(up))
    )
    if not found:
        return None
    named, healed = [name for name, _ in found], sum(by_us for _, by_us in found)
    if healed == len(found):
        way_out = f"Nothing needs to be done: healing put them there. {_BY_ITSELF}"
    elif healed:
        way_out = f"{_BY_PERSON} {healed} of them healing put there: {_BY_ITSELF[0].lower()}{_BY_ITSELF[1:]}"
    else:
        way_out = _BY_PERSON
    return Waiting.refused(
        rule=3,
        reason="RackSpreadViolated",
        message=f"{counted(len(found), 'partition')} {'stands' if len(found) == 1 else 'stand'} on fewer racks than possible "
        f"({len(up)} racks are up): {some(named)}. "
        "If a rack fails, it loses more copies than it had to.",
        unblocked_by=way_out,
        objects=tuple(named),
    )
