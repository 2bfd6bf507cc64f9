"""The Kubernetes API as raw JSON over aiohttp: the only module with HTTP requests to it.

Raw dicts, not typed models: parsing thousands of pods into models costs twenty times as much as ``json.loads``. From the
client library only the handling of credentials is used.
"""

import asyncio
import json
import logging
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import stamina
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.configuration import Configuration

from spindle.api import names
from spindle_operator.kinds import CONFIG_MAP, KAFKA_BROKER, NODE, POD, SECRET, Kind, kind_of
from spindle_shared.api_answers import ApiError, Json, no_answer, read_answer

log = logging.getLogger(__name__)

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"

_PAGE: Final = 500
_LARGE: Final = (CONFIG_MAP, KAFKA_BROKER, NODE, POD, SECRET)  # of each broker one of up to tens of kilobytes
_LARGE_PAGE: Final = 100
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
# A watch ends at the server after five minutes. Bookmarks come about once a minute unless the server is idle: a connection without one may be half-open.
_WATCHED: Final = "300"
_WATCHING: Final = aiohttp.ClientTimeout(total=330, sock_connect=5, sock_read=75)
_LONGEST_EVENT: Final = 16 << 20  # bytes; etcd holds no object of more than 1.5 MiB
_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOO_LARGE: Final = 413
_TOO_MANY: Final = 429
_RETRIED: Final = (500, 502, 503, 504, _TOO_MANY)


