"""Simple requests to Kubernetes' API with Python's own HTTP client.

The import of the Kubernetes client takes longer than a whole command that only shows something. It knows every kind of kubeconfig; this
module knows the plain ones, a server with a certificate or token, and leaves all others to that client.
"""

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import client
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from spindle_cli.libraries import yaml

_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_STREAM_S: Final = 3600.0  # until the next part of a log
_PART: Final = 4096  # bytes of a log
_CLUSTER: Final = frozenset(
    {"server", "certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"}
)
_USER: Final = frozenset(
    {"client-certificate", "client-certificate-data", "client-key", "client-key-data", "token"}
)
_PROXIES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


class NoAnswerError(Exception):
    """The API server did not answer."""


@dataclass(frozen=True)
class Answer:
    """What the API server answered.

    Attributes:
        status, reason: of HTTP.
    """

    status: int
    reason: str
    body: bytes


@dataclass
class Direct:
    """One API server, over one connection.

    Attributes:
        context: of the kubeconfig; None for the current one.
        server: ``https://host:port``, perhaps with a path.
        namespace: of the context; None if it has none.
        trust: for https; None for http.
        headers: of each request.
    """

    context: str | None
    server: str
    namespace: str | None
    trust: ssl.SSLContext | None
    headers: Mapping[str, str]
    _connection: client.HTTPConnection | None = field(default=None, init=False)

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """Ask for a path.

        Raises:
            NoAnswerError: the connection failed, or broke.
        """
        place = self._place(path, query)
        reused = self._connection is not None
        try:
            return self._asked(place)
        except (OSError, client.HTTPException) as error:
            self._close()
            if not reused or isinstance(error, TimeoutError):
                raise NoAnswerError(str(error) or type(error).__name__) from error
        try:  # the server had closed an idle connection
            return self._asked(place)
        except (OSError, client.HTTPException) as error:
            self._close()
            raise NoAnswerError(str(error) or type(error).__name__) from error

    def change(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> Answer:
        """Send an object, on a new connection: whether a request had an effect is not known if an old connection breaks.

        Args:
            method: of HTTP.
            body: what to send as JSON.
            content: which kind of JSON, for a patch.

        Raises:
            NoAnswerError: the connection failed, or broke.
        """
        self._close()
        try:
            sent = self._sent(self._place(path, query or {}), method, json.dumps(body).encode(), content)
            return Answer(sent.status, sent.reason, sent.read())
        except (OSError, client.HTTPException) as error:
            self._close()
            raise NoAnswerError(str(error) or type(error).__name__) from error

    def follow(self, path: str, query: Mapping[str, str]) -> Answer | Iterator[bytes]:
        """The parts of an answer as they come; an answer that is no success is read at once.

        Raises:
            NoAnswerError: there was no answer; from the iterator: the connection broke.
        """
        apart = Direct(self.context, self.server, self.namespace, self.trust, self.headers)
        try:
            answer = apart._sent(self._place(path, query))
            if answer.status >= 300:
                return Answer(answer.status, answer.reason, answer.read())
        except (OSError, client.HTTPException) as error:
            apart._close()
            raise NoAnswerError(str(error) or type(error).__name__) from error
        return apart._parts(answer)

    def _parts(self, answer: client.HTTPResponse) -> Iterator[bytes]:
        try:
            if self._connection is not None and self._connection.sock is not None:
                self._connection.sock.settimeout(_STREAM_S)
            while part := answer.read1(_PART):
                yield part
        except (OSError, client.HTTPException) as error:
            raise NoAnswerError(str(error) or type(error).__name__) from error
        finally:
            answer.close()
            self._close()

    def _place(self, path: str, query: Mapping[str, str]) -> str:
        return urlsplit(self.server).path.rstrip("/") + path + (f"?{urlencode(query)}" if query else "")

    def _asked(self, place: str) -> Answer:
        answer = self._sent(place)
        return Answer(answer.status, answer.reason, answer.read())

    def _sent(
        self, place: str, method: str = "GET", body: bytes | None = None, content: str = ""
    ) -> client.HTTPResponse:
        connection = self._connected()
        headers = dict(self.headers) if body is None else {**self.headers, "Content-Type": content}
        connection.request(method, place, body, headers)
        return connection.getresponse()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _connected(self) -> client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.server)
            host, port = parts.hostname or "", parts.port
            self._connection = (
                client.HTTPConnection(host, port, timeout=_CONNECT_S)
                if self.trust is None
                else client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=self.trust)
            )
            self._connection.connect()
            self._connection.sock.settimeout(_ANSWER_S)
        return self._connection


def direct(context: str | None) -> Direct | None:
    """The API server of the kubeconfig's context, or None if the kubeconfig is wrong or not plain.

    Args:
        context: None for the current one.
    """
    where = Path(kubeconfig()).expanduser()
    if any(os.environ.get(name) or os.environ.get(name.lower()) for name in _PROXIES):
        return None
    try:
        config = _parsed(where.read_bytes())
        chosen = _named(config, "context", context or config["current-context"])
        cluster = _named(config, "cluster", chosen["cluster"])
        user = _named(config, "user", chosen["user"])
        if set(cluster) - _CLUSTER or set(user) - _USER:
            return None
        if not cluster["server"].startswith(("https://", "http://")):
            return None
        trust = _trust(cluster, user, where.parent) if cluster["server"].startswith("https://") else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration, yaml.YAMLError):
        return None
    headers = {"Accept": "application/json", "User-Agent": "spindle-cli"}
    if token := user.get("token"):
        headers["Authorization"] = f"Bearer {token}"
    return Direct(context, cluster["server"], chosen.get("namespace"), trust, headers)


def kubeconfig() -> str:
    """Path of the kubeconfig; may be several, separated by colons."""
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def _parsed(content: bytes) -> Any:
    if content.lstrip()[:1] == b"{":
        return json.loads(content)
    return yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _named(config: Any, kind: str, name: str) -> dict[str, Any]:
    """An entry of one of the kubeconfig's lists, without what belongs to nobody's request."""
    found = next(each[kind] for each in config[f"{kind}s"] if each["name"] == name)
    return {key: value for key, value in (found or {}).items() if value and key != "extensions"}


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    """Whom to trust, and the user's own certificate."""
    authority = _content(cluster, "certificate-authority", folder)
    made = ssl.create_default_context(cadata=authority.decode() if authority else None)
    made.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)  # kubectl takes older CAs, too
    if cluster.get("insecure-skip-tls-verify"):
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    certificate, key = (_content(user, f"client-{part}", folder) for part in ("certificate", "key"))
    if certificate and key:
        with (
            tempfile.TemporaryDirectory() as place
        ):  # only files can be loaded; only this user reads the folder
            both = Path(place, "both.pem")
            both.write_bytes(certificate + b"\n" + key)
            made.load_cert_chain(both)
    return made


def _content(entry: Mapping[str, Any], name: str, folder: Path) -> bytes:
    """A file or the data of an entry; data comes first, as in kubectl."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode(data)
    return (folder / entry[name]).read_bytes() if entry.get(name) else b""
