"""Lists and watches the objects of one cluster, one thread per kind, with the rights of the user's kubeconfig."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from spindle.api import names
from spindle_cli.kube import Json, Kube, KubeError
from spindle_cli.libraries import kubernetes, urllib3

_WATCH_S: Final = 55  # the API server ends a watch after this time
_SILENT_S: Final = 65  # longer than that: the connection is dead
_SHORT_S: Final = 5.0  # a watch that ended sooner did not last: the next attempt waits longer
_FIRST_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0
_EXPIRED: Final = 410

CLUSTERS: Final = "kafkaclusters"
BROKERS: Final = "kafkabrokers"
REBALANCES: Final = "kafkarebalances"
JOURNAL: Final = "configmaps"


class Sink(Protocol):
    """Takes what was read; its methods are called from the threads of the watches."""

    def replace(self, kind: str, found: Iterable[Json]) -> None:
        """All objects of the kind, read while this iterates over them."""

    def change(self, kind: str, obj: Json, *, deleted: bool) -> None:
        """One object was added, changed or deleted."""

    def trouble(self, kind: str, message: str | None) -> None:
        """Why the kind cannot be read at present; None when it can again."""


class ExpiredError(Exception):
    """The API server no longer has the changes since the list: list again."""


@dataclass(frozen=True)
class Source:
    """One kind to follow.

    Attributes:
        call: of the client; lists or watches.
        chosen: its selectors.
    """

    kind: str
    call: Callable[..., Any]
    where: tuple[str, ...]
    chosen: Mapping[str, str] = field(default_factory=dict)


def sources(kube: Kube, cluster: str) -> list[Source]:
    """What the map of a cluster is made of."""
    custom = kubernetes.client.CustomObjectsApi(kube.api).list_namespaced_custom_object
    ours = (names.GROUP, names.VERSION, kube.namespace)
    core = kubernetes.client.CoreV1Api(kube.api)
    journal = {"field_selector": f"metadata.name={names.moves_map(cluster)}"}
    return [
        Source(CLUSTERS, custom, (*ours, CLUSTERS), {"field_selector": f"metadata.name={cluster}"}),
        Source(BROKERS, custom, (*ours, BROKERS)),
        Source(REBALANCES, custom, (*ours, REBALANCES)),
        Source(JOURNAL, core.list_namespaced_config_map, (kube.namespace,), journal),
    ]


class Watch(threading.Thread):
    """Follows one kind until stopped. A daemon: it does not keep the program running."""

    def __init__(self, kube: Kube, source: Source, sink: Sink) -> None:
        super().__init__(name=f"watch {source.kind}", daemon=True)
        self._kube = kube
        self._source = source
        self._sink = sink
        self._stopped = threading.Event()
        self._version = ""

    def stop(self) -> None:
        """End at the next opportunity."""
        self._stopped.set()

    def run(self) -> None:
        """List, then watch; after an error list again."""
        wait = _FIRST_WAIT_S
        while not self._stopped.is_set():
            began = time.monotonic()
            try:
                version = self._list()
                self._sink.trouble(self._source.kind, None)
                while not self._stopped.is_set():
                    began = time.monotonic()
                    version = self._watch(version)
                    if (rest := _FIRST_WAIT_S - (time.monotonic() - began)) > 0:
                        self._stopped.wait(rest)
            except ExpiredError:
                pass  # the list is the remedy
            except Exception as error:  # noqa: BLE001 - a thread that ended would freeze its part of the map
                expected = isinstance(error, KubeError)
                text = str(error) if expected else f"{self._source.kind}: {type(error).__name__}: {error}"
                self._sink.trouble(self._source.kind, text)
            if time.monotonic() - began > _SHORT_S:
                wait = _FIRST_WAIT_S
            self._stopped.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _list(self) -> str:
        """Read all objects; returns the version that a watch continues from."""
        self._sink.replace(self._source.kind, self._pages())
        return self._version

    def _pages(self) -> Iterator[Json]:
        each = self._source
        for page in self._kube.pages(each.kind, each.call, *each.where, **each.chosen):
            yield from page["items"]
            self._version = str(page["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        """Pass on changes until the API server ends the watch; returns the version of the latest one."""
        each = self._source
        answer = self._kube.ask(
            each.kind,
            each.call,
            *each.where,
            **each.chosen,
            watch=True,
            resource_version=version,
            allow_watch_bookmarks=True,
            timeout_seconds=_WATCH_S,
            _preload_content=False,
            _request_timeout=(5, _SILENT_S),
        )
        try:
            for line in _lines(answer):
                event = json.loads(line)
                obj = event["object"]
                if event["type"] == "ERROR":
                    raise _error(obj)
                version = str(obj["metadata"]["resourceVersion"])
                if event["type"] != "BOOKMARK":
                    self._sink.change(self._source.kind, obj, deleted=event["type"] == "DELETED")
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise KubeError(f"the watch of {self._source.kind} broke: {error}") from error
        finally:
            answer.close()  # a connection that still gets changes is of no use to the next request
        return version


def _error(obj: Json) -> Exception:
    if obj.get("code") == _EXPIRED:
        return ExpiredError()
    return KubeError(str(obj.get("message")))


def _lines(answer: Any) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