class ByteBudget:
    """Limit on the bytes of responses of one observation: users who create objects in a namespace may be malicious."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def spend(self, count: int) -> None:
        """Count received bytes.

        Raises:
            ApiError: the limit is exceeded.
        """
        self._left -= count
        if self._left < 0:
            raise ApiError(
                _TOO_LARGE,
                "TooMuch",
                f"all that is read for this KafkaCluster is more than {self._most >> 20} MiB: there are too many or too large objects in its namespace",
            )


def _passing(error: Exception) -> bool:
    """Whether to retry: no response, or a response of a busy or restarting server."""
    return isinstance(error, ApiError) and (error.status == 0 or error.status in _RETRIED)


class Kube:
    """A connection to one API server. Every method raises ApiError."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._session: aiohttp.ClientSession | None = None
        self._watching: aiohttp.ClientSession | None = None

    @property
    def configuration(self) -> Configuration:
        """Address and credentials, for kopf, which holds connections of its own."""
        return self._configuration

    async def token(self) -> str | None:
        """The bearer token without its scheme, reloaded when it is about to expire; None with client certificates."""
        value = await self._configuration.get_api_key_with_prefix("BearerToken")
        return value.split(" ", 1)[-1].strip() if value else None

    async def close(self) -> None:
        """Close the connections."""
        for session in (self._session, self._watching):
            if session is not None:
                await session.close()
        self._session = self._watching = None

    # Reading

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json:
        """Read one object."""
        return await self._retried("GET", kind.path(namespace, name))

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        """Read one object; None if the server reports that it does not exist."""
        try:
            return await self.get(kind, namespace, name)
        except ApiError as error:
            if error.gone:
                return None
            raise

    async def items(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        selector: str | None = None,
        within: ByteBudget | None = None,
        same: Callable[[Json], Json] | None = None,
    ) -> list[Json]:
        """Read all objects of a kind, page by page, within an allowance if one is given.

        The read is consistent (no ``resourceVersion=0``): a stale cache could show a deleted pod, or hide one
        that a former leader created.

        Args:
            kind, namespace, selector, within: what is read, and how much.
            same: returns the object itself, or an equal one that this process already holds, so that it does not hold both.
        """
        found, _ = await self.listed(kind, namespace, selector, within=within, same=same)
        return found

    async def metadata(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        selector: str | None = None,
        within: ByteBudget | None = None,
    ) -> list[Json]:
        """Read only the metadata of all objects of a kind: to see which have changed, for kinds with large specs."""
        found, _ = await self.listed(kind, namespace, selector, whole=False, within=within)
        return found

    async def revision(self, kind: Kind, namespace: str | None) -> str:
        """The resourceVersion of a list now: not lower than any that the server gave before, unless its data was restored. Not retried: that it does not answer matters."""
        answer = await self.request("GET", kind.path(namespace), {"limit": "1"}, accept=_METADATA)
        return str((answer.get("metadata") or {}).get("resourceVersion") or "")

    async def listed(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str | None,
        *,
        whole: bool = True,
        within: ByteBudget | None,
        same: Callable[[Json], Json] | None = None,
    ) -> tuple[list[Json], str]:
        """All objects of a kind, and the resourceVersion that a watch continues from.

        Args:
            kind, namespace: as for `items`.
            selector: of labels; None for all.
            whole: False for the metadata only.
            within: limit on the bytes; None for no limit.
            same: as for `items`.
        """
        page = min(_PAGE, _LARGE_PAGE) if whole and kind in _LARGE else _PAGE
        query = {"limit": str(page)} | ({"labelSelector": selector} if selector else {})
        accept = "application/json" if whole else _METADATA
        found: list[Json] = []
        while True:
            answer = await self._retried("GET", kind.path(namespace), query, accept=accept, within=within)
            for item in answer.pop("items", None) or ():
                obj = trim(kind, item)
                found.append(obj if same is None else same(obj))
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                return found, str(meta.get("resourceVersion") or "")
            query["continue"] = meta["continue"]

    async def watch(
        self, kind: Kind, namespace: str | None, selector: str | None, version: str, *, whole: bool
    ) -> AsyncGenerator[Json | None, None]:
        """What changes after a resourceVersion: each event. First comes None: the server accepted the watch.

        Ends when the server ends it, after some minutes; continue from the last resourceVersion.

        Raises:
            ApiError: it is refused, or broke; or nothing came for longer than bookmarks take.
        """
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query |= {"timeoutSeconds": _WATCHED} | ({"labelSelector": selector} if selector else {})
        headers = {
            "Accept": "application/json" if whole else _ONE_METADATA,
            "User-Agent": names.FIELD_MANAGER,
        }
        url = self._configuration.host.rstrip("/") + kind.path(namespace)
        try:
            if token := await self.token():
                headers["Authorization"] = f"Bearer {token}"
            async with self._watches().get(url, params=query, headers=headers, timeout=_WATCHING) as response:
                if response.status != _OK:
                    read_answer(response.status, response.reason or "", await response.read())
                yield None
                async for line in _lines(response.content):
                    yield _event(kind, line)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error

    async def probe(self, kind: Kind, namespace: str | None) -> bool:
        """Whether objects of this kind may be listed here (and hence watched, with the rights that the chart grants)."""
        try:
            await self._retried("GET", kind.path(namespace), {"limit": "1"})
        except ApiError as error:
            if error.forbidden or error.gone:
                return False
            raise
        return True

    # Writing

    async def create(self, obj: Mapping[str, Any], namespace: str | None = None) -> Json:
        """Create an object. Not retried: a lost response must not turn into "exists already" unnoticed."""
        kind = kind_of(obj)
        return await self.request("POST", kind.path(_namespace(obj, namespace)), body=obj, query=_MANAGER)

    async def try_create(self, obj: Mapping[str, Any], namespace: str | None = None) -> None:
        """Have the API server and its admission webhooks check an object, also for fields that it does not know, and store nothing."""
        kind = kind_of(obj)
        query = {**_MANAGER, "dryRun": "All", "fieldValidation": "Strict"}
        await self.request("POST", kind.path(_namespace(obj, namespace)), body=obj, query=query)

    async def apply(
        self, obj: Mapping[str, Any], namespace: str | None = None, *, subresource: str | None = None
    ) -> Json:
        """Server-side apply with force: takes ownership of all fields in the object."""
        kind = kind_of(obj)
        path = kind.path(_namespace(obj, namespace), obj["metadata"]["name"], subresource)
        return await self._retried("PATCH", path, {**_MANAGER, "force": "true"}, obj, APPLY)

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        content_type: str = MERGE,
    ) -> Json:
        """Merge patch (or strategic merge patch); UID and resourceVersion in its metadata are preconditions."""
        return await self.request(
            "PATCH", kind.path(namespace, name, subresource), _MANAGER, body, content_type
        )

    async def delete(
        self, kind: Kind, namespace: str | None, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> None:
        """Delete one object if it is still the one with this UID; None for the object's own grace period."""
        body: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        await self.request("DELETE", kind.path(namespace, name), body=body)

    async def evict(self, namespace: str, pod: str, uid: str, resource_version: str) -> None:
        """Evict a pod unless it changed or a PodDisruptionBudget forbids it (429)."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid, "resourceVersion": resource_version}},
        }
        await self.request("POST", POD.path(namespace, pod, "eviction"), body=body)

    # Transport

    async def _retried(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        *,
        accept: str = "application/json",
        within: ByteBudget | None = None,
    ) -> Json:
        """As ``request``, with up to three attempts: only for idempotent requests."""
        async for attempt in stamina.retry_context(
            on=_passing, attempts=3, timeout=20, wait_initial=0.3, wait_max=3
        ):
            with attempt:
                return await self.request(
                    method, path, query, body, content_type, accept=accept, within=within
                )
        raise AssertionError("unreachable: stamina returns or raises")

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - of the connection, not of the task
        accept: str = "application/json",
        within: ByteBudget | None = None,
    ) -> Json:
        """One request, one response; not more of it is read than the allowance permits."""
        headers = {"Accept": accept, "User-Agent": names.FIELD_MANAGER}
        data = None
        if body is not None:
            data = json.dumps(body, default=_plain)
            headers["Content-Type"] = content_type
        try:
            if token := await self.token():
                headers["Authorization"] = f"Bearer {token}"
            async with self._connection().request(
                method,
                self._configuration.host.rstrip("/") + path,
                params=query,
                data=data,
                headers=headers,
                timeout=_TIMEOUT if timeout is None else aiohttp.ClientTimeout(total=timeout),
            ) as response:
                raw = await _body(response, within)
                return read_answer(response.status, response.reason or "", raw)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise no_answer(error) from error

    def _connection(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=_tls(self._configuration), limit=32)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    def _watches(self) -> aiohttp.ClientSession:
        """Connections of their own: each watch holds one."""
        if self._watching is None:
            connector = aiohttp.TCPConnector(ssl=_tls(self._configuration), limit=0)
            self._watching = aiohttp.ClientSession(connector=connector)
        return self._watching


def trim(kind: Kind, item: Json) -> Json:
    """An object of a list or a watch, complete, and without what is unused and large: managedFields, and a node's images."""
    # List items lack kind and apiVersion, and metadata has another kind; the plan needs complete objects.
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.kind)
    item.get("metadata", {}).pop("managedFields", None)
    if kind is NODE:
        (item.get("status") or {}).pop("images", None)
    return item


