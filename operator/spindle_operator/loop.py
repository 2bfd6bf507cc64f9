"""One loop per KafkaCluster: wait → observe → plan → act → report, endlessly.

Events only wake it. An error never ends it: it backs off and tries again. No essential state is kept in memory.

The finalizer is Spindle's, not kopf's: kopf starts no daemon for an object that is already being deleted, and removes its
finalizer at once; a KafkaCluster that is deleted while the operator is down would vanish without its last passes.
"""

import asyncio
import concurrent.futures
import logging
import random
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spindle.api import names
from spindle.metrics.cluster import cluster_samples
from spindle.model.actions import Action
from spindle.model.allowed import KAFKA_REPOSITORY, Allowed
from spindle.model.ownership import owners_of
from spindle.model.refused_requests import RefusedRequest
from spindle.model.snapshot import ClusterSnapshot
from spindle.reconcile import batches
from spindle.reconcile.plan import Event, ReconcilePlan, plan
from spindle.topics.wanted import topic_name
from spindle_operator import agents, lag_exporter, metrics
from spindle_operator.act import (
    DONE,
    REFUSED,
    TAKEN,
    Actor,
    LeadershipLostError,
    Result,
)
from spindle_operator.descriptions import describe
from spindle_operator.health import Health
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_CLUSTER, Kind
from spindle_operator.kube import Kube
from spindle_operator.lag_exporter import LagExporter, wanted_lag
from spindle_operator.mirror import Mirror
from spindle_operator.observe import Seen, Surroundings, most_bytes, observe
from spindle_operator.pod_trials import Trials, verdicts
from spindle_operator.rebalance_cache import RebalanceCache
from spindle_operator.report import (
    Events,
    Written,
    events_of,
    is_refusal,
    refusal_event,
    report,
    writes,
)
from spindle_operator.topic_answers import TopicAnswers
from spindle_shared import logs
from spindle_shared.api_answers import ApiError, Json
from spindle_shared.freed_memory import give_back

log = logging.getLogger(__name__)

FINALIZER: Final = f"{names.GROUP}/finalizer"
DEBOUNCE: Final = 0.5  # seconds in which events are collected before a pass
AGAIN: Final = 0.5  # seconds until the pass after one that changed something
BACKOFF: Final = (1.0, 60.0)  # seconds after the first error, and at most
RESTLESS: Final = 100  # consecutive passes with changes, after which something is wrong
POLL: Final = (2.0, 15.0)  # seconds between passes while something is waited for, initially and at most
LONGEST: Final = 240.0  # seconds of a pass
_FINALIZERS: Final = ("Patch", KAFKA_CLUSTER.kind, "")
SIDE_BY_SIDE: Final = 8  # concurrent passes of different clusters: limits memory and threads

Key = tuple[str, str]  # namespace, name


@dataclass(frozen=True)
class Setup:
    """Shared by all loops.

    Attributes:
        image: the operator's own image, which preflight runs from.
        leading: whether this process still holds the Lease.
        resync: seconds after which a pass runs without any event.
        kafka_timeout: seconds for one call to one broker.
        agent_namespace: of the agents; empty for none.
        namespace: of the operator.
        kafka_repository: of Kafka's image, where a KafkaCluster names none.
        allowed: settings that KafkaClusters may use beyond Kafka.
        lost: called when a loop finds that the Lease is lost.
        cached: whether passes that write nothing may read from watches.
    """

    kube: Kube
    health: Health
    events: Events
    image: str
    leading: Callable[[], bool]
    lost: Callable[[], None]
    resync: float = 60.0
    kafka_timeout: float = 5.0
    agent_namespace: str = ""
    namespace: str = ""
    rebalance_image: str = ""
    kafka_repository: str = KAFKA_REPOSITORY
    allowed: Allowed = field(default_factory=Allowed)
    decide: Callable[[Any, float], ReconcilePlan] = plan
    cached: bool = False


