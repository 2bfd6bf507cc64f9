"""Which brokers complete a TLS handshake, asked side by side.

A connection of asyncio takes 256 KiB as soon as it is encrypted. With a thousand brokers at once that is 600 MiB, a third of which stays in the process as
fragments between what is allocated meanwhile. A handshake alone needs no more than the few kilobytes that it exchanges.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

_AT_ONCE: Final = 64
# A broker that does not respond leaves its place to another one after so many seconds, and is waited for all the same: however many are silent, all of
# them together cost little more than one timeout.
_TURN: Final = 0.5
_PIECE: Final = 2**14  # bytes that are read at once: what one TLS record has at most


async def responding(
    hosts: Mapping[int, str],
    port: int,
    context: ssl.SSLContext,
    seconds: float,
    failed: Callable[[str, BaseException], None],
) -> dict[int, str]:
    """The brokers among these that complete a handshake in time.

    Args:
        hosts: broker id → host name.
        port: of all of them.
        context: of the client.
        seconds: for each.
        failed: is called with the host name of each other one, and why it is not among them.
    """
    places = asyncio.Semaphore(_AT_ONCE)

    async def responds(host: str) -> bool:
        async with _place(places):
            try:
                async with asyncio.timeout(seconds):
                    await _shake_hands(host, port, context)
            except (OSError, TimeoutError) as error:
                failed(host, error)
                return False
        return True

    found = await asyncio.gather(*map(responds, hosts.values()))
    return {node: host for (node, host), responded in zip(hosts.items(), found, strict=True) if responded}


@contextlib.asynccontextmanager
async def _place(places: asyncio.Semaphore) -> AsyncIterator[None]:
    """Hold one of the places, for one turn at most."""
    await places.acquire()
    held = True

    def leave() -> None:
        nonlocal held
        if held:
            held = False
            places.release()

    over = asyncio.get_running_loop().call_later(_TURN, leave)
    try:
        yield
    finally:
        over.cancel()
        leave()


async def _shake_hands(host: str, port: int, context: ssl.SSLContext) -> None:
    """Connect, complete a handshake, and close. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(received, to_send, server_hostname=host)
        while not _advance(tls.do_handshake):
            writer.write(to_send.read())
            piece = await reader.read(_PIECE)
            if not piece:
                raise ConnectionResetError("the connection was closed during the TLS handshake")
            received.write(piece)
        # As every client: otherwise the broker would take the end for an attack that cuts messages off.
        _advance(tls.unwrap)
        writer.write(to_send.read())
    finally:
        writer.close()


def _advance(step: Callable[[], object]) -> bool:
    """Whether a step of TLS is complete, not waiting for the other side."""
    try:
        step()
    except ssl.SSLWantReadError:
        return False
    return True
