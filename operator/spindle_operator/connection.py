"""A connection to one cluster's brokers. With `kafka_client`, `kafka_commands` and `kafka_transport` the only module that uses kafka-python's private API.

The library's calls block, and its public API hides details that the operator needs: an authorization failure of DescribeLogDirs looks like
an empty response, an empty ELR like an unknown one, and every call picks a random broker. So requests are sent through
the connection manager, each to a chosen broker, each with a timeout.
"""

import concurrent.futures
import logging
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError
from kafka.net.compat import KafkaNetClient

from spindle.api import names
from spindle_operator import metrics
from spindle_operator.kafka_transport import forgetful
from spindle_operator.raw_answers import MALFORMED, unreadable
from spindle_shared.tls import client_context

log = logging.getLogger(__name__)

_AT_ONCE: Final = 16  # threads that wait for responses of brokers

_T = TypeVar("_T")


@dataclass(frozen=True)
class Access:
    """How to reach brokers.

    Attributes:
        hosts: broker id → host name, of the brokers whose Kafka runs.
        authority, certificate, key: PEM.
    """

    hosts: Mapping[int, str]
    authority: bytes
    certificate: bytes
    key: bytes

    @property
    def identity(self) -> str:
        """Changes whenever a new client is needed."""
        digest = sha256(self.authority + self.certificate)
        digest.update(repr(sorted(self.hosts.items())).encode())
        return digest.hexdigest()

    def context(self) -> ssl.SSLContext:
        """A TLS client context. Raises OSError, ValueError."""
        return client_context(self.authority, self.certificate, self.key)


def sentence(error: BaseException) -> str:
    """An error as a sentence."""
    text = str(error) or "no response in time"
    return (
        text
        if isinstance(error, OSError) and not isinstance(error, TimeoutError)
        else f"{type(error).__name__}: {text}"
    )


class TooMuchError(RuntimeError):
    """Kafka's responses are larger or slower than the operator can handle. Ends the whole observation, not only one request."""


class Budget:
    """Limits of one observation of a Kafka, which may be malicious: time and number of responses."""

    def __init__(self, seconds: float, answers: int) -> None:
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._answers = answers
        self._left = answers

    def spend(self) -> float:
        """Count one request.

        Returns:
            Seconds left for it.

        Raises:
            TooMuchError: the budget is used up.
        """
        self._left -= 1  # by several threads: off by one does not matter
        left = self._end - time.monotonic()
        if left <= 0:
            raise TooMuchError(
                f"the observation was ended after {self._seconds:g} s: Kafka responds too slowly"
            )
        if self._left < 0:
            raise TooMuchError(
                f"the observation was ended after {self._answers} responses: Kafka has too much data"
            )
        return left


class Connection:
    """A connected admin client. All methods block; all raise KafkaError, OSError or RuntimeError.

    Attributes:
        hosts: broker id → host name.
        admin: kafka-python's client.
        silent: brokers that have not responded since the last observation began.
        budget: of the running observation; None for commands.
        timeout_ms: for one request.
    """

    budget: Budget | None = None

    def __init__(
        self, cluster: str, hosts: Mapping[int, str], port: int, context: ssl.SSLContext, timeout: float
    ) -> None:
        self._cluster = cluster
        self.hosts = hosts
        self.timeout_ms = int(timeout * 1000)
        self._failed = False
        self._unsaid: list[str] = []
        self.silent: set[int] = set()
        self._limit = 1.25 * timeout
        self._client: Any = None
        try:
            self.admin = KafkaAdminClient(
                bootstrap_servers=[f"{host}:{port}" for host in hosts.values()],
                client_id=names.FIELD_MANAGER,
                security_protocol="SSL",
                ssl_context=context,
                request_timeout_ms=self.timeout_ms,
                bootstrap_timeout_ms=self.timeout_ms,
                metadata_max_age_ms=15_000,
                kafka_client=self._bounded_client,
            )
        except BaseException:
            self._abandon()
            raise

    def _bounded_client(self, **config: Any) -> Any:
        """The admin's client, with a bound on every blocking call.

        The library's TLS handshake has no timeout, so a call to a broker that accepts connections but does not respond
        (a stopped process, a dead disk under its logs) would block forever, the first one included.
        """
        # Its metrics, which nobody reads, take ten objects for each broker, and time for each response.
        self._client = KafkaNetClient(**{**config, "metrics": None})
        manager = self._manager = self._client._manager  # noqa: SLF001 - see the module's docstring
        manager.config["socket_connection_setup_timeout_ms"] = self.timeout_ms
        manager.config["socket_connection_setup_timeout_max_ms"] = self.timeout_ms
        manager._build_transport = forgetful(manager._build_transport)  # noqa: SLF001 - likewise
        manager.run = self._run
        manager.bootstrap = lambda timeout_ms: self._run(manager.bootstrap_async, timeout_ms)
        return self._client

    def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run on the client's own thread, with the timeout of one call."""
        limit = self._limit if self.budget is None else min(self._limit, self.budget.spend())
        future = self._manager.call_soon(call, *args)
        done = threading.Event()
        future.add_both(lambda _: done.set())
        if not done.wait(limit):
            if self.budget is not None:
                self.budget.spend()  # if the budget of the whole observation is used up, raise that
            raise KafkaTimeoutError(f"no response within {limit:g} s")
        if future.exception is not None:
            raise future.exception
        return future.value

    def close(self) -> None:
        """Close connections and the client's thread."""
        self.admin.close()

    def _abandon(self) -> None:
        """Stop what a failed constructor left running."""
        if self._client is not None:
            self._client.close()
            self._manager._net.stop()  # noqa: SLF001 - the admin does the same, but there is none

    def attempt(self, call: Callable[[], _T], of: str = "") -> _T | None:
        """The call's result; None, with the error recorded, if it failed. ``of`` names the target of the request."""
        try:
            return call()
        except (KafkaError, OSError) as error:
            said: BaseException = error
        except MALFORMED as error:  # a broker that is false, or broken, must not end the pass
            log.debug("%s: a response cannot be read", self._cluster, exc_info=error)
            said = unreadable(error)
        self._failed = True
        metrics.kafka_failed(self._cluster, said)
        self._unsaid.append(f"{of}: {sentence(said)}" if of else sentence(said))
        return None

    def tell_unsaid(self) -> None:
        """Log in one line the requests that failed since the last call; the same error of the same broker once."""
        unsaid, self._unsaid = self._unsaid, []
        if unsaid:
            log.info("%s: requests to Kafka failed: %s", self._cluster, "; ".join(dict.fromkeys(unsaid)))

    def send(self, request: Any, node: int) -> Any:
        """Send a request to one broker, and wait for its response."""
        if node in self.silent:
            raise ConnectionError(f"broker {node} did not respond a moment ago")
        try:
            return self._run(self._manager.send, request, node)
        except (KafkaTimeoutError, RequestTimedOutError):
            self.silent.add(node)  # each broker costs an observation one timeout, not one per request
            raise

    def any_broker(self) -> int:
        """A broker that forwards requests to the controllers; a responding one if possible."""
        return next((node for node in self.hosts if node not in self.silent), next(iter(self.hosts)))

    def side_by_side(self, ask: Callable[[int], _T], nodes: Sequence[int]) -> list[_T]:
        """Send to several brokers in parallel; results in their order."""
        if not nodes:
            return []
        with concurrent.futures.ThreadPoolExecutor(min(len(nodes), _AT_ONCE), "brokers") as pool:
            return list(pool.map(ask, nodes))
