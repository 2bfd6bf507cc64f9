"""Writes statuses by server-side apply, only if they differ from the present ones, and events."""

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from spindle.api import names
from spindle.api.printable import printable, printables
from spindle.model.refused_requests import WRITE_STATUS, RefusedRequest
from spindle.model.snapshot import ClusterSnapshot
from spindle.reconcile.plan import Event, ReconcilePlan
from spindle.reconcile.refused_requests import refused_text
from spindle_operator.act import CONFLICT, DONE, GONE, STALE, Result
from spindle_operator.descriptions import describe
from spindle_operator.kinds import (
    EVENT,
    KAFKA_BROKER,
    KAFKA_CLUSTER,
    KAFKA_REBALANCE,
    KAFKA_TOPIC,
    KAFKA_USER,
    Kind,
)
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

_QUIET: Final = 600.0  # seconds in which the same event is not posted again
_REMEMBERED: Final = 4096
_MESSAGE: Final = 1024  # maximum length of an event's message
# Status fields that are not written here: marks are written by compare-and-swap, and agents write observed.
_OTHERS: Final = ("takingDown", "observed")
_AGENTS: Final = "observed"
_TRIES: Final = 3
REPORTING: Final = 60.0  # seconds after which a pass writes no further status; the next one does
# Of answers that say something about this very request: invalid, not allowed, denied by a webhook or policy, or by one that did not answer. Others (no
# answer, too many requests, not available) apply to whatever is asked next, too.
_REFUSALS: Final = frozenset({400, 403, 422, 500})


@dataclass(frozen=True)
class Written:
    """Result for the statuses that differed.

    Attributes:
        done: how many were written.
        skipped: how many objects had changed since they were read, have a status that the API server refuses, or were left out after `REPORTING`; the
            next pass writes those.
        refused: what the API server refused.
    """

    done: int = 0
    skipped: int = 0
    refused: tuple[RefusedRequest, ...] = ()


async def report(
    kube: Kube,
    cluster: Json,
    brokers: Iterable[Mapping[str, Any]],
    plan: ReconcilePlan,
    users: Iterable[Mapping[str, Any]] = (),
    rebalances: Iterable[Mapping[str, Any]] = (),
    topics: Iterable[Mapping[str, Any]] = (),
) -> Written:
    """Write the statuses that changed. One that the API server refuses is logged, and keeps no other from being written.

    Args:
        kube: the API server.
        cluster: the KafkaCluster as the pass read it.
        brokers: its KafkaBrokers, likewise.
        plan: has the desired statuses.
        users: its KafkaUsers, as the pass read them.
        rebalances: its KafkaRebalances, as the pass read them.
        topics: its KafkaTopics, likewise.

    Raises:
        ApiError: of any kind but a conflict or a refusal.
    """
    results, refused, began = list[bool | None](), list[RefusedRequest](), time.monotonic()
    for kind, obj, status in _statuses(cluster, brokers, plan, users, rebalances, topics):
        if results and time.monotonic() - began > REPORTING:
            results.append(False if _differs(obj, status) is not None else None)
            continue
        try:
            results.append(await _write(kube, kind, obj, status))
        except ApiError as error:
            if not is_refusal(error):
                raise
            meta = obj["metadata"]
            log.warning(
                "the status of %s %s/%s is refused: %s", kind.kind, meta["namespace"], meta["name"], error
            )
            target = (WRITE_STATUS, kind.kind, "" if kind is KAFKA_CLUSTER else str(meta["name"]))
            refused.append(RefusedRequest(target, error.status, error.message))
            results.append(False)
    return Written(done=results.count(True), skipped=results.count(False), refused=tuple(refused))


def writes(cluster: Json, snapshot: ClusterSnapshot, plan: ReconcilePlan) -> bool:
    """Whether a plan changes anything: by an action, by a status that differs, or because it is the last one of a deleted KafkaCluster."""
    statuses = _statuses(
        cluster, snapshot.brokers, plan, snapshot.users, snapshot.rebalances, snapshot.topics
    )
    return bool(
        plan.actions or plan.finished or any(_differs(obj, status) is not None for _, obj, status in statuses)
    )


