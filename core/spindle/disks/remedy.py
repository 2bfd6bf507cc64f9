"""The remedy for a bad disk, and after what time: nothing, waiting, a restart of its broker, or evacuation."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spindle.disks.health import KAFKA_OFFLINE, OFFLINE_FULL, Health

RESTART_AFTER_SECONDS: Final = 30.0
EVACUATE_UNSEEN_AFTER_SECONDS: Final = 60.0  # without an agent, Kafka's report must last this long
MOST_RESTARTS: Final = (
    3  # within an hour; a disk that Kafka takes offline more often is bad, whatever the probes report
)


class Remedy(StrEnum):
    """The remedy for a disk."""

    NOTHING = "nothing"
    WAIT = "wait"
    RESTART = "restart"  # the disk answers, so Kafka uses the log dir again after a restart
    EVACUATE = "evacuate"


@dataclass(frozen=True)
class RecoveryTimers:
    """What the remedy depends on in addition to the health of the disk.

    Attributes:
        agent: whether an agent checks the disk and is alive.
        restart_count: restarts of the broker because of this disk in the last hour.
        grace: ``spec.disks.graceSeconds``.
    """

    agent: bool
    restart_count: int = 0
    grace: float = 600.0


def remedy(health: Health, now: float, patience: RecoveryTimers) -> Remedy:
    """The remedy for the disk now; the safety rules are checked afterwards."""
    if not health.surely_bad:
        return Remedy.NOTHING
    age = now - health.since
    if health.reason == OFFLINE_FULL:
        # Freeing space resolves it: the reason then changes to that of a disk that answers.
        return Remedy.EVACUATE if age >= patience.grace else Remedy.WAIT
    if health.reason != KAFKA_OFFLINE:
        return Remedy.EVACUATE
    if not patience.agent:
        return Remedy.EVACUATE if age >= EVACUATE_UNSEEN_AFTER_SECONDS else Remedy.WAIT
    if patience.restart_count >= MOST_RESTARTS:
        return Remedy.EVACUATE
    return Remedy.RESTART if age >= RESTART_AFTER_SECONDS else Remedy.WAIT
