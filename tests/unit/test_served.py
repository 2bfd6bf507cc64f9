"""What operator and agents serve is open to anybody in the network, and so costs next to nothing, whatever is asked."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from aiohttp import ClientSession

from e2e.cluster.apiserver import free_ports
from spindle_operator.health import Health
from spindle_operator.server import application
from spindle_shared.pages import pages
from spindle_shared.pages import serve as serve_pages

Serve = Callable[[int], AbstractAsyncContextManager[None]]
HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(params=["operator", "agent"])
def serve(request: pytest.FixtureRequest) -> Serve:
    if request.param == "operator":
        return lambda port: serve_pages(application(Health()), port)
    return lambda port: serve_pages(pages(lambda: None, lambda: True, nothing), port)


async def nothing() -> bytes:
    return b""


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 5) is not None
    except TimeoutError:
        return False
    except ConnectionError:
        return True


async def test_questions_that_never_end_make_room_for_others(serve: Serve) -> None:
    (port,) = free_ports(1)
    async with serve(port):
        ends: list[tuple[asyncio.StreamReader, Any]] = []
        for _ in range(80):
            ends.append(await asyncio.open_connection("127.0.0.1", port))
            ends[-1][1].write(HALF)
        async with ClientSession() as session, session.get(f"http://127.0.0.1:{port}/healthz") as answer:
            assert answer.status == 200
        assert await ended(ends[0][0]), "the oldest went"
        assert not ends[-1][0].at_eof()
        for _, writer in ends:
            writer.close()


async def test_a_question_of_many_words_is_none(serve: Serve) -> None:
    (port,) = free_ports(1)
    async with serve(port):
        for words in (b"X: " + b"a" * 4000 + b"\r\n", b"X: a\r\n" * 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALF + words)
            assert await ended(reader)
            writer.close()
