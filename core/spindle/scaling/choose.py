"""Which brokers of a pool are removed on scale-in."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ScaleInCandidate:
    """One broker of a pool.

    Attributes:
        stopped: it is already stopped for its removal.
        named: a user requested to remove it first (``spec.maintenance.removeFirst``).
        idle: it never registered with Kafka, so nothing can be on it.
    """

    broker: int
    stopped: bool = False
    named: bool = False
    idle: bool = False


def choose_brokers(members: Iterable[ScaleInCandidate], wanted: int) -> tuple[int, ...]:
    """The surplus brokers, in the order of their removal.

    First brokers that are already stopped, then those that a user named, then those that never ran, then the highest ids. The order depends
    on nothing that a drain changes, so the removal of a broker continues once it has started.

    Args:
        members: the brokers of one pool.
        wanted: desired number of brokers; 0 for a pool that is removed.
    """
    order = sorted(members, key=lambda m: (not m.stopped, not m.named, not m.idle, -m.broker))
    return tuple(member.broker for member in order[: max(0, len(order) - wanted)])
