"""A small API server for the agent's unit tests: KafkaBrokers, statuses, Leases and Secrets, and a switch to be away."""

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import web

from spindle_agent.kube import Kube

Json = dict[str, Any]


def broker(name: str = "demo-broker-0", node: str = "here", **spec: Any) -> Json:
    """A KafkaBroker."""
    return {
        "metadata": {"name": name, "namespace": "ns", "managedFields": ["long"]},
        "spec": {"cluster": "demo", "id": 0, "node": node, **spec},
    }


class FakeApi:
    """What it was told stands in ``statuses`` and ``leases``."""

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.version = 1
        self.statuses: list[tuple[str, Json]] = []
        self.leases: list[Json] = []
        self.config_maps: dict[str, Json] = {}
        self.clusters: dict[str, Json] = {}
        self.tokens: list[str] = []
        self.away = 0
        self.refuse_status = 0
        self.lists = 0
        self.selectable = True
        self._watchers: list[asyncio.Queue[Json]] = []
        self._events: list[tuple[int, Json]] = []

    def put(self, obj: Json) -> None:
        """Create or change an object."""
        kind = "MODIFIED" if obj["metadata"]["name"] in self.objects else "ADDED"
        self.objects[obj["metadata"]["name"]] = obj
        self._tell(kind, obj)

    def remove(self, name: str) -> None:
        self._tell("DELETED", self.objects.pop(name))

    def expire(self) -> None:
        """End all watches with "too old"."""
        error = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
        for queue in self._watchers:
            queue.put_nowait(error)

    def _tell(self, kind: str, obj: Json) -> None:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        event = {"type": kind, "object": copy.deepcopy(obj)}
        self._events.append((self.version, event))
        for queue in self._watchers:
            queue.put_nowait(event)

    @contextlib.asynccontextmanager
    async def serve(self, folder: Path) -> AsyncIterator[Kube]:
        """Serve on loopback; gives a connection to it."""
        (folder / "token").write_text("secret-1\n")
        app = web.Application(middlewares=[self._executor])
        base = "/apis/spindle.dev/v1alpha1"
        app.router.add_get(f"{base}/kafkabrokers", self._list)
        app.router.add_get(f"{base}/namespaces/{{ns}}/kafkabrokers", self._list)
        app.router.add_get(f"{base}/namespaces/{{ns}}/kafkaclusters/{{name}}", self._cluster)
        app.router.add_patch(f"{base}/namespaces/{{ns}}/kafkabrokers/{{name}}/status", self._status)
        app.router.add_patch("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/{name}", self._lease)
        app.router.add_get("/api/v1/namespaces/{ns}/configmaps/{name}", self._config_map)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        kube = Kube(f"http://127.0.0.1:{port}", folder / "token", folder / "ca.crt")
        try:
            yield kube
        finally:
            await kube.close()
            await runner.cleanup()

    @web.middleware
    async def _executor(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.away:
            return web.json_response({"reason": "Away", "message": "gone fishing"}, status=self.away)
        response: web.StreamResponse = await handler(request)
        return response

    async def _list(self, request: web.Request) -> web.StreamResponse:
        node = request.query.get("fieldSelector", "").removeprefix("spec.node=")
        if node and not self.selectable:
            return web.json_response(
                {"reason": "BadRequest", "message": "field label not supported: spec.node"}, status=400
            )
        if "watch" in request.query:
            return await self._watch(request, node)
        self.lists += 1
        items = [obj for obj in self.objects.values() if node in ("", obj["spec"]["node"])]
        half = len(items) // 2
        if "continue" in request.query:
            page, meta = items[half:], {"resourceVersion": str(self.version)}
        elif half:
            page, meta = items[:half], {"resourceVersion": str(self.version), "continue": "more"}
        else:
            page, meta = items, {"resourceVersion": str(self.version)}
        return web.json_response({"items": page, "metadata": meta})

    async def _watch(self, request: web.Request, node: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[Json] = asyncio.Queue()
        for version, event in self._events:
            if version > int(request.query["resourceVersion"]):
                queue.put_nowait(event)
        self._watchers.append(queue)
        try:
            while not self.away:
                event = await queue.get()
                if event["type"] != "ERROR" and node not in ("", event["object"]["spec"]["node"]):
                    event = {**event, "type": "DELETED"}
                await response.write(json.dumps(event).encode() + b"\n")
                if event["type"] == "ERROR":
                    break
        finally:
            self._watchers.remove(queue)
        return response

    async def _status(self, request: web.Request) -> web.Response:
        if self.refuse_status:
            return web.json_response({"reason": "No", "message": "no"}, status=self.refuse_status)
        assert request.headers["Content-Type"] == "application/apply-patch+yaml"
        assert request.query["fieldManager"] == "spindle-agent"
        body = await request.json()
        self.statuses.append((request.match_info["name"], body["status"]["observed"]))
        return web.json_response(body)

    async def _lease(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.leases.append(body)
        return web.json_response(body)

    async def _config_map(self, request: web.Request) -> web.Response:
        return self._one(self.config_maps, request)

    async def _cluster(self, request: web.Request) -> web.Response:
        return self._one(self.clusters, request)

    def _one(self, things: dict[str, Json], request: web.Request) -> web.Response:
        found = things.get(request.match_info["name"])
        if found is None:
            return web.json_response({"reason": "NotFound", "message": "none"}, status=404)
        return web.json_response(found)


async def until(what: Any, seconds: float = 5.0) -> None:
    """Wait until a question is answered with yes."""
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - what is waited for is no event
            await asyncio.sleep(0.01)
