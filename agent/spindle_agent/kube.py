"""The agent's few Kubernetes API requests, as raw JSON over aiohttp.

No client library: the agent runs on every node, and a library would use more memory than the rest of the agent.
"""

import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from spindle.api import names
from spindle_shared.api_answers import ApiError, Json, no_answer, read_answer

log = logging.getLogger(__name__)

APPLY: Final = "application/apply-patch+yaml"
_PAGE: Final = "500"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10, sock_connect=5)
_WATCH_SECONDS: Final = 290
_SILENCE: Final = 90.0  # bookmarks come about once a minute; a watch without any is dead
_TOKEN_AGE: Final = (
    60.0  # seconds after which the token is reread; the kubelet renews it long before it expires
)
_LARGEST_EVENT: Final = 4 * 2**20


class Token:
    """The service account token, reread because the kubelet renews it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._value = ""
        self._read_at = -_TOKEN_AGE

    def value(self, now: float) -> str:
        """The token; the last one read while the file cannot be read."""
        if now - self._read_at >= _TOKEN_AGE:
            try:
                self._value = self._path.read_text(encoding="ascii").strip()
                self._read_at = now
            except OSError as error:
                log.warning("reading the token failed: %s", error)
        return self._value

    def expire(self) -> None:
        """Reread the token with the next request, because the server rejected it."""
        self._read_at = -_TOKEN_AGE


class Kube:
    """A connection to one API server. Every method raises ApiError."""

    def __init__(self, server: str, token_file: Path, ca_file: Path) -> None:
        self._server = server.rstrip("/")
        self._token = Token(token_file)
        self._ca_file = ca_file
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def brokers(self, namespace: str, node: str = "") -> tuple[list[Json], str]:
        """The KafkaBrokers of a namespace (empty for all namespaces), and the resourceVersion from which to watch.

        Args:
            namespace: empty for all.
            node: only those of this node; empty for all. A server whose CustomResourceDefinition has no selectable fields answers 400.
        """
        found: list[Json] = []
        query = {"limit": _PAGE, **_of_node(node)}
        while True:
            answer = await self.request("GET", _brokers(namespace), query)
            found.extend(answer.get("items") or ())
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return found, str(meta.get("resourceVersion", ""))
            query["continue"] = meta["continue"]

    async def watch_brokers(self, namespace: str, version: str, node: str = "") -> AsyncIterator[Json]:
        """Events since a resourceVersion, until the server ends the watch or sends nothing for too long; ``node`` as for `brokers`."""
        query = {
            **_of_node(node),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE)
        try:
            async with self._connection().get(
                self._server + _brokers(namespace), params=query, headers=self._headers(), timeout=timeout
            ) as response:
                if response.status >= 400:
                    self._answer(response.status, response.reason or "", await response.read())
                async for line in response.content:
                    if line.strip():
                        yield _event(line)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise no_answer(error, "the watch received nothing for too long") from error

    async def apply_status(self, namespace: str, name: str, observed: Mapping[str, Any]) -> Json:
        """Server-side apply of ``status.observed`` of one KafkaBroker."""
        path = f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{quote(namespace)}/kafkabrokers/{quote(name)}/status"
        body = {
            "apiVersion": names.API_VERSION,
            "kind": "KafkaBroker",
            "metadata": {"name": name, "namespace": namespace},
            "status": {"observed": dict(observed)},
        }
        return await self._apply(path, body)

    async def apply_lease(
        self, namespace: str, name: str, spec: Mapping[str, Any], annotations: Mapping[str, str]
    ) -> Json:
        """Server-side apply of a Lease; it is created if necessary."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases/{quote(name)}"
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": _LABELS,
                "annotations": dict(annotations),
            },
            "spec": dict(spec),
        }
        return await self._apply(path, body)

    async def config_map(self, namespace: str, name: str) -> Json | None:
        """One ConfigMap; None if it does not exist."""
        try:
            return await self.request(
                "GET", f"/api/v1/namespaces/{quote(namespace)}/configmaps/{quote(name)}"
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def cluster(self, namespace: str, name: str) -> Json:
        """One KafkaCluster."""
        path = (
            f"/apis/{names.GROUP}/{names.VERSION}/namespaces/{quote(namespace)}/kafkaclusters/{quote(name)}"
        )
        return await self.request("GET", path)

    async def _apply(self, path: str, body: Mapping[str, Any]) -> Json:
        query = {"fieldManager": names.FIELD_MANAGER_AGENT, "force": "true"}
        return await self.request("PATCH", path, query, body, APPLY)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        """One request and its response, with a time-out of ten seconds."""
        headers = self._headers()
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = content_type
        try:
            async with self._connection().request(
                method, self._server + path, params=query, data=data, headers=headers, timeout=_TIMEOUT
            ) as response:
                return self._answer(response.status, response.reason or "", await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, aiohttp.ClientSSLError):
                await self.close()  # the next request rereads the CA certificate
            raise no_answer(error) from error

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": names.FIELD_MANAGER_AGENT}
        if token := self._token.value(time.monotonic()):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _answer(self, status: int, phrase: str, raw: bytes) -> Json:
        if status == 401:
            self._token.expire()
        return read_answer(status, phrase, raw)

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls: ssl.SSLContext | bool = True
            if self._server.startswith("https"):
                # An OSError here (the file does not exist yet) is retried too.
                tls = ssl.create_default_context(cafile=str(self._ca_file))
            connector = aiohttp.TCPConnector(ssl=tls, limit=8)
            self._session = aiohttp.ClientSession(connector=connector, read_bufsize=_LARGEST_EVENT)
        return self._session


_LABELS: Final = {names.LABEL_MANAGED_BY: names.MANAGED_BY}


def _of_node(node: str) -> dict[str, str]:
    return {"fieldSelector": f"spec.node={node}"} if node else {}


def _brokers(namespace: str) -> str:
    within = f"/namespaces/{quote(namespace)}" if namespace else ""
    return f"/apis/{names.GROUP}/{names.VERSION}{within}/kafkabrokers"


def _event(line: bytes) -> Json:
    event = json.loads(line)
    if event.get("type") == "ERROR":
        status = event.get("object") or {}
        raise ApiError(
            int(status.get("code") or 0), str(status.get("reason", "")), str(status.get("message", ""))
        )
    return dict(event)
