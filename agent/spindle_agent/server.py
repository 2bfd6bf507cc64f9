"""``/metrics``, ``/healthz`` and ``/readyz``, served by the loop that does all the work: if it is stuck, probes time out."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

# Connections at one time, and how long one may last; what somebody says in place of a question is bounded by _HEAD for each line of it.
_MOST: Final = 64
_SECONDS: Final = 10.0
_HEAD: Final = 2048


def application(problem: Callable[[], str | None], ready: Callable[[], bool]) -> web.Application:
    """The three pages.

    Args:
        problem: why this process should be restarted, None if it is well.
        ready: whether it knows what to look after.
    """

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

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
            ConnectionLimit(cast("web.Server", runner.server)), port=port
        )
        yield
        server.close()
    finally:
        await runner.cleanup()


class ConnectionLimit:
    """Makes what serves each connection, of which only so many are open, none for long: anybody in the network may ask, also without end."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._open: deque[web.RequestHandler] = deque()

    def __call__(self) -> asyncio.Protocol:
        """For a connection that was just made. The oldest makes room: a probe is through long before it is that."""
        made = self._server()
        self._open.append(made)
        if len(self._open) > _MOST:
            _end(self._open.popleft())
        asyncio.get_running_loop().call_later(_SECONDS, _end, made)
        return made


def _end(handler: web.RequestHandler) -> None:
    if handler.transport is not None:
        handler.transport.abort()
