"""How the disks of a cluster are to be watched: ``spec.disks`` of its KafkaCluster."""

import time
from typing import Any, Final

from spindle.disks.findings import Tuning
from spindle_agent.kube import ApiError, Kube

_FRESH: Final = 60.0


class Tunings:
    """By cluster; the former, or the default, where it cannot be read."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[tuple[str, str], tuple[float, Tuning]] = {}

    def of(self, namespace: str, cluster: str) -> Tuning:
        """What was read last."""
        known = self._known.get((namespace, cluster))
        return known[1] if known is not None else Tuning()

    async def refresh(self, namespace: str, cluster: str) -> bool:
        """Read what has grown old; returns whether it is another now."""
        key, now = (namespace, cluster), time.monotonic()
        before = self._known.get(key)
        if before is not None and now - before[0] < _FRESH:
            return False
        tuning = self.of(namespace, cluster)
        try:
            found = await self._kube.cluster(namespace, cluster)
        except ApiError:
            self._known[key] = now, tuning
            return False
        made = read(found.get("spec") or {})
        self._known[key] = now, made
        return made != tuning


def read(spec: dict[str, Any]) -> Tuning:
    """From a KafkaCluster's spec."""
    disks = spec.get("disks") or {}
    default = Tuning()
    return Tuning(
        interval=float(disks.get("probeIntervalSeconds", default.interval)),
        hung_after=float(disks.get("hungAfterSeconds", default.hung_after)),
    )
