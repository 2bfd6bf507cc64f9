"""The agent's certificates, one per cluster, all for the one key that never leaves the agent.

The operator signs them and stores them in a ConfigMap per cluster in the agents' namespace; they are not secret.
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

    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        """CA, certificate and key.

        Raises:
            ApiError: they were never read and cannot be read now.
            LookupError: there is no certificate for this agent's key yet.
        """
        name = names.agent_certificates(namespace, cluster)
        known = self._known.get((namespace, cluster))
        now = time.monotonic()
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        try:
            found = await self._kube.config_map(self._namespace, name)
        except ApiError:
            if known is None:
                raise
            return known[1]
        made = self._parts((found or {}).get("data") or {})
        if made is None:
            raise LookupError(f"ConfigMap {self._namespace}/{name} has no certificate for {self._node} yet")
        self._known[namespace, cluster] = now, made
        return made

    def doubt(self, namespace: str, cluster: str) -> None:
        """Reread it with the next request, because the broker rejected it or cannot be reached."""
        known = self._known.get((namespace, cluster))
        if known is not None:
            self._known[namespace, cluster] = time.monotonic() - _FRESH, known[1]

    def _parts(self, data: Mapping[str, str]) -> tuple[bytes, bytes, bytes] | None:
        authority, certificate = (str(data.get(key) or "") for key in (names.AGENT_AUTHORITIES, self._node))
        # After a restart the ConfigMap may still hold the certificate of the former key.
        if not authority or not self._key.fits(certificate):
            return None
        return authority.encode(), certificate.encode(), self._key.private
