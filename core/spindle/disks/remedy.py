"""What a bad disk calls for, and after what time: nothing, patience, a restart of its broker, or to be emptied."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from spindle.disks.health import KAFKA_OFFLINE, OFFLINE_FULL, Health

RESTART_AFTER_SECONDS: Final = 30.0
EVACUATE_UNSEEN_AFTER_SECONDS: Final = 60.0  # where no agent looks, Kafka's word has to last
MOST_RESTARTS: Final = (
    3  # within an hour; a disk that Kafka gives up more often is no good, whatever probes say
)


class Remedy(StrEnum):
    """What a disk calls for."""

    NOTHING = "nothing"
    WAIT = "wait"
    RESTART = "restart"  # the disk answers, so Kafka takes the log dir up again when it starts
    EVACUATE = "evacuate"


@dataclass(frozen=True)
class RecoveryTimers:
    """What is known beside the health of the disk.

    Attributes:
        agent: whether an agent looks at the disk and lives.
        restart_count: of the broker, for this disk's sake, in the last hour.
        grace: ``spec.disks.graceSeconds``.
    """

    agent: bool
    restart_count: int = 0
    grace: float = 600.0


def remedy(health: Health, now: float, patience: RecoveryTimers) -> Remedy:
    """What the disk calls for now; the safety rules have their say afterwards."""
    if not health.surely_bad:
        return Remedy.NOTHING
    age = now - health.since
    if health.reason == OFFLINE_FULL:
        # Space that is freed heals it: then the reason changes to that of a disk that answers.
        return Remedy.EVACUATE if age >= patience.grace else Remedy.WAIT
    if health.reason != KAFKA_OFFLINE:
        return Remedy.EVACUATE
    if not patience.agent:
        return Remedy.EVACUATE if age >= EVACUATE_UNSEEN_AFTER_SECONDS else Remedy.WAIT
    if patience.restart_count >= MOST_RESTARTS:
        return Remedy.EVACUATE
    return Remedy.RESTART if age >= RESTART_AFTER_SECONDS else Remedy.WAIT
