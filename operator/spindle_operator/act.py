"""Executes the actions of a plan, in order. Each write has preconditions, so that it never overwrites a concurrent change by others.

A failed ``MarkDown``, ``Create``, ``Patch``, ``IssueCa``, or ``Apply`` of a KafkaBroker ends the pass's actions, because later actions may depend
on it (an eviction on its mark, a withdrawn mark on the changed pod); a refused pod does not. So does a name that an object of somebody else has; the next pass takes it
into account. So do failed requests about replicas: a reassignment depends on its throttle and on the log dir chosen before. Other failures are
recorded and the remaining actions run; so do the rest of a batch if a broker did not accept the log dirs of some partitions.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from kafka.errors import KafkaError

from spindle.api import names
from spindle.model.actions import (
    Action,
    AddVoter,
    Apply,
    CertifyAgents,
    CopyCertificates,
    Create,
    CreateTopic,
    Delete,
    ElectUnclean,
    Evict,
    GrantRebalance,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    MarkDown,
    Patch,
    PlaceReplicas,
    Reassign,
    ReloadCertificates,
    RemoveVoter,
    SetConfigs,
    SetPassword,
    SetPodCondition,
    TryPod,
    TurnCa,
)
from spindle.model.freshness import FactsRead, too_old
from spindle.model.ownership import Owners
from spindle.model.refused_requests import RefusedRequest, target_of
from spindle_operator import metrics
from spindle_operator.certificates import Certificates, password_mark
from spindle_operator.descriptions import describe
from spindle_operator.kafka_commands import NotPlacedError
from spindle_operator.kafka_executor import KafkaExecutor
from spindle_operator.kinds import KAFKA_BROKER, KAFKA_CLUSTER, KAFKA_TOPIC, KINDS, POD, SECRET
from spindle_operator.kube import STRATEGIC, Kube
from spindle_operator.writing import NameTakenError, Writer
from spindle_shared.api_answers import ApiError, Json

log = logging.getLogger(__name__)

DONE: Final = "done"
TAKEN: Final = "taken"  # its name is taken by an object that is not ours
GONE: Final = "gone"  # the object to delete or to evict no longer exists: nothing left to do
CONFLICT: Final = (
    "conflict"  # it changed since the pass read it, or exists already: the next pass reads it again
)
REFUSED: Final = "refused"  # a PodDisruptionBudget, a quota or an admission policy forbids it
FAILED: Final = "failed"
PARTLY: Final = (
    "partly"  # Kafka rejected a part of a request; actions that depend on that part are skipped in this pass
)

STALE: Final = "stale"  # what it was planned from is not fresh enough

ACTING: Final = 120.0  # seconds after which a pass starts no further action, so that its status is written

_ENDS_PASS: Final = (
    Create,
    MarkDown,
    Patch,
    IssueCa,
    TurnCa,
    PlaceReplicas,
    Reassign,
    SetConfigs,
    ElectUnclean,
    GrantRebalance,
    AddVoter,
    RemoveVoter,
)


@dataclass(frozen=True)
class Result:
    """Result of one action.

    Attributes:
        outcome: one of this module's constants.
        detail: why it failed; empty when done.
        taken: kind and name of an object of somebody else in the KafkaCluster's namespace that has the name.
        refused: the request, if the API server refused it.
    """

    action: Action
    outcome: str
    detail: str = ""
    taken: tuple[str, str] | None = None
    refused: RefusedRequest | None = None

    @property
    def changed(self) -> bool:
        """Whether the action changed anything."""
        return self.outcome == DONE


class LeadershipLostError(Exception):
    """This process is no longer the leader and must not write."""


class Actor:
    """Executes actions for one KafkaCluster."""

    def __init__(
        self,
        kube: Kube,
        cluster: Json,
        executor: KafkaExecutor,
        leading: Callable[[], bool],
        owners: Owners | None = None,
        *,
        look: FactsRead,
    ) -> None:
        """An actor for one pass.

        Args:
            kube: the API server.
            cluster: the KafkaCluster as this pass read it.
            executor: the connection to its Kafka.
            leading: whether this process still holds the Lease, by its own clock.
            owners: ownerReferences that make an object ours; by default the KafkaCluster as the only owner.
            look: how fresh the facts are that the actions were planned from.
        """
        self._kube = kube
        self._executor = executor
        self._look = look
        self._leading = leading
        self._name: str = cluster["metadata"]["name"]
        self._namespace: str = cluster["metadata"]["namespace"]
        self._uid: str = cluster["metadata"]["uid"]
        self._writer = Writer(kube, owners or Owners(self._name, self._namespace, self._uid))
        self._certificates = Certificates(kube, cluster, self._writer)
        self._steps: Mapping[type[Action], Callable[[Any], Awaitable[None]]] = {
            Create: self._create,
            TryPod: self._try_pod,
            Apply: self._apply,
            Patch: self._patch,
            SetPodCondition: self._set_pod_condition,
            Delete: self._delete,
            MarkDown: self._mark_down,
            Evict: self._evict,
            IssueCa: self._certificates.make,
            IssueCertificate: self._certificates.issue,
            CertifyAgents: self._certificates.certify,
            TurnCa: self._certificates.turn,
            CopyCertificates: self._certificates.copy,
            ReloadCertificates: self._reload_certificates,
            KeepPassword: self._certificates.keep_password,
            SetPassword: self._set_password,
            Reassign: self._reassign,
            CreateTopic: self._create_topic,
        }
        self._not_placed: set[tuple[str, int]] = set()
        # The plan knows one resourceVersion; a second mark of the same pass must follow on the first one's.
        self._version: dict[str, str] = {}

    async def run(self, actions: Sequence[Action]) -> list[Result]:
        """Execute the actions, one after the other, as many as time permits.

        Raises:
            LeadershipLostError: before an action, if the lease is lost.
            ApiError: the API server could not be reached.
        """
        results: list[Result] = []
        began = time.monotonic()
        for action in actions:
            if not self._leading():
                raise LeadershipLostError
            if results and time.monotonic() - began > ACTING:
                break  # the next pass reads it again
            result = await self._one(action)
            metrics.ACTIONS.labels(self._namespace, self._name, type(action).__name__, result.outcome).inc()
            results.append(result)
            if result.outcome not in (DONE, GONE):
                log.warning("%s: %s", describe(action), result.detail)
                if result.outcome in (TAKEN, STALE) or (_ends_pass(action) and not _may_go_on(result)):
                    break
        return results

    def version(self, resource_version: str) -> str:
        """The resourceVersion of the KafkaCluster or of a KafkaTopic now, if it was this one before and only this pass changed it."""
        return self._version.get(resource_version, resource_version)

    async def _one(self, action: Action) -> Result:
        if (why := too_old(action, self._look, time.monotonic())) is not None:
            return Result(action, STALE, why)
        try:
            await self._dispatch(action)
        except ApiError as error:
            if error.status == 0:
                raise  # no API server: each remaining action would only time out
            outcome, target = _outcome(action, error), target_of(action)
            refused = outcome in (REFUSED, FAILED) and target is not None
            request = RefusedRequest(target, error.status, error.message) if refused and target else None
            return Result(action, outcome, error.message, refused=request)
        except NameTakenError as error:
            here = error.namespace == self._namespace
            return Result(action, TAKEN, str(error), (error.kind, error.name) if here else None)
        except NotPlacedError as error:
            self._not_placed |= error.partitions
            return Result(action, PARTLY, str(error))
        except (KafkaError, OSError, TimeoutError, RuntimeError, ValueError, KeyError) as error:
            return Result(action, FAILED, f"{type(error).__name__}: {error}")
        return Result(action, DONE)

    async def _dispatch(self, action: Action) -> None:
        """Carry out an action by its row in `_steps`, or as a request to Kafka."""
        step = self._steps.get(type(action))
        await (self._executor.carry_out(action) if step is None else step(action))

    async def _create(self, action: Create) -> None:
        made = await self._writer.create(action.object)
        if action.object["kind"] == KAFKA_BROKER.kind:  # it is applied later on
            await self._writer.hand_over(made)

    async def _try_pod(self, action: TryPod) -> None:
        await self._kube.try_create(action.object, self._namespace)

    async def _apply(self, action: Apply) -> None:
        await self._writer.put(action.object, action.seen["metadata"] if action.seen else None)

    async def _evict(self, action: Evict) -> None:
        await self._kube.evict(self._namespace, action.pod, action.uid, action.resource_version)

    async def _reassign(self, action: Reassign) -> None:
        # Without an accepted log dir, the broker would create the replica in any of its log dirs.
        placed = tuple(each for each in action.assignments if each[:2] not in self._not_placed)
        if placed:
            await self._executor.carry_out(replace(action, assignments=placed))

    async def _create_topic(self, action: CreateTopic) -> None:
        if action.record is not None:  # what is not on record is never taken for Spindle's own
            await self._patch(action.record)
        await self._executor.carry_out(action)

    async def _reload_certificates(self, action: ReloadCertificates) -> None:
        await self._patch(action.begin)
        await self._executor.carry_out(action)
        await self._patch(action.record)

    async def _delete(self, action: Delete) -> None:
        if action.grace_seconds == 0:
            raise ValueError(
                "a pod is never deleted without a grace period: its successor could start while it still runs"
            )
        await self._kube.delete(
            KINDS[action.kind],
            action.namespace or self._namespace,
            action.name,
            action.uid,
            grace_seconds=action.grace_seconds,
        )

    async def _patch(self, action: Patch) -> None:
        body = dict(action.body)
        guard = {"uid": action.uid}
        if action.resource_version is not None:
            guard["resourceVersion"] = action.resource_version
        body["metadata"] = {**(body.get("metadata") or {}), **guard}
        answer = await self._kube.patch(KINDS[action.kind], self._namespace, action.name, body)
        if action.kind == KAFKA_TOPIC.kind and action.resource_version is not None:
            self._version[action.resource_version] = answer["metadata"]["resourceVersion"]

    async def _set_pod_condition(self, action: SetPodCondition) -> None:
        condition = {
            "type": action.type,
            "status": "True" if action.status else "False",
            "reason": "InSync" if action.status else "NotInSync",
            "message": action.why,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"metadata": {"uid": action.uid}, "status": {"conditions": [condition]}}
        await self._kube.patch(
            POD, self._namespace, action.pod, body, subresource="status", content_type=STRATEGIC
        )

    async def _mark_down(self, action: MarkDown) -> None:
        expected = self.version(action.resource_version)
        body = {
            "metadata": {"uid": self._uid, "resourceVersion": expected},
            "status": {"takingDown": [dict(entry) for entry in action.entries]},
        }
        answer = await self._kube.patch(
            KAFKA_CLUSTER, self._namespace, self._name, body, subresource="status"
        )
        self._version[action.resource_version] = answer["metadata"]["resourceVersion"]

    async def _set_password(self, action: SetPassword) -> None:
        password = await self._certificates.password(action.secret, action.uid)
        await self._executor.set_password(action.user, password)
        notes = {names.ANN_PASSWORD: password_mark(password)}
        await self._kube.patch(
            SECRET, self._namespace, action.secret, {"metadata": {"uid": action.uid, "annotations": notes}}
        )


def _ends_pass(action: Action) -> bool:
    recorded = isinstance(action, Apply) and action.object["kind"] == KAFKA_BROKER.kind
    alone = isinstance(action, Patch) and action.alone
    return recorded or (isinstance(action, _ENDS_PASS) and not alone)


def _may_go_on(result: Result) -> bool:
    """Whether the rest of the pass does not depend on a failed action: on a part of a batch, or on a pod, which a quota may refuse for days."""
    action = result.action
    refused_pod = isinstance(action, Create) and action.object["kind"] == POD.kind
    return result.outcome == PARTLY or (result.outcome == REFUSED and refused_pod)


def _outcome(action: Action, error: ApiError) -> str:
    if error.gone:
        return GONE if isinstance(action, (Delete, Evict)) else CONFLICT
    if error.conflict:
        return CONFLICT
    # 429 of an eviction: a PodDisruptionBudget forbids it; 403 and 422: a quota, a policy or validation.
    return REFUSED if error.status in (400, 403, 422, 429) else FAILED
