"""Which brokers of a pool leave when it is to have fewer."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class ScaleInCandidate:
    """One broker of a pool.

    Attributes:
        stopped: it was stopped for good already, on its way out.
        named: a person wants it to be the first to go.
        idle: Kafka has never heard of it, so nothing can be on it.
    """

    broker: int
    stopped: bool = False
    named: bool = False
    idle: bool = False


def choose_brokers(members: Iterable[ScaleInCandidate], wanted: int) -> tuple[int, ...]:
    """The brokers that are too many, in the order in which they go.

    First whoever is out already, then those that a person named, then those that never ran, then the highest ids. The order depends on
    nothing that draining changes, so a broker that has begun to leave goes on leaving.

    Args:
        members: of one pool.
        wanted: how many it is to have; 0 for a pool that is to go.
    """
    order = sorted(members, key=lambda m: (not m.stopped, not m.named, not m.idle, -m.broker))
    return tuple(member.broker for member in order[: max(0, len(order) - wanted)])
