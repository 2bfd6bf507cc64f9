"""A TCP proxy into a network namespace: listens on the host's loopback, connects from inside the namespace.

python -m e2e.cluster.door PORT NETNS HOST HOST_PORT
"""

import asyncio
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000


def enter_netns(name: str) -> None:
    """Move this thread into a network namespace. Its existing sockets stay in the old one."""
    handle = os.open(f"/run/netns/{name}", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter network namespace {name}")
    finally:
        os.close(handle)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while block := await reader.read(65536):
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:  # one side has closed: close the other, too
        writer.close()


async def _serve(listener: socket.socket, host: str, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, answer = await asyncio.open_connection(host, port)
        except OSError as error:
            print(f"{host}:{port}: {error}", flush=True)
            writer.close()
            return
        await asyncio.gather(_copy(reader, answer), _copy(there, writer))
        answer.close()
        writer.close()

    async with await asyncio.start_server(connected, sock=listener) as server:
        await server.serve_forever()


def main() -> None:
    port, netns, host, host_port = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)))
    enter_netns(netns)
    asyncio.run(_serve(listener, host, int(host_port)))


if __name__ == "__main__":
    main()
