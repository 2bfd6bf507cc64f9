"""A cache of Kubernetes objects: one list per kind, then a watch. Passes that write nothing read from it.

It never decides that something is to be done (`spindle.model.freshness`). A kind whose watch broke, is silent for too long, or has not reported yet what is
known to have happened is not answered from here: the pass lists it, and if that fails, too, the kind is unknown.
"""

import asyncio
import contextlib
import contextvars
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.api import names
from spindle.model import watched
from spindle_operator import metrics
from spindle_operator.kinds import Kind
from spindle_operator.kube import ByteBudget, Kube
from spindle_operator.shared_values import SharedValues, reused
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

RELIST: Final = 600.0  # seconds between lists that the cache is compared with
SETTLE: Final = 5.0  # seconds in which the watch may still report what a list has
_CATCH_UP: Final = 1.0  # seconds that a reader waits for a change that is known to exist
_PAUSES: Final = (1.0, 60.0)  # seconds after the first failure, and at most
_LASTING: Final = 10.0  # seconds; a watch that ends earlier, in whatever way, counts as a failure
_REFUSED: Final = 600.0  # seconds after a refusal that only people can change: passes list meanwhile
_BETWEEN: Final = 60.0  # seconds between attempts to compare
_UNUSED: Final = 900.0  # seconds after which a kind that nobody reads is no longer watched
_EXPIRED: Final = 410
_TOO_LARGE: Final = 413
_BUSY: Final = 429
_PASSING: Final = (0, _BUSY, 502, 503, 504)  # what was reported before them stands
_FOR_PEOPLE: Final = (401, 403, 404, 405, _TOO_LARGE)
_SILENT: Final = "SocketTimeoutError"  # nothing came for longer than bookmarks should take

Place = tuple[Kind, str | None, bool, bool]  # kind, namespace (None: all), labelled ones only, whole objects


@dataclass
class Feed:
    """One kind in one place.

    Attributes:
        objects: namespace and name → object and its size in bytes; objects are never changed in place.
        version: the resourceVersion that it has reached.
        heard, used: when the server last reported anything, and when it was last read; seconds of the monotonic clock.
        compared, tried: when a list last had the same, and when it was last attempted; likewise.
        began: when the server last accepted the watch, likewise.
        bytes: of all objects.
        live: the watch runs.
    """

    place: Place
    objects: dict[tuple[str, str], tuple[Json, int]] = field(default_factory=dict)
    version: str = ""
    heard: float = 0.0
    used: float = 0.0
    compared: float = 0.0
    tried: float = 0.0
    began: float = 0.0
    bytes: int = 0
    live: bool = False
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None

    def versions(self) -> dict[tuple[str, str], str]:
        """Of all objects."""
        return {name: _version(obj) for name, (obj, _) in self.objects.items()}

    def replace(self, listed: list[Json], version: str) -> None:
        """Take in a list."""
        self.objects = {_name(obj): (obj, _size(obj)) for obj in listed}
        self.bytes = sum(size for _, size in self.objects.values())
        self._reached(version)
        self.compared = self.tried = self.heard

    def drop(self) -> None:
        """Forget what it has."""
        self.objects, self.bytes, self.version = {}, 0, ""

    def take(self, event: Json) -> None:
        """Take in an event of the watch."""
        obj, what = event["object"], event["type"]
        former, before = self.objects.pop(_name(obj), (None, 0)) if what != "BOOKMARK" else (None, 0)
        self.bytes -= before
        if what in ("ADDED", "MODIFIED"):
            size = _size(obj)
            self.objects[_name(obj)] = reused(former, obj), size
            self.bytes += size
        self._reached(str(obj["metadata"].get("resourceVersion") or ""))

    def _reached(self, version: str) -> None:
        self.version, self.heard = version, time.monotonic()
        self.moved.set()
        self.moved = asyncio.Event()


