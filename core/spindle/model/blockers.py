"""Partitions that keep a broker from being taken down."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Blocker:
    """A partition that prevents a broker from being taken down.

    Attributes:
        partition: its name.
        missing: brokers that should have an in-sync replica on a live dir, but have none or are being taken down.
        needs: how many of these must be back before the broker may be taken down.
    """

    partition: str
    missing: frozenset[int]
    needs: int


@dataclass(frozen=True)
class Blocked:
    """A broker that should be taken down but must not be.

    Attributes:
        partitions: names of the partitions that need it.
        blockers: what must happen before each of them no longer needs it.
        alone: those of them without another in-sync replica.
        restarts: whether it would restart if these partitions did not need it, because nothing else holds it back.
    """

    partitions: tuple[str, ...]
    blockers: tuple[Blocker, ...]
    alone: tuple[str, ...] = ()
    restarts: bool = True
