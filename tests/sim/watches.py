"""The watches of an operator that reads from a cache: late, silent, or without some of the events. Only kept runs have them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from spindle_operator.kinds import Kind
from spindle_shared.api_answers import ApiError
from tests.sim.api import Api, Json, _matches
from tests.sim.kernel import Kernel
from tests.sim.loop import Process

_BOOKMARK = 60.0  # seconds
_SILENCE = 75.0
_LIFE = 300.0


@dataclass
class Watches:
    """What the API server remembers, and what it does not report.

    Attributes:
        delay: seconds between a change and its event.
        lost: kinds whose events are lost; bookmarks still come, so that nobody notices.
    """

    kernel: Kernel
    api: Api
    delay: float = 0.05
    lost: set[str] = field(default_factory=set)
    _begun: int = 0
    _events: list[tuple[int, str, str, Json]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begun = self.api._serial
        self.api.watchers.append(self._changed)

    def _changed(self, event: str, kind: str, obj: Json) -> None:
        lost = kind in self.lost
        if not lost:
            self.kernel.call_later(
                self.delay,
                lambda: self._events.append((int(obj["metadata"]["resourceVersion"]), event, kind, obj)),
            )

    async def watch(
        self,
        process: Process,
        linked: Any,
        kind: Kind,
        namespace: str | None,
        selector: str | None,
        version: str,
        *,
        whole: bool,
    ) -> AsyncIterator[Json | None]:
        """As `Kube.watch`; ``linked`` says whether events reach the process."""
        await asyncio.sleep(0.02)
        if self.api.away or not linked():
            raise ApiError(0, "ClientConnectorError", "no connection")
        if int(version) < self._begun:
            raise ApiError(410, "Expired", "too old resource version")
        yield None
        began = heard = process.time()
        after, position = int(version), 0
        while process.time() - began < _LIFE:
            if self.api.away:
                raise ApiError(0, "ServerDisconnectedError", "the server closed the connection")
            if not linked():
                if process.time() - heard > _SILENCE:
                    raise ApiError(0, "SocketTimeoutError", "nothing came")
                await asyncio.sleep(1.0)
                continue
            for serial, event, of, obj in self._events[position:]:
                position += 1
                home = obj["metadata"].get("namespace")
                if of != kind.kind or serial <= after or namespace not in (None, home):
                    continue
                if event == "DELETED" or _matches(obj, selector):
                    heard, after = process.time(), serial
                    shown = obj if whole else {"metadata": obj["metadata"]}
                    told = {"apiVersion": kind.api_version, "kind": kind.kind, **shown}
                    yield {"type": event, "object": told}
            if process.time() - heard >= _BOOKMARK:
                heard = process.time()
                mark = {"metadata": {"resourceVersion": str(self.api._serial)}}
                yield {"type": "BOOKMARK", "object": mark}
            await asyncio.sleep(0.2)
