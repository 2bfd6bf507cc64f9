"""One connection to one broker.

Only the library's encoding is used: its clients need a thread, discover other brokers by themselves, and have calls without
a time-out. Here one broker gets one request at a time, and if the response is not in time, the connection is closed.
"""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.protocol.parser import KafkaProtocol

from spindle.api import names
from spindle_shared.tls import client_context

_CHUNK: Final = 64 * 1024
# Bytes of a response. The tenant owns the broker, and a decoded response takes about twenty times its size in the memory that all brokers of the node share.
_LARGEST: Final = 4_000_000


class BrokerError(Exception):
    """The broker did not answer, or returned an error."""


@dataclass(frozen=True)
class Access:
    """A broker's address and the credentials for it (PEM)."""

    host: str
    port: int
    authority: bytes
    certificate: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """A TLS client context. Raises OSError, ValueError."""
        return client_context(self.authority, self.certificate, self.key)


class BrokerConnection:
    """Sends requests to one broker; connects when needed and reconnects after a failure."""

    def __init__(self, access: Access, timeout: float) -> None:
        """Create the connection without connecting.

        Args:
            access: address and credentials.
            timeout: seconds for a response, including the connect.
        """
        self.access = access
        self._timeout = timeout
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._protocol: Any = None

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its response. Raises BrokerError."""
        try:
            async with asyncio.timeout(self._timeout):
                reader, writer = await self._connected()
                request.API_VERSION = version
                number = self._protocol.send_request(request)
                writer.write(self._protocol.send_bytes())
                await writer.drain()
                while True:
                    data = await reader.read(_CHUNK)
                    if not data:
                        raise ConnectionResetError("the broker closed the connection")  # noqa: TRY301 - one way out
                    for answered, answer in self._protocol.receive_bytes(data):
                        if answered == number:
                            return answer
        except TimeoutError as error:
            self.close()
            raise BrokerError(f"no answer within {self._timeout:g} s") from error
        except (OSError, ValueError, KafkaError) as error:
            self.close()
            raise BrokerError(str(error) or type(error).__name__) from error
        except BaseException:
            self.close()  # cancelled in between: the next data would be the response to this request
            raise

    def close(self) -> None:
        """Close the connection, if there is one, without waiting."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._streams is None:
            access = self.access
            self._streams = await asyncio.open_connection(
                access.host, access.port, ssl=access.context(), server_hostname=access.host
            )
            self._protocol = KafkaProtocol(
                client_id=names.PRINCIPAL_AGENT, receive_message_max_bytes=_LARGEST
            )
        return self._streams
