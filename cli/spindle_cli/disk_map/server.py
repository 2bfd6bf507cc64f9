"""Serves the map on loopback: its files, its state as server-sent events, and the details of a disk."""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from importlib import resources
from typing import Any, Final, TypeVar

from aiohttp import web

from spindle.model.times import stamp
from spindle_cli.disk_map.access import HEADERS, Access, Asked
from spindle_cli.disk_map.board import Board
from spindle_cli.disk_map.detail import disk_detail
from spindle_cli.disk_map.watching import Watch, sources
from spindle_cli.kube import Kube, KubeError, NotFoundError

HOST: Final = "127.0.0.1"
_TYPES: Final = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_TOGETHER_S: Final = 0.1  # changes of this time are sent together
_ALIVE_S: Final = 10.0  # between two comments, by which a browser that is gone is noticed

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class MapServer:
    """The HTTP side. Every answer, also a refusal, has the headers of `access.HEADERS`."""

    def __init__(self, kube: Kube, board: Board, access: Access) -> None:
        self._kube = kube
        self._board = board
        self._access = access
        self._files = _files()
        self._ended = asyncio.Event()

    def app(self) -> web.Application:
        """The application."""
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/", self._start)
        app.router.add_get("/live", self._live)
        app.router.add_get("/disk", self._disk)
        app.router.add_get("/{file}", self._file)
        return app

    def end(self) -> None:
        """End the open streams: otherwise they would keep the server running."""
        self._ended.set()

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refused = self._access.refusal(_asked(request, self._access))
        if refused is not None:
            return web.Response(status=403, text=f"{refused}\n", headers=HEADERS)
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            answer = web.Response(status=error.status, text=f"{error.reason}\n")
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _start(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for the cookie; the address that the browser keeps has no token."""
        if "token" not in request.query:
            return self._page("index.html")
        answer = web.Response(status=303, headers={"Location": "/"})
        if request.method == "HEAD":  # of a program that looks at links, not of a browser that opens one
            return answer
        self._access.spend()
        answer.set_cookie(
            self._access.cookie, self._access.session, httponly=True, samesite="Strict", path="/"
        )
        return answer

    async def _file(self, request: web.Request) -> web.StreamResponse:
        return self._page(request.match_info["file"])

    def _page(self, name: str) -> web.Response:
        if name not in self._files:
            raise web.HTTPNotFound
        kind = _TYPES[name[name.rindex(".") :]]
        return web.Response(body=self._files[name], content_type=kind, charset="utf-8")

    async def _live(self, request: web.Request) -> web.StreamResponse:
        """The state, then each change, until the browser closes the connection."""
        stream = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})
        await stream.prepare(request)
        changed, loop = asyncio.Event(), asyncio.get_running_loop()
        page = self._board.open(lambda: loop.call_soon_threadsafe(changed.set))
        changed.set()
        try:
            while not self._ended.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), _ALIVE_S)
                changed.clear()
                news = self._board.news(page)
                # Without news a comment: writing to a connection that is closed raises.
                await stream.write(b":\n\n" if news is None else f"data: {news}\n\n".encode())
                await asyncio.sleep(_TOGETHER_S)
        except ConnectionError:
            pass
        finally:
            self._board.close(page)
        return stream

    async def _disk(self, request: web.Request) -> web.StreamResponse:
        """The details of one disk, read now: the broker and its events."""
        name, disk = request.query.get("broker", ""), request.query.get("disk", "")
        try:
            detail = await _apart(lambda: self._read_disk(name, disk))
        except NotFoundError as error:
            return web.json_response({"error": str(error)}, status=404)
        except KubeError as error:
            return web.json_response({"error": str(error)}, status=502)
        if detail is None:
            return web.json_response({"error": f"{name} has no disk {disk}"}, status=404)
        return web.json_response(detail)

    def _read_disk(self, name: str, disk: str) -> dict[str, object] | None:
        broker = self._kube.broker(name)
        try:
            events, untold = self._kube.events(name), ""
        except KubeError as error:  # a user may read brokers without reading events
            events, untold = [], str(error)
        detail = disk_detail(broker, disk, events)
        return None if detail is None else {**detail, "eventsError": untold, "read": stamp(time.time())}


async def _apart(call: Callable[[], T]) -> T:
    """Run a call in a thread that the program does not wait for when it ends: the event loop waits for its own threads, and Kubernetes may take half a minute."""
    loop, answer = asyncio.get_running_loop(), asyncio.Future[T]()

    def settle(settled: Callable[[], Any]) -> None:
        if not answer.done():  # the browser may be gone by now
            settled()

    def run() -> None:
        try:
            found = call()
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            settled: Callable[[], Any] = partial(answer.set_exception, error)
        else:
            settled = partial(answer.set_result, found)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, settled)

    threading.Thread(target=run, name="disk", daemon=True).start()
    return await answer


def _asked(request: web.Request, access: Access) -> Asked:
    # Several headers of one name are refused with the first one: none of them is ours then.
    return Asked(
        method=request.method,
        host=",".join(request.headers.getall("Host", [])),
        origin=",".join(request.headers.getall("Origin", [])),
        site=request.headers.get("Sec-Fetch-Site", ""),
        cookie=request.cookies.get(access.cookie, ""),
        token=request.query.get("token", "") if request.path == "/" else "",
    )


def _files() -> dict[str, bytes]:
    """The page's files by name."""
    folder = resources.files("spindle_cli.disk_map") / "page"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith(tuple(_TYPES))}


async def run(kube: Kube, cluster: str, port: int, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        port: on loopback; 0 for a free one.
        say: is told the address.

    Raises:
        OSError: the port is in use.
    """
    board = Board(cluster)
    watches = [Watch(kube, each, board) for each in sources(kube, cluster)]
    access = Access(port)
    server = MapServer(kube, board, access)
    runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    site = web.TCPSite(runner, HOST, port)
    await site.start()
    try:
        access.port = runner.addresses[0][1]
        for watch in watches:
            watch.start()
        say(access.url)
        await _until_stopped()
    finally:
        for watch in watches:
            watch.stop()
        server.end()
        await runner.cleanup()


async def _until_stopped() -> None:
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    await stopped.wait()


def serve(kube: Kube, cluster: str, port: int, say: Callable[[str], None]) -> None:
    """As `run`."""
    asyncio.run(run(kube, cluster, port, say))
