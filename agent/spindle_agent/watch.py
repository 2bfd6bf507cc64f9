"""The KafkaBrokers of this node, kept up to date by a watch; the last known state while the API server is unreachable."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from spindle_agent.backoff import Backoff
from spindle_agent.kube import Kube
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

Name = tuple[str, str]  # namespace and name

_BAD_REQUEST: Final = 400
_EXPIRED: Final = 410


class Brokers:
    """Watches the KafkaBrokers of one node, or all of them where the API server cannot select by node, and keeps those of the node.

    Kubernetes 1.31 and later can (`selectableFields`). With a thousand nodes it would otherwise send each change to a thousand agents.
    """

    def __init__(
        self, kube: Kube, namespaces: Sequence[str], node: str, on_change: Callable[[], None]
    ) -> None:
        """Start without KafkaBrokers.

        Args:
            kube: the API server.
            namespaces: namespaces to watch; empty for all.
            node: the node whose brokers to keep.
            on_change: called when the kept brokers have changed.
        """
        self._kube = kube
        self._namespaces = tuple(namespaces) or ("",)
        self._node = node
        self._listed: set[str] = set()
        self._selects = True
        self._on_change = on_change
        self._reached_at: float | None = None
        self.mine: dict[Name, Json] = {}

    @property
    def known(self) -> bool:
        """Whether all KafkaBrokers were listed at least once."""
        return self._listed == set(self._namespaces)

    def silence(self, now: float) -> float | None:
        """Seconds since the last message from the API server; None if there was none."""
        return None if self._reached_at is None else now - self._reached_at

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._namespaces:
                group.create_task(self._follow(namespace))

    async def _follow(self, namespace: str) -> None:
        backoff = Backoff()
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(namespace)
                    backoff.worked()
                async for event in self._kube.watch_brokers(namespace, version, self._selected):
                    version = self._take(event)
                    backoff.worked()
            except ApiError as error:
                # A failed watch needs a new list; one that merely ended continues from its last version.
                version = "" if error.status else version
                if error.status != _EXPIRED:
                    pause = backoff.failed()
                    log.warning("watching KafkaBrokers failed (next attempt in %.1f s): %s", pause, error)
                    await asyncio.sleep(pause)

    @property
    def _selected(self) -> str:
        return self._node if self._selects else ""

    async def _list(self, namespace: str) -> str:
        try:
            # Asked again at each list: the definition may have been upgraded.
            objects, version = await self._kube.brokers(namespace, self._node)
            self._selects = True
        except ApiError as error:
            if error.status != _BAD_REQUEST:
                raise
            if self._selects:
                log.info("this API server cannot select KafkaBrokers by node (%s): all are watched", error)
            self._selects = False
            objects, version = await self._kube.brokers(namespace)
        self._reached_at = time.monotonic()
        elsewhere = {name: obj for name, obj in self.mine.items() if namespace and name[0] != namespace}
        found = {_name(each): _lean(each) for each in objects if self._is_mine(each)}
        if elsewhere | found != self.mine or namespace not in self._listed:
            self.mine = elsewhere | found
            self._listed.add(namespace)
            self._on_change()
        return version

    def _take(self, event: Json) -> str:
        self._reached_at = time.monotonic()
        obj = event["object"]
        version = str(obj["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            return version
        name = _name(obj)
        if event["type"] == "DELETED" or not self._is_mine(obj):
            gone = self.mine.pop(name, None)
            if gone is not None:
                self._on_change()
        else:
            self.mine[name] = _lean(obj)
            self._on_change()
        return version

    def _is_mine(self, obj: Json) -> bool:
        return (obj.get("spec") or {}).get("node") == self._node


def _name(obj: Json) -> Name:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _lean(obj: Json) -> Json:
    """The object without managedFields, which are most of its size."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}
