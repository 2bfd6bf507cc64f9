"""Brokers that wait for each other: none may restart before another one of them has restarted, so none ever does by itself.

Found by repeatedly removing brokers that something outside the group can unblock: the brokers that remain are the deadlock.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from spindle.model.blockers import Blocker

_DIGITS: Final = 16


def deadlock(blocked: Mapping[int, Collection[Blocker]]) -> dict[int, tuple[str, ...]]:
    """The brokers that wait for each other, each with the partitions that only another one of them can unblock.

    Args:
        blocked: all brokers that should be taken down but must not be, with their blockers.
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
    """Whether the blocker needs one of these brokers: the other missing brokers are too few."""
    others = [broker for broker in blocker.missing if broker not in among]
    return len(others) < len(blocker.missing) and len(others) < blocker.needs


def word_for(pod_uid: str, partitions: Iterable[str]) -> str:
    """The value of ``spec.acceptUnavailable`` that permits a restart although these partitions then refuse writes.

    It contains the pod's UID, so that it is valid only once: the next pod has a different UID. It is valid for exactly these partitions.
    """
    return hashlib.sha256("\n".join((pod_uid, *sorted(partitions))).encode()).hexdigest()[:_DIGITS]
