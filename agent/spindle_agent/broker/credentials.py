"""The agent's certificate for one cluster, from the Secret that the operator keeps for it in the agent's namespace."""

import base64
import binascii
import time
from typing import Any, Final

from spindle.cluster import names
from spindle_agent.kube import ApiError, Kube

_FRESH: Final = 60.0  # seconds after which the Secret is read again


class Credentials:
    """Certificates by cluster, read anew now and then; the former ones while the API server is away."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._known: dict[tuple[str, str], tuple[float, tuple[bytes, bytes, bytes]]] = {}

    async def of(self, namespace: str, cluster: str) -> tuple[bytes, bytes, bytes]:
        """Authority, certificate and key.

        Raises:
            ApiError: they were never read, and cannot be read now.
            LookupError: there is no such Secret, or it is not complete.
        """
        name = names.agent_secret(namespace, cluster)
        known = self._known.get((namespace, cluster))
        now = time.monotonic()
        if known is not None and now - known[0] < _FRESH:
            return known[1]
        try:
            secret = await self._kube.secret(self._namespace, name)
        except ApiError:
            if known is None:
                raise
            return known[1]
        if secret is None:
            raise LookupError(f"there is no Secret {self._namespace}/{name}")
        made = _parts(secret)
        if made is None:
            raise LookupError(f"Secret {self._namespace}/{name} lacks ca.crt, tls.crt or tls.key")
        self._known[namespace, cluster] = now, made
        return made

    def doubt(self, namespace: str, cluster: str) -> None:
        """Read it again with the next question: the broker did not take it, or is not there."""
        known = self._known.get((namespace, cluster))
        if known is not None:
            self._known[namespace, cluster] = time.monotonic() - _FRESH, known[1]


def _parts(secret: dict[str, Any]) -> tuple[bytes, bytes, bytes] | None:
    data = secret.get("data") or {}
    try:
        authority, certificate, key = (
            base64.b64decode(data[name]) for name in ("ca.crt", "tls.crt", "tls.key")
        )
    except (KeyError, TypeError, binascii.Error):
        return None
    return authority, certificate, key
