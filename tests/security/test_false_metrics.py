"""A pod that serves anything in place of Kafka's metrics ends no pass of its cluster, and makes the operator ask nobody else."""

import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from spindle.model.start_progress import Start
from spindle_operator import starts

pytestmark = pytest.mark.kafka

HOST = "127.0.0.1"
LEFT = "kafka_log_logmanager_remaininglogstorecover"
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[int]:
    """The port of a server that gives every path the same answer."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def told(port: int) -> Start | None:
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"podIP": HOST, "containerStatuses": [{"name": "kafka", "state": running}]}
    pod = {"metadata": {"name": "demo-broker-0"}, "status": status}
    found = await starts.look({0: {"metadata": {}, "spec": {"id": 0}}}, {0: pod}, port)
    return found.get(0)


def says(text: str | bytes, **headers: str) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=text, headers=headers)

    return answer


@pytest.mark.parametrize("number", ["1.2.3", "..", "1e999", "-7", "1e30"])
async def test_a_number_that_is_none_ends_no_pass(number: str) -> None:
    async with serving(says(f"{LEFT} {number}\n")) as port:
        found = await told(port)
    assert found is not None
    assert 0 <= found.logs_left <= 10**9


async def test_a_redirect_is_not_followed() -> None:
    """Otherwise a pod could have the operator send requests to hosts that the pod itself cannot reach."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/somewhere/else"})

    async with serving(answer) as port:
        await told(port)
    assert asked == ["/metrics"]


async def test_a_packed_answer_is_not_unpacked() -> None:
    packed = gzip.compress(f"{LEFT} 5\n".encode())
    async with serving(says(packed, **{"Content-Encoding": "gzip"})) as port:
        assert await told(port) == Start()


@pytest.mark.parametrize("line", [b"x" * 1000 + b"\n", b"x" * 1000, f"{LEFT} 1\n".encode()])
async def test_an_answer_without_end_is_given_up(line: bytes) -> None:
    sent = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while sent < 200 * 2**20:
                await response.write(line * 64)
                sent += len(line) * 64
        return response

    async with serving(answer) as port:
        assert await told(port) is None
    assert sent < 60 * 2**20  # what was read, and what was still on its way


async def test_the_whole_answer_of_a_large_broker_is_read() -> None:
    """The wanted lines may come late, in a later packet than the first."""
    before = "".join(f'kafka_log_Log_Size{{topic="t",partition="{i}"}} 1.0\n' for i in range(20_000))

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (before, f"{LEFT} 4.0\n", 'spindle_start{kind="Dirty"} 1.0'):
            await response.write(part.encode())
        return response

    async with serving(answer) as port:
        assert await told(port) == Start("Dirty", 4)
