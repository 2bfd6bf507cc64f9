"""A false broker on a node costs its own KafkaCluster the agent's reports, and the other disks of the node nothing."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from spindle_agent.broker.session import BrokerSession
from spindle_agent.moves.mover import Mover
from spindle_agent.options import parse
from spindle_operator import ca
from tests.unit.agent_fakes import until

pytestmark = pytest.mark.kafka

HOST = "127.0.0.1"
THROTTLED, NO_ERROR, NO_TAGS = struct.pack(">i", 0), struct.pack(">h", 0), b"\0"
NULL = b"\0"  # in place of a list: its length plus one
ONE = b"\2"


class Certificates:
    """In place of the ConfigMap of certificates."""

    def __init__(self, made: dict[str, bytes]) -> None:
        self._made = made

    async def of(self, *_: str) -> tuple[bytes, bytes, bytes]:
        return self._made["ca.crt"], self._made["tls.crt"], self._made["tls.key"]

    def doubt(self, *_: str) -> None:
        """Nothing to read again."""


@contextlib.asynccontextmanager
async def answering(answer: bytes, size: int | None, folder: Path) -> AsyncIterator[tuple[int, Certificates]]:
    """A broker with a valid certificate that gives every request the same answer, with any length before it."""
    made = ca.issue(ca.make_ca("test"), "spindle-node", (HOST, "localhost"))
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(made[name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                body = frame[4:8] + NO_TAGS + answer
                writer.write(struct.pack(">i", len(body) if size is None else size) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], Certificates(made)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("answer", "size"),
    [
        pytest.param(THROTTLED + NO_ERROR + NULL + NO_TAGS, None, id="no list of dirs"),
        pytest.param(
            THROTTLED
            + NO_ERROR
            + ONE
            + NO_ERROR
            + ONE
            + b"x"
            + NULL
            + 2 * struct.pack(">q", 1)
            + 2 * NO_TAGS,
            None,
            id="no list of topics",
        ),
        pytest.param(b"", None, id="nothing"),
        pytest.param(b"", 100_000_000, id="as much as the agent's memory"),
    ],
)
async def test_a_false_answer_is_an_error_of_that_broker(
    answer: bytes, size: int | None, tmp_path: Path
) -> None:
    async with answering(answer, size, tmp_path) as (port, certificates):
        options = parse(["--node=here", f"--broker-port={port}", f"--broker-host={HOST}"])
        session = BrokerSession(
            ("ns", "demo-broker-0"), options, cast("Any", certificates), Mover("b", {}), lambda: None
        )
        session.wants({"cluster": "demo", "id": 0})
        task = asyncio.create_task(session.run())  # an agent whose task ends, ends
        try:
            await until(lambda: bool(session._problem) or task.done())
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])
