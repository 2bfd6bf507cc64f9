"""Brokers that wait for each other: none may go down before another one of them was, so none ever will by itself.

Found by taking away whoever something else can help: what is left when nobody more can be taken away is a deadlock, and all of it is.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_DIGITS: Final = 16


@dataclass(frozen=True)
class Blocker:
    """A partition that keeps a broker from going down.

    Attributes:
        partition: its name.
        missing: brokers that are meant to have a copy in sync on a live dir, and have none, or are about to go down.
        needs: how many of these have to be back before the broker may go down.
    """

    partition: str
    missing: frozenset[int]
    needs: int


@dataclass(frozen=True)
class Blocked:
    """A broker that is to go down and may not.

    Attributes:
        partitions: names of those that cannot spare it.
        blockers: what has to happen before each of them can.
        alone: those of them of which nobody else has a copy in sync.
        restarts: whether it would go down if these partitions could spare it, and nothing else held it.
    """

    partitions: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    alone: tuple[str, ...] = ()
    restarts: bool = True


def deadlock(blocked: Mapping[int, Collection[Blocker]]) -> dict[int, tuple[str, ...]]:
    """The brokers that wait for each other, each with the partitions that only another one of them can help.

    Args:
        blocked: all brokers that are to go down and may not, with what keeps each.
    """
    found = {broker: tuple(blockers) for broker, blockers in blocked.items()}
    while True:
        held = {
            broker: tuple(sorted(each.partition for each in blockers if _held(each, found.keys())))
            for broker, blockers in found.items()
        }
        staying = {broker: found[broker] for broker, partitions in held.items() if partitions}
        if len(staying) == len(found):
            return held
        found = staying


def _held(blocker: Blocker, among: Collection[int]) -> bool:
    """Whether only one of these can help: others may be back, and they are too few."""
    others = [broker for broker in blocker.missing if broker not in among]
    return len(others) < len(blocker.missing) and len(others) < blocker.needs


def word_for(pod_uid: str, partitions: Iterable[str]) -> str:
    """What a person writes to let a broker go down though these partitions then refuse writes.

    It names the pod, so that it counts once: the pod that follows has another UID. It counts for exactly these partitions.
    """
    return hashlib.sha256("\n".join((pod_uid, *sorted(partitions))).encode()).hexdigest()[:_DIGITS]
