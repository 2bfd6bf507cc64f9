"""Rule 9: few at once. When many disks go bad together it is the network, the kernel or us, and nothing acts by itself."""

import math
from collections.abc import Mapping
from typing import Final

from spindle.cluster.waiting import Waiting, counted

WINDOW_SECONDS: Final = 600.0
LEAST: Final = 2  # so many may always go bad
_RULE: Final = 9

Verdicts = Mapping[tuple[int, str], float]


def may_act_on_failures(bad: Verdicts, total: int, now: float, share: float = 0.10) -> Waiting | None:
    """Whether anything may be done by itself about bad disks: None for yes.

    Args:
        bad: (broker id, disk) → when its verdict became bad, for each disk that is bad now and was not evacuated yet.
            Seconds since the epoch, best by the clock of the one who asks: a time ahead of it counts as now.
        total: disks that the cluster has.
        now: seconds since the epoch.
        share: of them that may go bad together.
    """
    counted_brokers = recent(bad, now)
    most = limit(total, share)
    if len(counted_brokers) <= most:
        return None
    disks = [f"{broker}/{disk}" for broker, disk in sorted(bad) if _recent(bad[broker, disk], now)]
    return Waiting.refused(
        rule=_RULE,
        reason="CorrelatedDiskFailures",
        message=(
            f"{counted(len(disks), 'disk')} of {counted(len(counted_brokers), 'broker')} went bad within "
            f"{WINDOW_SECONDS / 60:.0f} minutes; more than {most} at once are hardly the disks' own fault, so nothing is "
            "done about them by itself."
        ),
        unblocked_by=(
            "Look for what they have in common (network, kernel, a change of late). It goes on by itself when fewer "
            "are bad or ten minutes have passed without another; a higher spec.disks.automaticShare lets it go on now."
        ),
        objects=tuple(disks),
    )


def limit(total: int, share: float) -> int:
    """How many may go bad within the window."""
    return max(LEAST, math.floor(share * total + 1e-9))


def recent(bad: Verdicts, now: float) -> frozenset[int]:
    """The brokers that have a disk whose verdict is of the last ten minutes; each counts once."""
    return frozenset(broker for (broker, _), since in bad.items() if _recent(since, now))


def _recent(since: float, now: float) -> bool:
    return now - since < WINDOW_SECONDS
