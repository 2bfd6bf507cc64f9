"""Correlated disk failures: "no automatic action on many disks at once" (`docs/safety.md`, rule 9).

When many disks go bad together, the cause is the network, the kernel or Spindle itself.
"""

import math
from collections.abc import Mapping
from typing import Final

from spindle.model.waiting import Waiting, counted

WINDOW_SECONDS: Final = 600.0
LEAST: Final = 2  # this many may always go bad
SHARED_FOR_SECONDS: Final = (
    60.0  # for which disks of one node that stall together are attributed to a starved node
)
_RULE: Final = 9

Verdicts = Mapping[tuple[int, str], float]


def may_act_on_failures(bad: Verdicts, total: int, now: float, share: float = 0.10) -> Waiting | None:
    """Whether Spindle may act automatically on bad disks: None for yes.

    Args:
        bad: (broker id, disk) → when its verdict became bad, for each disk that is bad now and has not been evacuated yet.
            Seconds since the epoch, preferably by the caller's clock: a time in the future counts as now.
        total: number of disks in the cluster.
        now: seconds since the epoch.
        share: share of the disks that may go bad together.
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
            f"{WINDOW_SECONDS / 60:.0f} minutes. More than {most} at once suggests a common cause rather than failing disks, "
            "so Spindle does not act on them automatically."
        ),
        unblocked_by=(
            "Find the common cause (network, kernel, a recent change). Spindle continues when fewer disks are bad, or when ten "
            "minutes have passed without another one going bad; raise spec.disks.automaticShare to let it continue now."
        ),
        objects=tuple(disks),
    )


def limit(total: int, share: float) -> int:
    """Number of brokers with bad disks that is allowed within the window."""
    return max(LEAST, math.floor(share * total + 1e-9))


def recent(bad: Verdicts, now: float) -> frozenset[int]:
    """The brokers with a disk that went bad within the last ten minutes; each broker counts once."""
    return frozenset(broker for (broker, _), since in bad.items() if _recent(since, now))


def _recent(since: float, now: float) -> bool:
    return now - since < WINDOW_SECONDS