def _event(kind: Kind, line: bytes) -> Json:
    """One event of a watch.

    Raises:
        ApiError: it is none, or the server reports an error, such as 410 for a resourceVersion that is too old.
    """
    try:
        event: Json = json.loads(line)
        obj, what = event["object"], event["type"]
    except (ValueError, KeyError, TypeError) as error:
        raise ApiError(0, "NoEvent", f"the API server sent what is no event of a watch: {error}") from error
    if what == "ERROR":
        raise ApiError(int(obj.get("code") or 0), str(obj.get("reason")), str(obj.get("message")))
    trim(kind, obj)
    return event


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """The lines of a stream, of any length up to that of the largest object."""
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        *ends, rest = part.split(b"\n")
        for end in ends:
            line = b"".join((*parts, end))
            parts, size = [], 0
            if line:
                yield line
        parts.append(rest)
        size += len(rest)
        if size > _LONGEST_EVENT:
            raise ApiError(_TOO_LARGE, "TooMuch", "an event of a watch is larger than any object")


async def _body(response: aiohttp.ClientResponse, within: ByteBudget | None) -> bytes:
    if within is None:
        return await response.read()
    parts = []
    async for part in response.content.iter_any():
        within.spend(len(part))
        parts.append(part)
    return b"".join(parts)


_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_ONE_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_OK: Final = 200
_MANAGER: Final = {"fieldManager": names.FIELD_MANAGER}


def _plain(value: object) -> Any:
    """Convert mappings and other read-only types of the core to JSON types."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} cannot be converted to JSON")


def _namespace(obj: Mapping[str, Any], fallback: str | None) -> str | None:
    namespace: str | None = obj["metadata"].get("namespace")
    return namespace or fallback


def _tls(configuration: Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https"):
        return True
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _configuration() -> Configuration:
    """Find the API server: KUBECONFIG if it is set, else the pod's service account, else ``~/.kube/config``."""
    configuration = Configuration()
    in_cluster = (_SERVICE_ACCOUNT / "token").is_file() and "KUBERNETES_SERVICE_HOST" in os.environ
    if in_cluster and "KUBECONFIG" not in os.environ:
        kubernetes_config.load_incluster_config(client_configuration=configuration)
    else:
        # Passed explicitly, since the library reads the variable only once, at import.
        await kubernetes_config.load_kube_config(
            os.environ.get("KUBECONFIG"), client_configuration=configuration
        )
    return configuration


@asynccontextmanager
async def connect() -> AsyncIterator[Kube]:
    """A connection to the API server of this process."""
    kube = Kube(await _configuration())
    try:
        yield kube
    finally:
        await kube.close()
        # aiohttp closes TLS connections in the next iterations of the event loop; without these Python warns at exit.
        await asyncio.sleep(0)
