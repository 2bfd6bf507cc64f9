"""The operator process: standby, leader election, watches, reconciliation, and clean shutdown."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any, Final, cast

import kopf

from spindle.api import names
from spindle_operator import handlers, metrics
from spindle_operator.health import BOUND, Health
from spindle_operator.kube import Kube, connect
from spindle_operator.lease import Elector
from spindle_operator.loop import Loops, Setup
from spindle_operator.options import Options
from spindle_operator.report import Events
from spindle_operator.server import application
from spindle_shared.api_answers import ApiError
from spindle_shared.pages import serve

log = logging.getLogger(__name__)

LEASE_NAME: Final = "spindle-operator"
_DEFINITIONS: Final = f"/apis/{names.GROUP}/{names.VERSION}"
_STOPPED: Final = 0
_LOST: Final = 3  # Lease lost: another process leads, this one must exit


async def run(options: Options) -> int:
    """Run until a signal, or until the Lease is lost. Returns the exit code."""
    stop = asyncio.Event()
    _on_signals(stop)
    health = Health(bound=max(BOUND, 3 * options.resync))
    metrics.expose_ages(health.ages)
    # A connection for the Lease alone: as many requests as one has at once may all wait for a server that responds slowly, or not at all.
    async with connect() as kube, connect() as kube_of_lease, serve(application(health), options.port):
        health.ready = True
        elector = Elector(kube_of_lease, options.lease_namespace, LEASE_NAME, options.identity)
        if await _first(stop.wait(), elector.acquire()) == 0:
            return _STOPPED
        # From here on nothing may delay the renewals.
        holding = asyncio.create_task(elector.hold(), name="lease")
        try:
            return await _lead(options, kube, health, elector, holding, stop)
        finally:
            holding.cancel()
            await elector.release()


async def _lead(
    options: Options,
    kube: Kube,
    health: Health,
    elector: Elector,
    holding: asyncio.Task[None],
    stop: asyncio.Event,
) -> int:
    if await _first(stop.wait(), _definitions(kube), _ended(holding)) != 1:
        return _STOPPED if stop.is_set() else _LOST
    lost = asyncio.Event()
    loops = Loops(
        Setup(
            kube=kube,
            health=health,
            events=Events(kube, options.identity),
            image=options.image,
            agent_namespace=options.agent_namespace,
            namespace=options.lease_namespace,
            rebalance_image=options.rebalance_image,
            kafka_repository=options.kafka_repository,
            leading=lambda: elector.leading,
            lost=lost.set,
            resync=options.resync,
            kafka_timeout=options.kafka_timeout,
            allowed=options.allowed,
            cached=options.read_from_watches,
        )
    )
    quit_kopf = asyncio.Event()
    watching = asyncio.create_task(_watch(options, kube, loops, stop, quit_kopf), name="kopf")
    try:
        ended = await _first(stop.wait(), lost.wait(), _ended(holding), _ended(watching))
    finally:
        # First stop the writers; then the caller may release the Lease; kopf only reads.
        await loops.close()
        if elector.leading:
            holding.cancel()
            await elector.release()
        quit_kopf.set()
        await asyncio.wait([watching], timeout=5)
        watching.cancel()
    if ended == 3 and not stop.is_set():
        # The task has the reason; without watches this process cannot work.
        watching.result()
        return 1
    return _STOPPED if stop.is_set() else _LOST


async def _watch(
    options: Options, kube: Kube, loops: Loops, stop: asyncio.Event, quit_kopf: asyncio.Event
) -> None:
    registry = await handlers.registry(kube, loops, options.namespaces)
    ready = asyncio.Event()

    async def take_signals_back() -> None:
        await ready.wait()
        _on_signals(stop)  # kopf has replaced them

    back = asyncio.create_task(take_signals_back(), name="signals")
    try:
        await kopf.operator(
            registry=registry,
            settings=handlers.settings(),
            standalone=True,
            # Without an identity kopf looks up a user name that no container image has.
            identity=cast("Any", options.identity),
            clusterwide=not options.namespaces,
            namespaces=options.namespaces,
            stop_flag=quit_kopf,
            ready_flag=ready,
        )
    finally:
        back.cancel()


async def _definitions(kube: Kube) -> None:
    """Wait until the API server serves Spindle's kinds."""
    told = False
    while True:
        try:
            await kube.request("GET", _DEFINITIONS)
        except ApiError as error:
            if not told:
                log.warning(
                    "waiting for the API server to serve %s/%s: %s", names.GROUP, names.VERSION, error
                )
                told = True
            await asyncio.sleep(2)
        else:
            return


async def _ended(task: "asyncio.Task[None]") -> None:
    await asyncio.wait([task])


async def _first(*waits: Coroutine[Any, Any, Any]) -> int:
    """Index of the first of these to end (the lowest, of several); the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        index = next(index for index, task in enumerate(tasks) if task.done())
        tasks[index].result()
        return index
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
