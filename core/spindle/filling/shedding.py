"""Give up a replica where no move helps: rule 5's condition, and at least two copies stay.

It is the only way to make a follower stop writing to a full disk. The replica is on record and comes back when there is room.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from spindle.cluster.refusal import Refusal
from spindle.healing.shrink import may_shrink
from spindle.healing.standing import Key, Standing
from spindle.moves.journal import Shrunk

SHED: Final = "shed"
_LEAST_COPIES: Final = 2


@dataclass(frozen=True)
class Shedding:
    """The one replica that leaves a disk now; or why none may."""

    shrunk: tuple[Shrunk, ...] = ()
    refusal: Refusal | None = None


def shed(
    looked: Standing,
    broker: int,
    path: str,
    need: int,
    moving: Collection[Key] = (),
    down: AbstractSet[int] = frozenset(),
) -> Shedding:
    """Choose the smallest replica that is large enough, else the largest; one at a time.

    Args:
        looked: what Kafka says now.
        broker, path: the disk.
        need: bytes that are to leave it.
        moving: partitions that are in motion; they are left alone.
        down: see `spindle.healing.shrink.may_shrink`.
    """
    found = next((d for d in looked.dirs(broker) or () if d.path == path and not d.error), None)
    if found is None or need <= 0:
        return Shedding()
    candidates = sorted(
        (key for key in found.replicas if key not in moving and found.replicas[key] > 0),
        key=lambda k: (found.replicas[k] < need, abs(found.replicas[k] - need), k),
    )
    refusal = None
    for key in candidates:
        if (
            len(set(looked.partitions[key].replicas) - {broker}) < _LEAST_COPIES
            if key in looked.partitions
            else True
        ):
            continue
        refused = may_shrink(looked, broker, [key], down)
        if refused is None:
            partition = looked.partitions[key]
            size = max(looked.size(key), found.replicas[key])
            return Shedding(
                (Shrunk(*key, broker=broker, bytes=size, before=partition.replicas, reason=SHED),)
            )
        refusal = refusal or refused
    return Shedding(refusal=refusal or _none_to_spare(broker, path))


def _none_to_spare(broker: int, path: str) -> Refusal:
    return Refusal(
        rule=5,
        reason="NoneToSpare",
        message=f"No replica on {path} of broker {broker} can be given up: none has two other copies.",
        unblocked_by="Add a disk or a broker, or delete data.",
    )
