"""The map's server: who spends the token, and that nothing keeps the command from ending."""

import asyncio
import threading
import time
from typing import Any, Self

import aiohttp
from aiohttp import web

from spindle_cli.disk_map.access import Access
from spindle_cli.disk_map.board import Board
from spindle_cli.disk_map.server import HOST, MapServer
from spindle_cli.kube import KubeError


class FakeKube:
    """A Kubernetes that answers when it is let go, with an error."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def broker(self, _: str) -> Any:
        self.asked.set()
        self.go.wait(60)
        raise KubeError("no answer")


class Served:
    def __init__(self, kube: Any) -> None:
        self.access = Access(0)
        self.server = MapServer(kube, Board("demo"), self.access)

    async def __aenter__(self) -> Self:
        self.runner = web.AppRunner(self.server.app(), shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, HOST, 0).start()
        self.access.port = self.runner.addresses[0][1]
        self.client = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        await self.runner.cleanup()

    async def status(self, method: str, url: str) -> int:
        async with self.client.request(method, url, allow_redirects=False) as answer:
            return answer.status

    @property
    def page(self) -> str:
        return f"http://{HOST}:{self.access.port}"


async def test_looking_at_the_link_does_not_spend_the_token() -> None:
    async with Served(FakeKube()) as served:
        assert await served.status("HEAD", served.access.url) == 303
        assert await served.status("GET", f"{served.page}/") == 403  # and gives no cookie
        assert await served.status("GET", served.access.url) == 303
        assert await served.status("GET", f"{served.page}/") == 200
        assert await served.status("GET", served.access.url) == 403


async def test_an_error_of_kubernetes_is_told() -> None:
    kube = FakeKube()
    kube.go.set()
    async with Served(kube) as served:
        await served.status("GET", served.access.url)
        async with served.client.get(f"{served.page}/disk?broker=b&disk=d") as answer:
            assert answer.status == 502
            assert await answer.json() == {"error": "no answer"}


def test_a_request_for_a_disk_that_kubernetes_does_not_answer_keeps_nothing_running() -> None:
    kube = FakeKube()

    async def use() -> None:
        async with Served(kube) as served:
            await served.status("GET", served.access.url)
            asking = asyncio.ensure_future(served.status("GET", f"{served.page}/disk?broker=b&disk=d"))
            await asyncio.to_thread(kube.asked.wait, 10)
            asking.cancel()

    began = time.monotonic()
    try:
        asyncio.run(use())
        assert time.monotonic() - began < 20
        assert not kube.go.is_set()
    finally:
        kube.go.set()