def _statuses(
    cluster: Json,
    brokers: Iterable[Mapping[str, Any]],
    plan: ReconcilePlan,
    users: Iterable[Mapping[str, Any]],
    rebalances: Iterable[Mapping[str, Any]],
    topics: Iterable[Mapping[str, Any]],
) -> list[tuple[Kind, Mapping[str, Any], Mapping[str, Any]]]:
    """All objects with the status that they should have."""
    return [
        (KAFKA_CLUSTER, cluster, plan.status),
        *_with_status(KAFKA_BROKER, brokers, plan.broker_statuses),
        *_with_status(KAFKA_USER, users, plan.user_statuses),
        *_with_status(KAFKA_REBALANCE, rebalances, plan.rebalance_statuses),
        *_with_status(KAFKA_TOPIC, topics, plan.topic_statuses),
    ]


def is_refusal(error: ApiError) -> bool:
    """Whether an answer is about this very request, so that others may well succeed."""
    return error.status in _REFUSALS


def _with_status(
    kind: Kind, objects: Iterable[Mapping[str, Any]], statuses: Mapping[str, Mapping[str, Any]]
) -> list[tuple[Kind, Mapping[str, Any], Mapping[str, Any]]]:
    """The objects that have a desired status, with it."""
    return [
        (kind, obj, statuses[obj["metadata"]["name"]])
        for obj in objects
        if obj["metadata"]["name"] in statuses
    ]


async def _write(kube: Kube, kind: Kind, obj: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool | None:
    """True if written; False if the object changed meanwhile (other than by an agent); None if there was nothing to write."""
    status = _differs(obj, wanted)
    if status is None:
        return None
    meta = obj["metadata"]
    version: str | None = meta["resourceVersion"]
    for _ in range(_TRIES):
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            # resourceVersion: a status must not be written to another object of the same name, and for the status of a
            # custom resource the API server does not check the UID.
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "resourceVersion": version},
            "status": status,
        }
        try:
            await kube.apply(body, subresource="status")
        except ApiError as error:
            if not error.gone and not error.conflict:
                raise
        else:
            return True
        version = await _version_after_agent(kube, kind, obj)
        if version is None:
            break
    return False


def _differs(obj: Mapping[str, Any], wanted: Mapping[str, Any]) -> Json | None:
    """The status to write; None if the present one is as wanted."""
    standing = obj.get("status") or {}
    # Statuses contain texts of Kafka and of tenants, and users read them on a terminal.
    status: Json = printables(keep_timestamps(wanted, standing))
    if not wanted or status == {key: value for key, value in standing.items() if key not in _OTHERS}:
        return None
    return status


async def _version_after_agent(kube: Kube, kind: Kind, obj: Mapping[str, Any]) -> str | None:
    """The object's present resourceVersion, if only an agent wrote to it since it was read; else None.

    Agents report as often as disks or copies change; a status that waited for a pass without such a
    report could wait long. The agents' fields and the operator's do not overlap.
    """
    meta = obj["metadata"]
    fresh = await kube.find(kind, meta["namespace"], meta["name"])
    if fresh is None or _without_agents(fresh) != _without_agents(obj):
        return None
    return str(fresh["metadata"]["resourceVersion"])


