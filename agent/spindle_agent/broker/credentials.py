"""The agent's certificates, one per cluster, all for the one key that never leaves the agent.

The operator signs them and stores them in ConfigMaps in the agents' namespace, for each cluster one with the nodes of this agent's part; they are
not secret. Operators of earlier versions store those of all nodes in one.
"""

import time
from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle_agent.broker.keys import AgentKey
from spindle_agent.kube import Kube
from spindle_shared.api_answers import ApiError

_FRESH: Final = 60.0  # seconds after which the ConfigMap is read again


class Credentials:
    """Certificates by cluster, reread from time to time; the last ones known while the API server is unreachable."""

    def __init__(self, kube: Kube, namespace: str, node: str, key: AgentKey) -> None:
        self._kube = kube
        self._namespace = namespace
        self._node = node
        self._key = key
        self._known: dict[tuple[str, str], tuple[float, tuple[bytes, bytes, bytes]]] = {}
        self._doubted: set[tuple[str, str]] = set()

    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        """CA, certificate and key.

        Raises:
            ApiError: they were never read and cannot be read now.
            LookupError: there is no certificate for this agent's key yet.
        """
        known = self._known.get((namespace, cluster))
        now = time.monotonic()
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        try:
            made = await self._read(namespace, cluster)
        except ApiError:
            if known is None:
                raise
            return known[1]
        self._doubted.discard((namespace, cluster))
        self._known[namespace, cluster] = now, made
        return made

    async def _read(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        name = names.agent_part(namespace, cluster, self._node)
        known = self._known.get((namespace, cluster))
        found = []
        for place in (name, names.agent_certificates(namespace, cluster)):
            there = await self._kube.config_map(self._namespace, place)
            made = self._parts((there or {}).get("data") or {})
            if made is not None and (namespace, cluster) not in self._doubted:
                return made
            found += [made] if made is not None else []
        if not found:
            raise LookupError(f"ConfigMap {self._namespace}/{name} has no certificate for {self._node} yet")
        # An operator that was replaced by one of an earlier version renews only the ConfigMap of all nodes.
        others = [made for made in found if known is None or made != known[1]]
        return (others or found)[0]

    def doubt(self, namespace: str, cluster: str) -> None:
        """Reread it with the next request, because the broker rejected it or cannot be reached."""
        known = self._known.get((namespace, cluster))
        if known is not None:
            self._known[namespace, cluster] = time.monotonic() - _FRESH, known[1]
            self._doubted.add((namespace, cluster))

    def _parts(self, data: Mapping[str, str]) -> tuple[bytes, bytes, bytes] | None:
        authority, certificate = (str(data.get(key) or "") for key in (names.AGENT_AUTHORITIES, self._node))
        # After a restart the ConfigMap may still hold the certificate of the former key.
        if not authority or not self._key.fits(certificate):
            return None
        return authority.encode(), certificate.encode(), self._key.private
