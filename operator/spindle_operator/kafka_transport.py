"""kafka-python's connections to brokers, without what each of them keeps of the last response.

Until the next response comes, the library's coroutine that reads a connection refers to the bytes that it passed on last: with a thousand brokers, 40 MiB of
log dirs, and 10 MiB of settings from one observation to the next. Here these bytes are in an array that is emptied when they are passed on.
"""

from collections.abc import Callable
from typing import Any


def forgetful(build: Callable[..., Any]) -> Callable[..., Any]:
    """Makes transports like ``build`` (`KafkaConnectionManager._build_transport`) whose connections keep nothing of what they have received."""

    async def built(*args: Any, **named: Any) -> Any:
        transport = await build(*args, **named)
        receive, connect = transport._sock_recv, transport.set_protocol  # noqa: SLF001 - see `connection`

        def received() -> tuple[bytearray, Any]:
            data, error = receive()
            return bytearray(data), error

        def set_protocol(protocol: Any) -> None:
            protocol.data_received = _clearing(protocol)
            connect(protocol)

        transport._sock_recv, transport.set_protocol = received, set_protocol  # noqa: SLF001 - likewise
        return transport

    return built


def _clearing(protocol: Any) -> Callable[[bytearray], None]:
    """The protocol's ``data_received``, which takes all that is in the array."""
    pass_on = type(protocol).data_received

    def data_received(data: bytearray) -> None:
        whole = bytes(data)
        data.clear()
        pass_on(protocol, whole)

    return data_received
