"""Why Spindle sets and removes its finalizer itself (docs/adr/0008): kopf does not repeat a removal that the API server refused."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import kopf
import pytest

from e2e.cluster.apiserver import ApiServer
from spindle.api import names
from spindle_operator import handlers
from spindle_operator.kinds import CONFIG_MAP
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError

pytestmark = pytest.mark.kube

FINALIZER = "trial.example.org/finalizer"
POLICY = "finalizers-stay"
INVALID = 422


class NoProgress(kopf.ProgressStorage):
    """Writes nothing of the progress of handlers to the object."""

    def fetch(self, **_: Any) -> None:
        """Nothing is known."""

    def store(self, **_: Any) -> None:
        """Write nothing."""

    def purge(self, **_: Any) -> None:
        """Nothing is there."""

    def touch(self, **_: Any) -> None:
        """Write nothing."""

    def clear(self, *, essence: Any) -> Any:
        """The object has nothing of kopf's."""
        return essence


class NoDifferences(kopf.DiffBaseStorage):
    """Writes no copy of the object to the object."""

    def fetch(self, **_: Any) -> None:
        """Nothing is known."""

    def store(self, **_: Any) -> None:
        """Write nothing."""


def settings() -> kopf.OperatorSettings:
    """Settings by which kopf has a finalizer and writes nothing else."""
    chosen = handlers.settings()
    chosen.persistence.finalizer = FINALIZER
    chosen.persistence.progress_storage = NoProgress()
    chosen.persistence.diffbase_storage = NoDifferences()
    return chosen


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():  # noqa: ASYNC110 - asks the API server
            await asyncio.sleep(0.1)


@pytest.fixture
def permit_removal(api_server: ApiServer, namespace: str) -> Iterator[Callable[[], None]]:
    """An admission policy that refuses to remove finalizers in the test's namespace, as a webhook that is down does; call it to remove the policy."""
    kinds = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}
    stay = {"expression": "!has(oldObject.metadata.finalizers) || has(object.metadata.finalizers)"}
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    specs = {
        "ValidatingAdmissionPolicy": {"matchConstraints": {"resourceRules": [kinds]}, "validations": [stay]},
        "ValidatingAdmissionPolicyBinding": {
            "policyName": POLICY,
            "validationActions": ["Deny"],
            "matchResources": here,
        },
    }

    def remove() -> None:
        for kind in specs:
            api_server.kubectl("delete", kind, POLICY, "--ignore-not-found")

    for kind, spec in specs.items():
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": POLICY}}
        api_server.kubectl("apply", "-f", "-", stdin=json.dumps({**body, "spec": spec}))
    yield remove
    remove()


async def test_kopf_does_not_repeat_a_removal_of_its_finalizer_that_was_refused(
    kube: Kube, namespace: str, permit_removal: Callable[[], None]
) -> None:
    registry = kopf.OperatorRegistry()
    deleted, stop = asyncio.Event(), asyncio.Event()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await handlers.connection(kube)

    @kopf.on.delete("", "v1", "configmaps", registry=registry)
    async def on_delete(**_: Any) -> None:
        deleted.set()

    async def made(name: str) -> str:
        labels = {names.LABEL_CLUSTER: "demo"}  # Spindle watches no other ConfigMaps
        meta = {"name": name, "namespace": namespace, "labels": labels}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        return str((await kube.create(body))["metadata"]["uid"])

    async def held() -> bool:
        found = await kube.find(CONFIG_MAP, namespace, "one")
        return found is not None and FINALIZER in found["metadata"].get("finalizers", ())

    async def gone() -> bool:
        return await kube.find(CONFIG_MAP, namespace, "one") is None

    async def removal_refused() -> bool:
        """Whether the policy, which the API server reads a moment later, refuses a removal."""
        try:
            await kube.patch(CONFIG_MAP, namespace, "other", {"metadata": {"finalizers": None}})
        except ApiError as error:
            return error.status == INVALID  # kopf takes it for a conflict
        await kube.patch(CONFIG_MAP, namespace, "other", {"metadata": {"finalizers": ["example.org/stay"]}})
        return False

    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=settings(),
            standalone=True,
            identity="test",  # type: ignore[arg-type]
            namespaces=[namespace],
            stop_flag=stop,
        )
    )
    try:
        uid = await made("one")
        await made("other")
        await until(held)
        await until(removal_refused)
        await kube.delete(CONFIG_MAP, namespace, "one", uid)
        await asyncio.wait_for(deleted.wait(), 30)
        await asyncio.sleep(3)  # kopf's request
        await asyncio.to_thread(permit_removal)
        await asyncio.sleep(4)
        assert await held()
        # Only another event of the object makes kopf try again.
        await kube.patch(CONFIG_MAP, namespace, "one", {"metadata": {"annotations": {"change": "any"}}})
        await until(gone)
    finally:
        stop.set()
        await asyncio.wait([running], timeout=30)