class Loops:
    """All clusters' loops: started by the first event of a KafkaCluster, ended when it is deleted."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.agent_namespace = setup.agent_namespace
        self._loops: dict[Key, ClusterLoop] = {}
        self._executor = asyncio.Semaphore(SIDE_BY_SIDE)
        self._readings = asyncio.Semaphore(lag_exporter.SIDE_BY_SIDE)
        self._closing = False
        # What it holds lacks managedFields, about half of what is read.
        most = most_bytes(setup.allowed) // 2
        self._mirror = Mirror(setup.kube, most, self._missed) if setup.cached else None
        self._watch = (
            agents.AgentMonitor(setup.kube, setup.agent_namespace, self.wake_all)
            if setup.agent_namespace
            else None
        )
        self._watching = asyncio.create_task(self._watch.run(), name="agents") if self._watch else None

    def seen(self, namespace: str, name: str) -> None:
        """A KafkaCluster exists, or did a moment ago: start its loop or wake it."""
        if self._closing:
            return
        key = (namespace, name)
        if key not in self._loops:
            self._loops[key] = loop = ClusterLoop(
                self._setup, key, self._executor, self._watch, self._mirror, self._readings
            )
            loop.task.add_done_callback(lambda _: self._ended(key, loop))
            metrics.CLUSTERS.set(len(self._loops))
        self._loops[key].wake()

    def wake(self, namespace: str, name: str, *, urgent: bool = False) -> None:
        """An object of this cluster changed; ignored if the cluster does not exist."""
        if loop := self._loops.get((namespace, name)):
            loop.wake(urgent=urgent)

    def happened(self, kind: Kind, obj: Mapping[str, Any]) -> None:
        """This version of an object exists: the passes that it wakes must not read an older one."""
        if self._mirror is not None:
            self._mirror.happened(kind, obj)

    def _missed(self, namespace: str | None, text: str) -> None:
        """A watch did not report changes: say so to the clusters that it concerns, and look again."""
        for key, loop in self._loops.items():
            if namespace in (None, key[0]):
                loop.missed(text)

    def wake_all(self) -> None:
        """Something changed that may affect any cluster (for example a node)."""
        for loop in self._loops.values():
            loop.wake()

    async def close(self) -> None:
        """End all loops, in the middle of a pass if necessary: the next pass continues from any state."""
        self._closing = True
        tasks = [loop.task for loop in self._loops.values()]
        if self._watching is not None:
            tasks.append(self._watching)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._mirror is not None:
            await self._mirror.close()

    def _ended(self, key: Key, loop: "ClusterLoop") -> None:
        if self._loops.get(key) is loop:
            del self._loops[key]
            metrics.CLUSTERS.set(len(self._loops))
        # An event may have arrived between the loop's last pass and its end (cluster deleted and recreated).
        if loop.pending and not self._closing:
            self.seen(*key)


class ClusterLoop:
    """The loop of one KafkaCluster."""

    def __init__(
        self,
        setup: Setup,
        key: Key,
        executor: asyncio.Semaphore,
        watch: agents.AgentMonitor | None = None,
        mirror: Mirror | None = None,
        readings: asyncio.Semaphore | None = None,
    ) -> None:
        self._setup = setup
        self._watch = watch
        self._mirror = mirror
        self._wrote = (
            True  # whether the pass before wrote, or may have written: its writes may not be in the cache
        )
        self._missed: list[str] = []  # what watches did not report, and is not yet told
        self._namespace, self._name = key
        self._label = f"{self._namespace}/{self._name}"
        self._slots = executor
        self._wakeup = asyncio.Event()
        self._alarm = asyncio.Event()
        self._kafka = KafkaExecutor(self._label, setup.kafka_timeout)
        self._lag = LagExporter(
            self._label,
            KafkaExecutor(self._label, setup.kafka_timeout),
            readings or asyncio.Semaphore(lag_exporter.SIDE_BY_SIDE),
        )
        self._cache = RebalanceCache()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, f"plan-{self._label}")
        self._deciding: asyncio.Future[ReconcilePlan] | None = None
        self._from = 0  # the first action of the next batch
        self._tried: Mapping[
            str, Collection[Hashable]
        ] = {}  # of a kind with many actions, those whose turn has been
        self._taken: frozenset[tuple[str, str]] = (
            frozenset()
        )  # foreign objects with needed names, found by the last pass
        self._refused = tuple[RefusedRequest, ...]()  # what the API server refused in the last pass
        self._topics = TopicAnswers()
        self._trials: Trials = {}  # the API server's verdicts on pods that it was asked about
        self._idle = 0  # consecutive passes that had something to do and achieved nothing
        self._streak = 0  # consecutive passes with changes
        self.task = asyncio.create_task(self._run(), name=f"cluster {self._label}")

    @property
    def pending(self) -> bool:
        """Whether an event is pending."""
        return self._wakeup.is_set()

    def wake(self, *, urgent: bool = False) -> None:
        """Request a pass soon; an urgent one waits neither for more events nor for the end of a pause."""
        self._wakeup.set()
        if urgent:
            self._alarm.set()

    def missed(self, text: str) -> None:
        """A watch did not report a change."""
        self._missed.append(text)
        self._wrote = True
        self.wake()

    async def _run(self) -> None:
        self._setup.health.started(self._label)
        pause, failures = 0.0, 0
        try:
            while True:
                await self._wait(pause, patient=failures > 0)
                try:
                    logs.begin_pass()
                    async with self._slots:
                        pause = await self._timed()
                        give_back()
                    failures = 0
                except _ClusterGoneError:
                    log.info("%s is deleted", self._label)
                    return
                except LeadershipLostError:
                    self._setup.lost()
                    return
                except Exception as error:  # noqa: BLE001 - the loop never ends by an error
                    # Any error: the next pass starts from the state observed then; there is no state in memory to corrupt.
                    failures += 1
                    pause = backoff(failures)
                    await self._failed(error, pause, first=failures == 1)
                self._setup.health.finished(self._label)
        finally:
            self._setup.health.stopped(self._label)
            metrics.forget(self._label)
            self._thread.shutdown(wait=False, cancel_futures=True)
            await asyncio.shield(asyncio.gather(self._kafka.shutdown(), self._lag.close()))

    async def _wait(self, pause: float, *, patient: bool) -> None:
        """Wait for an event, or for the end of the pause; then collect further events.

        Args:
            pause: seconds.
            patient: wait the whole pause unless an urgent event arrives: the last pass failed.
        """
        if await _comes(self._alarm if patient else self._wakeup, pause):
            self._idle = min(self._idle, 1)
            await _comes(self._alarm, DEBOUNCE)
        self._wakeup.clear()
        self._alarm.clear()

    async def _timed(self) -> float:
        """One pass, counted in metrics. Returns the seconds after which the next one is due without an event."""
        started = time.monotonic()
        outcome, limit = "failed", asyncio.timeout(LONGEST)
        try:
            async with limit:
                results, settled = await self._pass(started)
            outcome = "acted" if results else "settled" if settled else "waiting"
        except TimeoutError:
            if not limit.expired():
                raise
            raise PassTooLongError(f"it did not finish within {LONGEST:.0f} s, and was cancelled") from None
        finally:
            metrics.RECONCILES.labels(self._namespace, self._name, outcome).inc()
            metrics.DURATION.labels(self._namespace, self._name).observe(time.monotonic() - started)
        return self._next(results, settled=settled)

    async def _pass(self, started: float) -> tuple[list[Result], bool]:
        """One pass. Returns what was done, and whether nothing waits."""
        setup = self._setup
        around = Surroundings(
            setup.image,
            setup.namespace,
            setup.rebalance_image,
            setup.allowed,
            self._watch,
            setup.kafka_repository,
        )
        cluster, seen, wanted = await self._planned(around)
        if setup.leading():
            # The status is written before the actions: a call to a hung broker takes seconds.
            await setup.events.post(self._namespace, [*self._told_missed(cluster), *wanted.events])
        actor = Actor(
            setup.kube, cluster, self._kafka, setup.leading, owners_of(seen.snapshot), look=seen.look
        )
        chosen = self._batch(wanted.actions)
        results = await actor.run(chosen)
        self._taken = frozenset(result.taken for result in results if result.taken is not None)
        self._refused = tuple(result.refused for result in results if result.refused is not None)
        self._topics.note(results, {topic_name(each) for each in seen.snapshot.topics}, time.monotonic())
        self._trials = verdicts(self._trials, results, time.time())
        if not setup.leading():
            raise LeadershipLostError
        marked = {
            **cluster["metadata"],
            "resourceVersion": actor.version(cluster["metadata"]["resourceVersion"]),
        }
        snapshot = seen.snapshot
        written = Written()
        if seen.look.listed:  # else nothing differs, or the pass would have been planned again
            written = await report(
                setup.kube,
                {**cluster, "metadata": marked},
                snapshot.brokers,
                wanted,
                users=snapshot.users,
                rebalances=snapshot.rebalances,
                # Else one whose mark changes with each try would never be told why Kafka rejects it.
                topics=[_at_version(each, actor.version) for each in snapshot.topics],
            )
        self._refused += written.refused
        for refused in written.refused:
            metrics.ACTIONS.labels(self._namespace, self._name, refused.target[0], REFUSED).inc()
        self._after(wanted.actions, chosen, results)
        told = [refusal_event(cluster, refused) for refused in written.refused]
        await setup.events.post(self._namespace, [*events_of(cluster, results), *told])
        await self._measure(snapshot, wanted)
        await self._lag.follow(wanted_lag(snapshot), seen.access, snapshot.kafka)
        if written.done:
            # Something changed, if only in Kafka or on a disk; the operator's own writes wake no loop, so run again soon.
            self._idle = 0
        if results or written.done:
            log.info(sentence(self._label, results, written.done, time.monotonic() - started))
        self._wrote = bool(results or written.done or written.skipped or written.refused or self._missed)
        whole = len(results) == len(wanted.actions) and all(result.outcome == DONE for result in results)
        if wanted.finished and whole and cluster["metadata"].get("deletionTimestamp"):
            await self._let_go(cluster)
            raise _ClusterGoneError
        return results, wanted.settled and not written.skipped

    def _told_missed(self, cluster: Json) -> list[Event]:
        meta, texts = cluster["metadata"], self._missed
        self._missed = []
        return [
            Event("Warning", "WatchMissedChanges", text, KAFKA_CLUSTER.kind, meta["name"], meta["uid"])
            for text in dict.fromkeys(texts)
        ]

    async def _planned(self, around: Surroundings) -> tuple[Json, Seen, ReconcilePlan]:
        """The KafkaCluster with a plan that writes nothing, from the cache; or with any plan, from a look that is as fresh as it can be.

        After a pass that wrote nothing is read from the cache, which may not have its writes yet. Until this pass has ended well, it counts as one that wrote.
        """
        wrote, self._wrote = self._wrote, True
        for mirror in (None,) if wrote else (self._mirror, None):
            began = time.monotonic()
            # Read anew before the second look, too: Kafka may have let the first one take long, and people change what they want.
            cluster = await self._cluster()
            seen = await observe(
                self._setup.kube,
                cluster,
                self._kafka,
                around,
                cache=self._cache,
                taken=self._taken,
                mirror=None if cluster["metadata"].get("deletionTimestamp") else mirror,
                held=self._mirror,
                began=began,
            )
            # In a thread: with thousands of partitions it takes a while, and the Lease must be renewed meanwhile.
            wanted = await self._decided(
                replace(
                    seen.snapshot,
                    refused=self._refused,
                    rejected=self._topics.rejected,
                    created=self._topics.created(time.monotonic()),
                    pod_trials=self._trials,
                )
            )
            metrics.LOOKS.labels(
                self._namespace, self._name, "listed" if seen.look.listed else "cached"
            ).inc()
            if seen.look.listed or not self._tells(cluster, seen, wanted):
                return cluster, seen, wanted
        raise AssertionError("a look without a cache is listed")

    def _tells(self, cluster: Json, seen: Seen, wanted: ReconcilePlan) -> bool:
        """Whether anything comes of a plan: a change, or an event that was not posted recently."""
        return writes(cluster, seen.snapshot, wanted) or self._setup.events.news(
            self._namespace, wanted.events
        )

    async def _measure(self, snapshot: ClusterSnapshot, wanted: ReconcilePlan) -> None:
        """Set the cluster's metrics; computed in the cluster's thread, as thousands of disks take a while."""
        loop = asyncio.get_running_loop()
        samples = await loop.run_in_executor(self._thread, cluster_samples, snapshot, wanted)
        metrics.observe_cluster(self._label, samples)

    async def _decided(self, snapshot: ClusterSnapshot) -> ReconcilePlan:
        """The plan, computed in a thread of this cluster: a slow one does not block others, and does not run twice at once."""
        if self._deciding is not None and not self._deciding.done():
            raise PassTooLongError(
                "the plan of an earlier pass is still being computed: the cluster is too large"
            )
        loop = asyncio.get_running_loop()
        self._deciding = loop.run_in_executor(self._thread, self._setup.decide, snapshot, time.time())
        return await asyncio.shield(self._deciding)

    def _batch(self, actions: Sequence[Action]) -> Sequence[Action]:
        """The batch of a long list for this pass; the rest follows, and passes of other clusters run in between."""
        if self._from >= len(actions):
            self._from = 0
        return batches.batch(actions[self._from :], self._tried)

    def _after(self, actions: Sequence[Action], chosen: Sequence[Action], results: list[Result]) -> None:
        """Start of the next batch: the beginning, or behind a batch in which every action was rejected, so that it does not block the rest forever."""
        changed = {id(result.action) for result in results if result.changed}
        stuck = batches.MOST == len(chosen) == len(results) < len(actions) and not changed
        self._tried = batches.next_tried(self._tried, actions, {id(result.action) for result in results})
        self._from = self._from + len(chosen) if stuck else 0

    def _next(self, results: list[Result], *, settled: bool) -> float:
        """Seconds until the next pass without an event: short after progress, increasing without."""
        # A taken name ended the pass early; the next one continues without it.
        if any(result.changed or result.outcome == TAKEN for result in results):
            self._idle = 0
            self._streak += 1
            # A plan that never settles is a bug; it must not overload the API server as well.
            return AGAIN if self._streak < RESTLESS else backoff(self._streak - RESTLESS + 1)
        self._streak = 0
        self._idle = 0 if settled and not results else self._idle + 1
        if results:
            return backoff(self._idle)
        if settled:
            return self._setup.resync * random.uniform(0.9, 1.1)  # noqa: S311 - spreads load
        # The awaited change is often in Kafka (a broker that catches up), which sends no events.
        return min(backoff(self._idle, first=POLL[0]), POLL[1], self._setup.resync)

    async def _cluster(self) -> Json:
        """The KafkaCluster, with Spindle's finalizer unless it is being deleted."""
        cluster = await self._setup.kube.find(KAFKA_CLUSTER, self._namespace, self._name)
        if cluster is None:
            raise _ClusterGoneError
        meta = cluster["metadata"]
        meta.pop("managedFields", None)
        finalizers = meta.get("finalizers") or []
        if meta.get("deletionTimestamp"):
            if FINALIZER not in finalizers:
                raise _ClusterGoneError  # only finalizers of others are left
            return cluster
        if FINALIZER not in finalizers:
            return await self._set_finalizers(cluster, [*finalizers, FINALIZER])
        return cluster

    async def _let_go(self, cluster: Json) -> None:
        """Remove Spindle's finalizer."""
        # The operator wrote the status since it read the cluster, so the resourceVersion is old.
        fresh = await self._setup.kube.find(KAFKA_CLUSTER, self._namespace, self._name)
        if fresh is not None and fresh["metadata"]["uid"] == cluster["metadata"]["uid"]:
            left = [name for name in fresh["metadata"].get("finalizers") or [] if name != FINALIZER]
            await self._set_finalizers(fresh, left)
            log.info("%s is deleted: clean-up is complete", self._label)

    async def _set_finalizers(self, cluster: Json, finalizers: list[str]) -> Json:
        meta = cluster["metadata"]
        guard = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": {**guard, "finalizers": finalizers}}
        try:
            return await self._setup.kube.patch(KAFKA_CLUSTER, self._namespace, self._name, body)
        except ApiError as error:
            if is_refusal(error) and not error.conflict:
                refused = RefusedRequest(_FINALIZERS, error.status, error.message)
                await self._setup.events.post(self._namespace, [refusal_event(cluster, refused)])
            raise

    async def _failed(self, error: Exception, pause: float, *, first: bool) -> None:
        expected = isinstance(error, (ApiError, PassTooLongError))
        text = brief(str(error) if expected else f"{type(error).__name__}: {error}")
        trace = error if first and not expected else None
        log.error("%s: the pass failed, next try in %.0f s: %s", self._label, pause, text, exc_info=trace)
        if isinstance(error, PassTooLongError):
            await self._tell(
                "ReconcileTimeout",
                f"A pass failed: {error}. Other clusters are not affected; this one is retried with increasing pauses",
            )
        elif not expected:
            text = f"Reconciliation failed with an error in the operator ({text}); see its log"
            await self._tell("ReconcileFailed", text)

    async def _tell(self, reason: str, text: str) -> None:
        """Report a failed pass in the KafkaCluster's status, not only in the log."""
        try:
            cluster = await self._setup.kube.find(KAFKA_CLUSTER, self._namespace, self._name)
        except ApiError:
            return
        if cluster is not None:
            event = Event("Warning", reason, text, "KafkaCluster", self._name, cluster["metadata"]["uid"])
            await self._setup.events.post(self._namespace, [event])


