"""Why the operator has loops and a finalizer of its own (docs/adr/0008): kopf handles the events of an object one after the other."""

import asyncio
from typing import Any

import kopf
import pytest

from spindle.api import names
from spindle_operator import handlers
from spindle_operator.kinds import CONFIG_MAP
from spindle_operator.kube import Kube

pytestmark = pytest.mark.kube

SECONDS = 30.0


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), SECONDS)


async def test_kopf_keeps_changes_back_while_a_delete_handler_waits(kube: Kube, namespace: str) -> None:
    registry = kopf.OperatorRegistry()
    seen: list[str] = []
    held, alive, deleting, finish, ready, stop = (asyncio.Event() for _ in range(6))

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await handlers.connection(kube)

    @kopf.on.event("", "v1", "configmaps", registry=registry)
    async def on_event(annotations: Any, meta: Any, **_: Any) -> None:
        if meta.get("finalizers"):
            held.set()
        seen.append(annotations.get("change", ""))
        if seen[-1] == "alive":
            alive.set()

    @kopf.on.delete("", "v1", "configmaps", registry=registry)
    async def on_delete(**_: Any) -> None:
        deleting.set()
        await finish.wait()

    async def change(value: str) -> None:
        await kube.patch(CONFIG_MAP, namespace, "one", {"metadata": {"annotations": {"change": value}}})

    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            settings=handlers.settings(),
            standalone=True,
            identity="test",  # type: ignore[arg-type]
            namespaces=[namespace],
            stop_flag=stop,
            ready_flag=ready,
        )
    )
    try:
        await soon(ready)
        made = await kube.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "one", "namespace": namespace, "labels": {names.LABEL_CLUSTER: "demo"}},
            }
        )
        await soon(held)  # a change before kopf's first request would make that fail
        await change("alive")
        await soon(alive)
        await kube.delete(CONFIG_MAP, namespace, "one", made["metadata"]["uid"])
        await soon(deleting)
        await change("being deleted")
        await asyncio.sleep(3)
        assert "being deleted" not in seen
    finally:
        finish.set()
        stop.set()
        await asyncio.wait([running], timeout=SECONDS)
