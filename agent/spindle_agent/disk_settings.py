"""Settings of a KafkaCluster for its disks: probe settings (``spec.disks``) and the cluster id (``status.clusterId``)."""

import time
from typing import Any, Final

from spindle.disks.findings import ProbeSettings
from spindle_agent.kube import Kube
from spindle_shared.api_answers import ApiError

_FRESH: Final = 60.0


class DiskSettings:
    """Settings by cluster; the last ones read, or the defaults, while a KafkaCluster cannot be read."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._known: dict[tuple[str, str], tuple[float, ProbeSettings, str]] = {}

    def of(self, namespace: str, cluster: str) -> ProbeSettings:
        """The settings that were read last."""
        known = self._known.get((namespace, cluster))
        return known[1] if known is not None else ProbeSettings()

    def cluster_id(self, namespace: str, cluster: str) -> str:
        """Kafka's cluster id as it was read last; empty if it was not read yet."""
        known = self._known.get((namespace, cluster))
        return known[2] if known is not None else ""

    async def refresh(self, namespace: str, cluster: str) -> bool:
        """Reread outdated settings; returns whether they changed."""
        key, now = (namespace, cluster), time.monotonic()
        before = self._known.get(key)
        settings, cluster_id = self.of(namespace, cluster), self.cluster_id(namespace, cluster)
        # Without the id nothing is written to the disks, so it is reread soon.
        if before is not None and cluster_id and now - before[0] < _FRESH:
            return False
        try:
            found = await self._kube.cluster(namespace, cluster)
        except ApiError:
            self._known[key] = now, settings, cluster_id
            return False
        made = read(found.get("spec") or {}), str((found.get("status") or {}).get("clusterId") or "")
        self._known[key] = now, *made
        return made != (settings, cluster_id)


def read(spec: dict[str, Any]) -> ProbeSettings:
    """Read the probe settings from a KafkaCluster's spec."""
    disks = spec.get("disks") or {}
    default = ProbeSettings()
    return ProbeSettings(
        interval=float(disks.get("probeIntervalSeconds", default.interval)),
        hung_after=float(disks.get("hungAfterSeconds", default.hung_after)),
    )
