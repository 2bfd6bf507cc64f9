"""What a connection to a broker keeps of its responses."""

import asyncio
from typing import Any

import pytest
from kafka.errors import KafkaProtocolError
from kafka.net.transport import KafkaTCPTransport

from spindle_operator.kafka_transport import forgetful


class Net:
    """An event loop in which a socket has something to read as often as it is told so."""

    def __init__(self) -> None:
        self.readable = asyncio.Semaphore(0)

    async def wait_read(self, _: object) -> None:
        await self.readable.acquire()


class Protocol:
    """Takes what it is given."""

    _sensors = None

    def __init__(self, error: Exception | None = None) -> None:
        self.lengths: list[int] = []
        self.error, self.lost = error, list[BaseException | None]()

    def data_received(self, data: bytes) -> None:
        self.lengths.append(len(data))
        if self.error is not None:
            raise self.error

    def connection_lost(self, error: BaseException | None) -> None:
        self.lost.append(error)


async def built(pieces: list[tuple[Any, Exception | None]], protocol: Protocol) -> tuple[Net, Any]:
    net = Net()

    async def build() -> Any:
        transport: Any = KafkaTCPTransport(net, None)
        transport._sock_recv = lambda: pieces.pop(0)
        return transport

    transport = await forgetful(build)()
    transport.set_protocol(protocol)
    transport._read = True
    return net, transport


def held(reading: "asyncio.Task[None]") -> list[Any]:
    """The received bytes that a coroutine refers to while it waits."""
    (frame,) = reading.get_stack()
    return [value for value in frame.f_locals.values() if isinstance(value, (bytes, bytearray))]


async def test_it_keeps_nothing_while_it_waits_for_the_next_response() -> None:
    pieces: list[tuple[Any, Exception | None]] = [(bytes(1000), None), (bytes(2000), None)]
    protocol = Protocol()
    net, transport = await built(pieces, protocol)
    reading = asyncio.create_task(transport._read_from_sock())
    net.readable.release()
    await asyncio.sleep(0.01)
    assert protocol.lengths == [1000]
    assert [len(kept) for kept in held(reading)] == [0]
    net.readable.release()
    await asyncio.sleep(0.01)
    assert protocol.lengths == [1000, 2000]
    reading.cancel()


@pytest.mark.parametrize(
    ("piece", "error"),
    [
        pytest.param((b"", KafkaProtocolError("closed")), None, id="while it is read"),
        pytest.param((b"x", None), KafkaProtocolError("malformed"), id="in what was read"),
    ],
)
async def test_an_error_ends_the_connection(piece: Any, error: Exception | None) -> None:
    protocol = Protocol(error)
    net, transport = await built([piece], protocol)
    net.readable.release()
    await asyncio.wait_for(transport._read_from_sock(), 5)
    assert transport.is_closing()
    assert protocol.lost == [error or piece[1]]
