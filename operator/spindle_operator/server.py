"""What the operator serves: its metrics and its health."""

import asyncio
import faulthandler
import logging

from aiohttp import web
from prometheus_client import generate_latest

from spindle_operator.health import Health
from spindle_shared.pages import pages

log = logging.getLogger(__name__)


def application(health: Health) -> web.Application:
    """``/metrics``, ``/healthz`` and ``/readyz``."""

    def problem() -> str | None:
        found = health.problem()
        if found is not None:
            _say_where(found)
        return found

    async def measured() -> bytes:
        # In a thread: with thousands of disks it takes more than a second, and the Lease must be renewed meanwhile.
        return await asyncio.to_thread(generate_latest)

    return pages(problem, lambda: health.ready, measured)


def _say_where(problem: str) -> None:
    """Log what hangs before the restart hides it."""
    log.error("%s; tasks and threads:", problem)
    for task in asyncio.all_tasks():
        task.print_stack(limit=6)
    faulthandler.dump_traceback()
