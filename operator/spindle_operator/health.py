"""Liveness of the operator: does it still finish passes?"""

import time
from collections.abc import Callable
from typing import Final

BOUND: Final = (
    300.0  # seconds without a finished pass of any cluster, after which the kubelet must restart the operator
)


class Health:
    """When each cluster's last pass finished. A pass that failed has finished too: reconciling goes on."""

    def __init__(self, bound: float = BOUND, clock: Callable[[], float] = time.monotonic) -> None:
        """No clusters yet.

        Args:
            bound: seconds; see ``BOUND``.
            clock: monotonic seconds.
        """
        self._bound = bound
        self._clock = clock
        self._finished: dict[str, float] = {}
        self.ready = False

    def started(self, cluster: str) -> None:
        """Start tracking a cluster."""
        self._finished.setdefault(cluster, self._clock())

    def finished(self, cluster: str) -> None:
        """A pass of this cluster has ended."""
        if cluster in self._finished:
            self._finished[cluster] = self._clock()

    def stopped(self, cluster: str) -> None:
        """Stop tracking a cluster."""
        self._finished.pop(cluster, None)

    def ages(self) -> dict[str, float]:
        """Cluster → seconds since its last pass ended (or since it is tracked)."""
        now = self._clock()
        return {cluster: now - at for cluster, at in self._finished.items()}

    def problem(self) -> str | None:
        """Why this process should be restarted; None for a healthy one. A standby has no clusters, and is healthy.

        It concerns the event loop that all clusters share: as long as passes of any cluster finish, a restart does not help, and one slow cluster
        must not cause a restart for all.
        """
        ages = self.ages()
        if not ages or min(ages.values()) <= self._bound:
            return None
        return f"no pass of any of {len(ages)} clusters has finished for {min(ages.values()):.0f} seconds"
