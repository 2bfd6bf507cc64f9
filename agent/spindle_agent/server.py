"""``/metrics``, ``/healthz`` and ``/readyz``, served by the loop that does all the work: if it is stuck, probes time out."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


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
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, port=port).start()
        yield
    finally:
        await runner.cleanup()
