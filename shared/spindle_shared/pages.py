"""``/metrics``, ``/healthz`` and ``/readyz``, served by the event loop that does all the work: if it hangs, probes time out."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

# Concurrent connections, and the longest duration of one; _HEAD limits each line of a request.
_MOST: Final = 64
_SECONDS: Final = 10.0
_HEAD: Final = 2048


def pages(
    problem: Callable[[], str | None], ready: Callable[[], bool], measured: Callable[[], Awaitable[bytes]]
) -> web.Application:
    """The three pages.

    Args:
        problem: why this process should be restarted; None if it is healthy.
        ready: whether the process does its work.
        measured: all metrics in Prometheus' text format.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=await measured(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        found = problem()
        return web.Response(status=200 if found is None else 500, text=(found or "ok") + "\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(status=200 if ready() else 503, text="ok\n" if ready() else "starting\n")

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


@asynccontextmanager
async def serve(app: web.Application, port: int) -> AsyncIterator[None]:
    """Serve until the block ends. Raises OSError if the port is taken."""
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=0.1, max_line_size=_HEAD, max_field_size=_HEAD, max_headers=32
    )
    await runner.setup()
    try:
        server = await asyncio.get_running_loop().create_server(
            _ConnectionLimit(cast("web.Server", runner.server)), port=port
        )
        yield
        server.close()
    finally:
        await runner.cleanup()


class _ConnectionLimit:
    """Creates the handlers of connections, with limits on their number and duration: anyone in the network can connect, even maliciously."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._open: deque[web.RequestHandler] = deque()

    def __call__(self) -> asyncio.Protocol:
        """Handler for a new connection. Above the limit the oldest is closed: a probe completes long before it is the oldest."""
        made = self._server()
        self._open.append(made)
        if len(self._open) > _MOST:
            _end(self._open.popleft())
        asyncio.get_running_loop().call_later(_SECONDS, _end, made)
        return made


def _end(handler: web.RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()
