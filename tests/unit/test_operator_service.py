"""The operator's process: its Lease does not depend on what its passes wait for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.configuration import Configuration

from spindle_operator import lease, options, service
from spindle_operator.kinds import POD
from spindle_operator.kube import Kube

_LISTS = 40  # more than one connection has at once


class Server:
    """An API server that answers requests about one Lease and no others."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.writes = 0
        self.renewed = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        if "/leases" not in request.path:
            await asyncio.sleep(60)
        if request.method != "GET":
            self.writes += 1
            self.lease = await request.json()
            self.lease["metadata"]["resourceVersion"] = str(self.writes)
            self.renewed.set()
        return web.json_response(self.lease or {}, status=404 if self.lease is None else 200)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        await runner.cleanup()


async def test_the_lease_is_renewed_while_no_other_request_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, renewals = Server(), 0
    monkeypatch.setattr(lease, "RETRY", 0.1)
    monkeypatch.setattr(lease, "DEADLINE", 3.0)

    async def lead(_: Any, kube: Kube, __: Any, ___: Any, holding: asyncio.Task[None], ____: Any) -> int:
        nonlocal renewals
        asking = [asyncio.create_task(kube.items(POD, f"ns-{n}")) for n in range(_LISTS)]
        await asyncio.sleep(0.3)
        while renewals < 3 and not holding.done():
            server.renewed.clear()
            renewed = asyncio.create_task(server.renewed.wait())
            await asyncio.wait([renewed, holding], return_when=asyncio.FIRST_COMPLETED)
            renewals += renewed.done()
            renewed.cancel()
        for each in asking:
            each.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return 0

    async with server.serving() as address:

        @asynccontextmanager
        async def connect() -> AsyncIterator[Kube]:
            configuration = Configuration()
            configuration.host = address
            kube = Kube(configuration)
            yield kube
            await kube.close()

        monkeypatch.setattr(service, "connect", connect)
        monkeypatch.setattr(service, "_lead", lead)
        arguments = ["--lease-namespace", "ns", "--image", "spindle:1", "--port", "0"]
        assert await service.run(options.parse(arguments)) == 0
    assert renewals == 3
