"""A false broker that does not finish a connection costs its own cluster samples, and the other brokers of the node nothing.

The agent sends the samples of all brokers of its node with a few threads; a thread that waits forever is lost to all of them.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from spindle.api import names
from spindle_agent.broker.connection import Access, BrokerError
from spindle_agent.samples import sending
from spindle_operator import ca
from tests.security.false_broker import HOST, LIES, false_broker

pytestmark = pytest.mark.kafka

TIME_OUT = 2.0  # seconds for each step of a send
MOST = 15.0  # seconds for all of them


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_TIMEOUT", TIME_OUT)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port where connections are accepted by the kernel, and nobody ever says anything."""
    with socket.create_server((HOST, 0)) as server:
        yield server


@contextlib.asynccontextmanager
async def first_only(folder: Path) -> AsyncIterator[tuple[list[asyncio.StreamWriter], Access]]:
    """A broker that answers its first connection well, and none after that (in front of `false_broker`): the connections, and how to reach it."""
    async with false_broker(LIES, folder) as (broker, access):
        behind = broker.port
        held: list[asyncio.StreamWriter] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            held.append(writer)
            if len(held) > 1:
                return
            near = await asyncio.open_connection(HOST, behind)
            await asyncio.gather(pass_on(reader, near[1]), pass_on(near[0], writer))

        server = await asyncio.start_server(serve, HOST, 0)
        broker.port = server.sockets[0].getsockname()[1]
        reached = Access(HOST, broker.port, access.authority, access.certificate, access.key)
        try:
            yield held, reached
        finally:
            server.close()
            for writer in held:
                writer.transport.abort()


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


def attempt(access: Access, told: list[str]) -> None:
    try:
        told.append(str(sending.send(access, 0, [(1, b"sample")])))
    except BrokerError as error:
        told.append(str(error))


def tried(access: Access) -> str:
    """The outcome of one send; a failure if it does not end."""
    told: list[str] = []
    thread = threading.Thread(target=attempt, args=(access, told), daemon=True)
    thread.start()
    thread.join(MOST)
    assert not thread.is_alive(), "it never ends"
    return told[0]


def test_a_handshake_that_never_ends_is_given_up(silent: socket.socket) -> None:
    made = ca.issue(ca.make_ca("test"), "spindle-node", (HOST,))
    access = Access(HOST, silent.getsockname()[1], made["ca.crt"], made["tls.crt"], made["tls.key"])
    assert "no response" in tried(access)


async def test_so_is_one_of_a_later_connection_and_no_thread_is_left(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    async with first_only(tmp_path) as (held, access):
        assert names.TOPIC_SAMPLES in await asyncio.to_thread(tried, access)
        assert len(held) > 1, "it was asked for a second connection"
        until = time.monotonic() + MOST
        while left := [each for each in set(threading.enumerate()) - before if "kafka" in each.name.lower()]:
            assert time.monotonic() < until, left
            await asyncio.sleep(0.1)
