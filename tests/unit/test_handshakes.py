"""TLS handshakes with many brokers: how many at once, and what silent brokers cost the others."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from spindle_operator import ca, handshakes
from spindle_operator.handshakes import responding
from spindle_shared.tls import client_context

HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return dict(ca.issue(ca.make_ca("test"), "spindle-node", (HOST,)))


@pytest.fixture(scope="module")
def context(made: dict[str, bytes]) -> ssl.SSLContext:
    return client_context(made["ca.crt"], made["tls.crt"], made["tls.key"])


def ignore(host: str, error: BaseException) -> None:
    pass


@asynccontextmanager
async def served(handle: Any, **how: Any) -> AsyncIterator[int]:
    server = await asyncio.start_server(handle, HOST, 0, **how)
    yield server.sockets[0].getsockname()[1]
    server.close()


class Silent:
    """Accepts connections, and says nothing."""

    def __init__(self) -> None:
        self.open = self.together = self.asked = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.asked += 1
        self.together = max(self.together, self.open)
        while await reader.read(2**16):
            pass
        self.open -= 1
        writer.close()


async def test_a_broker_that_completes_the_handshake_responds_and_sees_an_orderly_end(
    made: dict[str, bytes], context: ssl.SSLContext, tmp_path: Path
) -> None:
    for name in ("ca.crt", "tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(made[name])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server.load_verify_locations(tmp_path / "ca.crt")
    server.verify_mode = ssl.CERT_REQUIRED
    ends: asyncio.Queue[bytes | BaseException] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            ends.put_nowait(await reader.read())
        except OSError as error:
            ends.put_nowait(error)
        writer.close()

    async with served(serve, ssl=server) as port:
        assert await responding({7: HOST}, port, context, 5, ignore) == {7: HOST}
        assert await asyncio.wait_for(ends.get(), 5) == b""


async def test_a_broker_with_a_certificate_of_another_authority_does_not_respond(
    context: ssl.SSLContext, tmp_path: Path
) -> None:
    other = ca.issue(ca.make_ca("other"), "spindle-node", (HOST,))
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(other[name])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    why: list[BaseException] = []
    async with served(lambda _reader, writer: writer.close(), ssl=server) as port:
        assert await responding({7: HOST}, port, context, 5, lambda _, error: why.append(error)) == {}
    assert [type(error) for error in why] == [ssl.SSLCertVerificationError]


async def test_a_broker_that_hangs_up_does_not_respond(context: ssl.SSLContext) -> None:
    async with served(lambda _reader, writer: writer.close()) as port:
        assert await responding({7: HOST}, port, context, 5, ignore) == {}


async def test_handshakes_are_limited_at_once_and_a_silent_broker_leaves_its_place(
    context: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "_AT_ONCE", 3)
    monkeypatch.setattr(handshakes, "_TURN", 0.3)
    silent, began = Silent(), asyncio.get_running_loop().time()
    async with served(silent.serve) as port:
        asking = asyncio.create_task(responding(dict.fromkeys(range(9), HOST), port, context, 2, ignore))
        await asyncio.sleep(0.15)
        assert silent.asked == 3
        assert await asking == {}
        assert silent.asked == 9
        # Two turns until the last ones are asked, and one timeout: not three timeouts.
        assert asyncio.get_running_loop().time() - began < 2 * 2


async def test_brokers_that_complete_the_handshake_make_room_at_once(
    made: dict[str, bytes], context: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "_AT_ONCE", 2)
    monkeypatch.setattr(handshakes, "_TURN", 60)
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_bytes(made[name])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    hosts = dict.fromkeys(range(9), HOST)
    async with served(Silent().serve, ssl=server) as port:
        assert await asyncio.wait_for(responding(hosts, port, context, 5, ignore), 30) == hosts
