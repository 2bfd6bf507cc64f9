"""Partitions on fewer racks than possible: after a zone was added or lost, or a node moved to another zone.

Existing brokers stay with their disks. Replicas move only by a proposal that a user or the cluster's approval rule has approved (the planner
restores the spread over racks before it balances). Only partitions that healing put on fewer racks are spread automatically; see
`spindle.evacuation.rack_spread`.
"""

from collections.abc import Collection

from spindle.model.racks import PlacementError, rack_of, wanted_racks
from spindle.model.view import KafkaView
from spindle.model.waiting import Waiting, counted, some

_BY_PERSON = "Run the rebalance job (spindle rebalance run) and approve its proposal."
_BY_ITSELF = (
    "Spindle spreads them over more racks when every disk is healed, every replica is restored, and a disk in another rack has space; if none has, "
    "free space there, or add a broker."
)


def under_spread_partitions(view: KafkaView, ours: Collection[tuple[str, int]] = ()) -> Waiting | None:
    """A waiting entry for the partitions that could be on more racks than they are; None if there are none or this is unknown.

    A replica on a broker that is down counts in the broker's rack, since it comes back. Partitions that are being reassigned are omitted.

    Args:
        view: the current state of Kafka.
        ours: (topic, partition) that healing put on fewer racks.
    """
    if view.error or view.brokers is None or view.partitions is None:
        return None
    try:
        racks = rack_of({i: broker.rack for i, broker in view.brokers.items()})
    except PlacementError:
        return None  # reported where brokers are placed
    up = {racks[i] for i, broker in view.brokers.items() if broker.fenced is False}
    wanted = [wanted_racks(replicas, len(up)) for replicas in range(len(racks) + 1)]
    crowded = view.partition_index.on_fewer_racks(racks, wanted)
    found = sorted((p.name, (p.topic, p.index) in ours) for p in crowded if not (p.adding or p.removing))
    if not found:
        return None
    named, healed = [name for name, _ in found], sum(by_us for _, by_us in found)
    if healed == len(found):
        way_out = f"Nothing to do: healing moved them there. {_BY_ITSELF}"
    elif healed:
        way_out = f"{_BY_PERSON} Healing moved {healed} of them there: {_BY_ITSELF}"
    else:
        way_out = _BY_PERSON
    return Waiting.refused(
        rule=3,
        reason="RackSpreadViolated",
        message=f"{counted(len(found), 'partition')} {'is' if len(found) == 1 else 'are'} on fewer racks than possible "
        f"({len(up)} racks are up): {some(named)}. "
        "If a rack fails, they lose more replicas than necessary.",
        unblocked_by=way_out,
        objects=tuple(named),
    )
