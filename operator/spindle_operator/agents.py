"""What the operator sees of the agents: the Leases by which they say that they live, and the Secret that they were given.

Both stand in the agents' own namespace. Of its Secrets the operator reads one by name for each cluster, never the list.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from spindle.cluster import names
from spindle_operator.kinds import LEASE, SECRET
from spindle_operator.kube import ApiError, Json, Kube

log = logging.getLogger(__name__)

_LEASES: Final = "leases"
_SECRET: Final = "agentsecrets"  # noqa: S105 - a key of Snapshot.unknown


@dataclass(frozen=True)
class Agents:
    """One look at the agents' namespace.

    Attributes:
        namespace: empty if there are no agents.
        secret: the one of this cluster.
        renewed: node → when its agent last renewed its Lease, in seconds since the epoch.
        problems: what could not be read, by its key in ``Snapshot.unknown`` → why.
    """

    namespace: str = ""
    secret: Json | None = None
    renewed: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


async def look(kube: Kube, agent_namespace: str, namespace: str, cluster: str) -> Agents:
    """Look at the agents on behalf of one KafkaCluster; where there are none, nothing is asked."""
    if not agent_namespace:
        return Agents()
    problems: dict[str, str] = {}

    async def leases() -> list[Json]:
        try:
            return await kube.items(LEASE, agent_namespace)
        except ApiError as error:
            problems[_LEASES] = str(error)
            return []

    async def secret() -> Json | None:
        try:
            return await kube.find(SECRET, agent_namespace, names.agent_secret(namespace, cluster))
        except ApiError as error:
            problems[_SECRET] = str(error)
            return None

    found, own = await asyncio.gather(leases(), secret())
    for what, why in problems.items():
        log.warning("%s cannot be read in %s for %s/%s: %s", what, agent_namespace, namespace, cluster, why)
    renewed = {node: at for lease in found for node, at in _renewal(lease)}
    return Agents(agent_namespace, own, renewed, problems)


def _renewal(lease: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The node and the time of a Lease; none if it is no agent's, or its time is none."""
    prefix = names.agent_lease("")
    name = str(lease["metadata"]["name"])
    at = (lease.get("spec") or {}).get("renewTime")
    if not name.startswith(prefix) or not isinstance(at, str):
        return []
    try:
        return [(name.removeprefix(prefix), datetime.fromisoformat(at).timestamp())]
    except ValueError:
        return []