class Mirror:
    """The feeds of one process; they start when a kind is first read."""

    def __init__(
        self, kube: Kube, bytes_of_namespace: int, differs: Callable[[str | None, str], None]
    ) -> None:
        """A cache without content.

        Args:
            kube: the API server.
            bytes_of_namespace: limit for the objects of one namespace; tenants cannot create cluster-scoped ones.
            differs: called with the namespace (None: all) and a sentence when a list shows what the watch did not report.
        """
        self._kube, self._most, self._differs = kube, bytes_of_namespace, differs
        self._feeds: dict[Place, Feed] = {}
        self._known: dict[tuple[str, str | None], int] = {}  # plural, namespace → resourceVersion that exists
        self._listing = asyncio.Semaphore(1)  # one list at a time, so that what it may have is known
        self._closing = False

    def happened(self, kind: Kind, obj: Mapping[str, Any]) -> None:
        """A version of an object exists; a feed that has not reached it does not answer."""
        meta = obj["metadata"]
        version = str(meta.get("resourceVersion") or "")
        if version.isdigit():
            key = kind.plural, str(meta["namespace"]) if kind.namespaced and meta.get("namespace") else None
            self._known[key] = max(self._known.get(key, 0), int(version))

    async def items(
        self,
        kind: Kind,
        namespace: str | None,
        cluster: str | None,
        within: ByteBudget | None,
        *,
        whole: bool = True,
    ) -> list[Json] | None:
        """The objects of a kind, by namespace and name; None if the cache cannot tell.

        Args:
            kind: of objects.
            namespace: None for all.
            cluster: only those with its label; None for all.
            within: limit on their bytes.
            whole: False for the metadata only.

        Raises:
            ApiError: the limit is exceeded.
        """
        feed = self._feed((kind, namespace, cluster is not None, whole))
        feed.used = time.monotonic()
        if not await self._answers(feed):
            return None
        found = sorted(feed.objects.items())
        if cluster is not None:
            found = [each for each in found if _labels(each[1][0]).get(names.LABEL_CLUSTER) == cluster]
        if within is not None:
            within.spend(sum(size for _, (_, size) in found))
        return [obj for _, (obj, _) in found]

    def same(self, kind: Kind, namespace: str | None, *, labelled: bool) -> Callable[[Json], Json]:
        """A function that returns the cached object in place of a listed one that is equal to it, and else the listed one.

        A pass that lists holds no second copy then of what has not changed: with a thousand brokers that would be as much memory as the cache. All of
        an object is compared, so a pass decides on what was listed, whatever the cache has.

        Args:
            kind, namespace: of the list.
            labelled: whether the list has only the objects with the label of a cluster.
        """
        feed = self._feeds.get((kind, namespace, labelled, True))

        def held(listed: Json) -> Json:
            found, _ = feed.objects.get(_name(listed), (None, 0)) if feed is not None else (None, 0)
            return found if found is not None and found == listed else listed

        return held

    async def close(self) -> None:
        """End all watches."""
        self._closing = True
        tasks = [feed.task for feed in self._feeds.values() if feed.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answers(self, feed: Feed) -> bool:
        wanted = self._known.get(_home(feed.place), 0)
        until = time.monotonic() + _CATCH_UP
        while feed.live and not watched.reaches(feed.version, wanted):
            left = until - time.monotonic()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(feed.moved.wait(), left)
            except TimeoutError:
                return False
        return watched.answers(live=feed.live, heard=feed.heard, compared=feed.compared, now=time.monotonic())

    def _feed(self, place: Place) -> Feed:
        feed = self._feeds.get(place)
        if feed is None:
            feed = self._feeds[place] = Feed(place, used=time.monotonic())
            if not self._closing:
                kind, namespace, _, _ = place
                feed.task = asyncio.create_task(
                    self._run(feed),
                    name=f"watch {kind.plural} {namespace or ''}",
                    context=contextvars.Context(),  # it belongs to no pass
                )
        return feed

    async def _run(self, feed: Feed) -> None:
        """List, watch, and compare, until nobody reads it any more."""
        failures = 0
        while time.monotonic() - feed.used <= _UNUSED:
            began, pause = time.monotonic(), 0.0
            try:
                await self._begun(feed)
                await self._followed(feed)
            except ApiError as error:
                # Silence: an idle server, or a half-open connection. It goes on from where it was.
                if error.reason != _SILENT:
                    pause = self._failed(feed, error, 0 if _lasted(feed, began) else failures)
            except Exception:
                # An error in the code must not end it: until it works again, passes list.
                log.exception("the watch of %s failed", _where(feed.place))
                feed.drop()
                pause = _PAUSES[0]
            finally:
                feed.live = False
            if lasted := _lasted(feed, began):
                failures = 0
            if pause or not lasted:
                failures += 1
                grown = min(_PAUSES[1], _PAUSES[0] * 2 ** min(failures - 1, 16))
                await asyncio.sleep(max(grown, pause))
        self._feeds.pop(feed.place, None)

    def _failed(self, feed: Feed, error: ApiError, failures: int) -> float:
        """Forget what may be wrong after an error. Returns the seconds to wait, at least."""
        # A server that does not serve for a while may come back with other data. A busy one has the same.
        away = error.status != _BUSY and failures > 0
        if error.status not in _PASSING or away:
            feed.drop()
        # One connection that broke is no news.
        if error.status != _EXPIRED and failures in ((1, 9) if error.status in _PASSING else (0, 9)):
            log.warning("%s are not watched, so passes list them: %s", _where(feed.place), error)
        return _REFUSED if error.status in _FOR_PEOPLE else _PAUSES[0]

    async def _begun(self, feed: Feed) -> None:
        """A list, or the certainty that the watch may go on from where it was."""
        kind, namespace, _, _ = feed.place
        if feed.version:
            now_at = await self._kube.revision(kind, namespace)
            now = time.monotonic()
            if watched.resumes(held=feed.version, now_at=now_at, heard=feed.heard, now=now):
                return
            log.info(
                "%s are listed anew: %s was read, the server is at %s",
                _where(feed.place),
                feed.version,
                now_at,
            )
            feed.drop()
        home = _home(feed.place)
        known = self._known.get(home, 0)
        objects, version = await self._listed(feed, SharedValues().shared)
        feed.replace(objects, version)
        # A list has all that existed before it. What was known and is not reached was undone: the server was restored from a backup.
        if self._known.get(home, 0) == known and not watched.reaches(version, known):
            self._known.pop(home, None)

    async def _followed(self, feed: Feed) -> None:
        """Watch until the server ends it, or a list shows that it misses something."""
        tasks = [asyncio.create_task(self._watched(feed)), asyncio.create_task(self._checked(feed))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watched(self, feed: Feed) -> None:
        kind, namespace, labelled, whole = feed.place
        selector = names.LABEL_CLUSTER if labelled else None
        events = self._kube.watch(kind, namespace, selector, feed.version, whole=whole)
        async with contextlib.aclosing(events):
            async for event in events:
                if event is None:
                    feed.live = True
                    feed.began = feed.heard = time.monotonic()
                    continue
                feed.take(event)
                if feed.bytes > self._room(feed):
                    raise ApiError(_TOO_LARGE, "TooMuch", "there are too many or too large objects")

    async def _checked(self, feed: Feed) -> None:
        """Compare with a list from time to time; returns when the watch missed something.

        If the watch ends meanwhile, the next one begins with it.

        Raises:
            ApiError: what may not be listed any more must not be told from here either.
        """
        while True:
            due = max(feed.compared + RELIST, feed.tried + min(_BETWEEN, RELIST))
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            feed.tried, before = time.monotonic(), feed.versions()
            try:
                objects, _ = await self._listed(feed, whole=False)
            except ApiError as error:
                if error.status in _FOR_PEOPLE:
                    raise
                log.warning("%s cannot be compared with a list: %s", _where(feed.place), error)
                continue
            began = time.monotonic()
            await asyncio.sleep(SETTLE)
            if time.monotonic() - began > 2 * SETTLE:
                continue  # this process stood still: the watch had no time to report
            listed = {_name(obj): _version(obj) for obj in objects}
            names_missed = watched.missed(before, feed.versions(), listed)
            if not names_missed:
                feed.compared = began
                continue
            kind, namespace, _, _ = feed.place
            feed.drop()
            feed.live = False
            metrics.WATCH_MISSED.labels(kind.plural).inc(len(names_missed))
            some = ", ".join(name for _, name in sorted(names_missed)[:3])
            text = (
                f"The watch of {kind.plural} did not report changes of {len(names_missed)} objects ({some})"
            )
            log.warning("%s", text)
            self._differs(namespace, f"{text}; they were listed anew")
            return

    async def _listed(
        self, feed: Feed, same: Callable[[Json], Json] | None = None, *, whole: bool = True
    ) -> tuple[list[Json], str]:
        """All objects of a feed; with ``whole=False`` their metadata, which is enough to compare versions."""
        kind, namespace, labelled, of_feed = feed.place
        selector = names.LABEL_CLUSTER if labelled else None
        async with self._listing:
            within = ByteBudget(int(self._room(feed))) if namespace is not None else None
            return await self._kube.listed(
                kind, namespace, selector, whole=whole and of_feed, within=within, same=same
            )

    def _room(self, feed: Feed) -> float:
        """Bytes that a feed may have beside the others of its namespace."""
        namespace = feed.place[1]
        if namespace is None:
            return math.inf
        others = (other for other in self._feeds.values() if other is not feed)
        return self._most - sum(other.bytes for other in others if other.place[1] == namespace)


def _lasted(feed: Feed, since: float) -> bool:
    """Whether its watch was accepted since then, and ran for a while."""
    return feed.began > since and time.monotonic() - feed.began >= _LASTING


def _home(place: Place) -> tuple[str, str | None]:
    kind, namespace, _, _ = place
    return kind.plural, namespace if kind.namespaced else None


def _where(place: Place) -> str:
    kind, namespace, _, _ = place
    return f"{kind.plural} in {namespace}" if namespace else kind.plural


def _name(obj: Json) -> tuple[str, str]:
    meta = obj["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def _version(obj: Json) -> str:
    meta = obj["metadata"]
    return f"{meta.get('uid')} {meta.get('resourceVersion')}"


def _labels(obj: Json) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def _size(obj: Json) -> int:
    return len(json.dumps(obj, separators=(",", ":")))
