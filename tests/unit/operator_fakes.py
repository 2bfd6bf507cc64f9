"""Stand-ins for the API server and for Kafka's answers, for the operator's unit tests only."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from spindle_operator.kinds import Kind
from spindle_operator.kube import ByteBudget, Kube
from spindle_shared.api_answers import ApiError


class FakeKube(Kube):
    """Records what is asked for; answers from a table of failures, else with an echo.

    Attributes:
        calls: (verb, what, body) in order.
        failures: verb, or (verb, name) → the error to raise.
        objects: path → object, for reads.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.failures: dict[Any, ApiError] = {}
        self.objects: dict[str, dict[str, Any]] = {}

    def _call(self, verb: str, name: str, body: Any) -> dict[str, Any]:
        self.calls.append((verb, name, body))
        for key in (verb, (verb, name)):
            if key in self.failures:
                raise self.failures[key]
        meta = {**(body or {}).get("metadata", {}), "resourceVersion": str(1000 + len(self.calls))}
        return {**(body or {}), "metadata": meta}

    async def create(self, obj: Mapping[str, Any], namespace: str | None = None) -> dict[str, Any]:
        return self._call("create", obj["metadata"]["name"], obj)

    async def apply(
        self, obj: Mapping[str, Any], namespace: str | None = None, *, subresource: str | None = None
    ) -> dict[str, Any]:
        return self._call("apply", "/".join(filter(None, (obj["metadata"]["name"], subresource))), obj)

    async def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
        content_type: str = "",
    ) -> dict[str, Any]:
        answer = self._call("patch", "/".join(filter(None, (name, subresource))), body)
        standing = self.objects.get(kind.path(namespace, name), {})
        return {**standing, "metadata": {**standing.get("metadata", {}), **answer["metadata"]}}

    async def delete(
        self, kind: Kind, namespace: str | None, name: str, uid: str, *, grace_seconds: int | None = None
    ) -> None:
        body = {"uid": uid}
        self._call("delete", name, body if grace_seconds is None else body | {"grace": grace_seconds})

    async def evict(self, namespace: str, pod: str, uid: str, resource_version: str) -> None:
        self._call("evict", pod, {"uid": uid, "resourceVersion": resource_version})

    async def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any]:
        self._call("get", name, None)
        return self.objects[kind.path(namespace, name)]

    async def find(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        self._call("find", name, None)
        return self.objects.get(kind.path(namespace, name))

    async def listed(self, kind: Kind, *_: Any, **__: Any) -> tuple[list[dict[str, Any]], str]:
        raise ApiError(403, "Forbidden", f"{kind.plural} may not be watched")

    async def items(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        selector: str | None = None,
        within: ByteBudget | None = None,
        same: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> list[dict[str, Any]]:
        self._call("list", kind.plural, None)
        prefix = kind.path(namespace) + "/"
        found = [obj for path, obj in self.objects.items() if path.startswith(prefix)]
        if within is not None:
            within.spend(len(json.dumps(found)))
        return found if same is None else [same(obj) for obj in found]

    async def metadata(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        selector: str | None = None,
        within: ByteBudget | None = None,
    ) -> list[dict[str, Any]]:
        found = [{"metadata": obj["metadata"]} for obj in await self.items(kind, namespace)]
        if within is not None:
            within.spend(len(json.dumps(found)))
        return found

    def done(self, verb: str) -> list[str]:
        """Names of what this verb was used on."""
        return [name for used, name, _ in self.calls if used == verb]


def conflict() -> ApiError:
    return ApiError(409, "Conflict", "it changed")


def cluster(**meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "spindle.dev/v1alpha1",
        "kind": "KafkaCluster",
        "metadata": {"name": "demo", "namespace": "ns", "uid": "u-1", "resourceVersion": "7", **meta},
        "spec": {},
    }