def _without_agents(obj: Mapping[str, Any]) -> list[Any]:
    """The part of an object that agents do not write."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _VERSIONS}
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != _AGENTS}
    return [metadata, obj.get("spec"), status]


_VERSIONS: Final = ("resourceVersion", "managedFields")


def keep_timestamps(wanted: Mapping[str, Any], standing: Mapping[str, Any]) -> dict[str, Any]:
    """The desired status; conditions whose status did not change keep their ``lastTransitionTime``.

    Otherwise every pass would write, since the plan sets the time of the pass.
    """
    status = {key: value for key, value in wanted.items() if key not in _OTHERS}
    if "conditions" not in status:
        return status
    before = {condition["type"]: condition for condition in standing.get("conditions") or ()}
    conditions = []
    for condition in status["conditions"]:
        old = before.get(condition["type"])
        if old is not None and old.get("status") == condition.get("status") and old.get("lastTransitionTime"):
            conditions.append({**condition, "lastTransitionTime": old["lastTransitionTime"]})
        else:
            conditions.append(dict(condition))
    return {**status, "conditions": conditions}


class Events:
    """Posts Kubernetes events, each at most once in ten minutes. Best effort: a failure is only logged."""

    def __init__(self, kube: Kube, identity: str) -> None:
        self._kube = kube
        self._identity = identity
        self._posted: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def news(self, namespace: str, events: Sequence[Event]) -> bool:
        """Whether any of them was not posted recently."""
        return any(self._recent(_key(namespace, event)) is None for event in events)

    async def post(self, namespace: str, events: Sequence[Event]) -> None:
        """Post those that were not posted recently."""
        for event in events:
            if self._is_news(namespace, event):
                try:
                    await self._kube.create(self._object(namespace, event))
                except ApiError as error:
                    log.debug("event %s could not be posted: %s", event.reason, error)

    def _is_news(self, namespace: str, event: Event) -> bool:
        key = _key(namespace, event)
        if self._recent(key) is not None:
            return False
        self._posted[key] = time.monotonic()
        self._posted.move_to_end(key)
        while len(self._posted) > _REMEMBERED:
            self._posted.popitem(last=False)
        return True

    def _recent(self, key: tuple[str, ...]) -> float | None:
        """When it was posted, if that is not long ago."""
        last = self._posted.get(key)
        return last if last is not None and time.monotonic() - last < _QUIET else None

    def _object(self, namespace: str, event: Event) -> Json:
        now = datetime.now(UTC)
        stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        seed = f"{event.kind}{event.uid}{event.reason}{event.message}{now.timestamp()}"
        suffix = hashlib.sha256(seed.encode()).hexdigest()[:12]
        regarded = {"kind": event.kind, "name": event.name, "uid": event.uid, "namespace": namespace}
        regarded["apiVersion"] = names.API_VERSION if event.kind.startswith("Kafka") else "v1"
        if event.kind in ("Node", "PersistentVolume"):
            regarded["namespace"] = ""
        return {
            "apiVersion": "v1",
            "kind": EVENT.kind,
            "metadata": {
                "name": f"{event.name}.{suffix}",
                "namespace": namespace if regarded["namespace"] else "default",
            },
            "involvedObject": regarded,
            "type": event.type,
            "reason": event.reason,
            "message": printable(event.message[:_MESSAGE]),
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
            "count": 1,
            "source": {"component": names.FIELD_MANAGER},
            "reportingComponent": names.FIELD_MANAGER,
            "reportingInstance": self._identity[:128],
        }


def _key(namespace: str, event: Event) -> tuple[str, ...]:
    return (namespace, event.kind, event.name, event.uid, event.type, event.reason, event.message)


def refusal_event(cluster: Json, request: RefusedRequest) -> Event:
    """The event about a request that is no action: the status of the KafkaCluster cannot say that it is refused."""
    meta = cluster["metadata"]
    text = " ".join(refused_text(meta["namespace"], meta["name"], request))
    return Event("Warning", "RequestRefused", text, KAFKA_CLUSTER.kind, meta["name"], meta["uid"])


def events_of(cluster: Json, results: Iterable[Result]) -> list[Event]:
    """Events of the KafkaCluster for actions: executed ones with a reason, and failed ones."""
    meta = cluster["metadata"]
    regarding = (KAFKA_CLUSTER.kind, meta["name"], meta["uid"])
    events: list[Event] = []
    for result in results:
        action = result.action
        if result.outcome in (DONE, GONE):
            if action.reason:
                events.append(Event("Normal", action.reason, action.message or describe(action), *regarding))
        elif result.outcome not in (CONFLICT, STALE):
            # Expected (preconditions): the next pass reads the objects again.
            reason = f"{type(action).__name__}Failed"
            events.append(Event("Warning", reason, f"{describe(action)}: {result.detail}", *regarding))
    return events
