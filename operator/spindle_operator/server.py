"""``/metrics``, ``/healthz`` and ``/readyz``, served by the same event loop that reconciles: if it hangs, probes time out."""

import asyncio
import faulthandler
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from spindle_operator.health import Health

log = logging.getLogger(__name__)

# Concurrent connections, and the longest duration of one; _HEAD limits each line of a request.
_MOST: Final = 64
_SECONDS: Final = 10.0
_HEAD: Final = 2048


def application(health: Health) -> web.Application:
    """The three pages."""

    async def metrics(_: web.Request) -> web.Response:
        # In a thread: with thousands of disks it takes more than a second, and the Lease must be renewed meanwhile.
        return web.Response(
            body=await asyncio.to_thread(generate_latest), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def healthz(_: web.Request) -> web.Response:
        problem = health.problem()
        if problem is not None:
            _say_where(problem)
        return web.Response(status=200 if problem is None else 500, text=(problem or "ok") + "\n")

    async def readyz(_: web.Request) -> web.Response:
        return web.Response(
            status=200 if health.ready else 503, text="ok\n" if health.ready else "starting\n"
        )

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def _say_where(problem: str) -> None:
    """Log what hangs before the restart hides it."""
    log.error("%s; tasks and threads:", problem)
    for task in asyncio.all_tasks():
        task.print_stack(limit=6)
    faulthandler.dump_traceback()


@asynccontextmanager
async def serve(health: Health, port: int) -> AsyncIterator[None]:
    """Serve until the block ends. Raises OSError if the port is taken."""
    runner = web.AppRunner(
        application(health),
        access_log=None,
        shutdown_timeout=1,
        max_line_size=_HEAD,
        max_field_size=_HEAD,
        max_headers=32,
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