def _at_version(obj: Mapping[str, Any], version: Callable[[str], str]) -> Json:
    """An object that this pass read, with the resourceVersion that it has now."""
    meta = obj["metadata"]
    return {**obj, "metadata": {**meta, "resourceVersion": version(meta["resourceVersion"])}}


class PassTooLongError(Exception):
    """A pass was cancelled, or not started, because one takes too long."""


class _ClusterGoneError(Exception):
    """The KafkaCluster does not exist, or needs nothing from the operator."""


async def _comes(event: asyncio.Event, seconds: float) -> bool:
    """Whether an event is set within this many seconds."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def backoff(failures: int, first: float = BACKOFF[0]) -> float:
    """Seconds to wait after this many consecutive passes without progress."""
    return float(min(BACKOFF[1], first * 2 ** min(failures - 1, 16)))


def brief(text: str, most: int = 300) -> str:
    """A text cut to one line."""
    return text if len(text) <= most else text[: most - 1] + "…"


def sentence(label: str, results: list[Result], written: int, took: float) -> str:
    """What a pass did, in one line."""
    shown = [
        describe(result.action) + ("" if result.outcome == DONE else f" ({result.outcome})")
        for result in results
    ]
    more = len(shown) - 8
    if more > 0:
        shown = [*shown[:8], f"{more} more"]
    if written:
        shown.append(f"{written} status{'es' if written > 1 else ''} written")
    return f"{label}: {'; '.join(shown)} (took {took:.1f} s)"
