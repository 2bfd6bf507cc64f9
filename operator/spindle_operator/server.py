"""``/metrics``, ``/healthz`` and ``/readyz``, served by the same loop that reconciles: if it is stuck, probes time out."""

import asyncio
import faulthandler
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from spindle_operator.health import Health

log = logging.getLogger(__name__)


def application(health: Health) -> web.Application:
    """The three pages."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

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
    """What hangs must be known before the restart that hides it."""
    log.error("%s; tasks and threads stand here:", problem)
    for task in asyncio.all_tasks():
        task.print_stack(limit=6)
    faulthandler.dump_traceback()


@asynccontextmanager
async def serve(health: Health, port: int) -> AsyncIterator[None]:
    """Serve until the block ends. Raises OSError if the port is taken."""
    runner = web.AppRunner(application(health), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port, shutdown_timeout=1).start()
        yield
    finally:
        await runner.cleanup()
