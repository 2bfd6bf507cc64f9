"""Access to one cluster's Kafka: connects, sends requests in a thread, and reconnects when brokers appear, disappear or do not respond."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import logging
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from kafka.errors import KafkaError

from spindle.api import names
from spindle.metrics.consumer_lag import GroupOffsets, Key
from spindle.model.actions import Action
from spindle.model.view import KafkaView
from spindle.moves.journal import ReplacedLog
from spindle_operator import metrics, users
from spindle_operator.connection import Access, sentence
from spindle_operator.handshakes import responding
from spindle_operator.kafka_actions import run
from spindle_operator.kafka_client import KafkaClient
from spindle_operator.raw_answers import MALFORMED, AnswerMemo, unreadable

log = logging.getLogger(__name__)

# Errors that end a connection. RuntimeError: kafka-python's loop was closed under a call.
_GONE: Final = (KafkaError, OSError, TimeoutError, RuntimeError)

_T = TypeVar("_T")


class KafkaExecutor:
    """The connection to one cluster's Kafka, renewed when brokers appear or disappear, or after an error."""

    def __init__(self, cluster: str, timeout: float, port: int = names.PORT_REPLICATION) -> None:
        """Not connected yet.

        Args:
            cluster: ``namespace/name``, for logs and metrics.
            timeout: seconds for one call to one broker.
            port: of the brokers' listener for the operator.
        """
        self._cluster = cluster
        self._timeout = timeout
        self._port = port
        self._link: KafkaClient | None = None
        self._identity = ""
        self._memo = AnswerMemo()
        self._before = KafkaView()
        self._said = ""
        # Whether Kafka reported that no agent has ACLs. Only this process grants them, and only if there are agents.
        self._no_agents = False
        # One thread: an observation that does not end delays only the next one.
        self._pool = concurrent.futures.ThreadPoolExecutor(1, f"kafka-{cluster}")
        self._busy: concurrent.futures.Future[Any] | None = None

    async def look(
        self,
        access: Access | str,
        *,
        ask_rights: bool = False,
        asked: Sequence[str] = (),
        agents: bool = True,
        managed: Mapping[str, Sequence[str]] | None = None,
        replaced: Sequence[ReplacedLog] = (),
    ) -> tuple[KafkaView, bool | None]:
        """Read everything from Kafka that a pass needs.

        Args:
            access: how to connect, or why it cannot.
            ask_rights: also read whether the admin principal has its ACLs.
            asked: also read the ACLs and quotas of these users.
            managed: also read these settings of these topics.
            replaced: also ask the leaders of these logs whether they have their leader epoch.
            agents: whether there are any. If not, their ACLs are read until there are none left.

        Returns:
            the view, and whether the admin has its ACLs: None if not requested, or if the request failed.
        """
        if isinstance(access, str):
            await self.close()
            return self._blind(access), None
        try:
            link = await self._renewed(access)
            ask_agents = agents or not self._no_agents
            view, granted, clean = await self._threaded(
                lambda: link.look(
                    ask_rights=ask_rights,
                    users=asked,
                    agents=ask_agents,
                    managed=managed,
                    replaced=replaced,
                    memo=self._memo,
                )
            )
            if ask_agents:
                self._no_agents = view.agents == {}
            view.share_index(self._before)
            self._before = view
        except _GONE as error:
            metrics.kafka_failed(self._cluster, error)
            await self.close()
            return self._blind(sentence(error)), None
        if not clean:
            # The next pass reconnects; the remaining actions of this pass may use the present connection.
            self._identity = ""
        self._say("responds" if view.quorum is not None else "responds, but does not report its quorum")
        return view, granted

    def _blind(self, why: str) -> KafkaView:
        self._say(f"is not reachable: {why}")
        return KafkaView(error=why)

    def _say(self, what: str) -> None:
        """Log a changed state of this Kafka, once."""
        if what != self._said:
            self._said = what
            log.info("%s: Kafka %s", self._cluster, what)

    async def read_lag(
        self, access: Access, groups: Sequence[str], leaders: Mapping[Key, int | None]
    ) -> tuple[GroupOffsets, dict[Key, int]]:
        """The committed offsets of consumer groups and the ends of their partitions; see `spindle_operator.group_offsets.read`.

        Raises:
            KafkaError, OSError, RuntimeError: nothing could be read.
        """
        try:
            link = await self._renewed(access)
            offsets, ends, clean = await self._threaded(lambda: link.lag(groups, leaders))
        except _GONE:
            await self.close()
            raise
        if not clean:
            self._identity = ""  # as after an observation
        return offsets, ends

    async def carry_out(self, action: Action) -> None:
        """Send the request of an action to Kafka; see `spindle_operator.kafka_actions`.

        Raises:
            KafkaError, OSError, RuntimeError: it failed, wholly or for some of its parts.
        """
        link = self._connected()
        await self._threaded(lambda: run(link, action))

    async def set_password(self, user: str, password: bytes) -> None:
        """Set a user's password, which no action carries."""
        link = self._connected()
        await self._threaded(lambda: users.set_password(link, user, password))

    async def close(self) -> None:
        """Drop the connection; the next pass opens a new one."""
        link, self._link, self._identity = self._link, None, ""
        if link is not None:
            # Closing waits for the client's own thread, which may hang in a call.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_apart(link.close), self._timeout)

    async def shutdown(self) -> None:
        """Close permanently."""
        await self.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _connected(self) -> KafkaClient:
        if self._link is None:
            raise ConnectionError("no connection to Kafka")
        return self._link

    async def _renewed(self, access: Access) -> KafkaClient:
        if self._link is None or self._identity != access.identity:
            await self.close()
            context = access.context()
            hosts = await self._answering(access.hosts, context)
            if not hosts:
                raise ConnectionError(f"none of the {len(access.hosts)} running brokers accepts connections")
            self._link = await self._threaded(
                lambda: KafkaClient(self._cluster, hosts, self._port, context, self._timeout)
            )
            # A broker that did not respond is retried with a new client; hence the identity covers only those that did.
            self._identity = access.identity if len(hosts) == len(access.hosts) else ""
        return self._link

    async def _answering(self, hosts: Mapping[int, str], context: ssl.SSLContext) -> dict[int, str]:
        """Which brokers complete a TLS handshake: a dead one would use up the client's whole connect timeout."""

        def failed(host: str, error: BaseException) -> None:
            metrics.kafka_failed(self._cluster, error)
            log.debug("%s: no connection to %s: %s", self._cluster, host, error)

        return await responding(hosts, self._port, context, self._timeout, failed)

    async def _threaded(self, call: Callable[[], _T]) -> _T:
        """Run a blocking call in the executor's thread, with a generous timeout."""
        if self._busy is not None and not self._busy.done():
            raise TimeoutError("an earlier request to Kafka has not completed yet")
        self._busy = future = self._pool.submit(contextvars.copy_context().run, _readable, call)
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout=12 * self._timeout)


def _readable(call: Callable[[], _T]) -> _T:
    """The result of a call; KafkaProtocolError for a response that cannot be read."""
    try:
        return call()
    except (KafkaError, OSError):
        raise
    except MALFORMED as error:
        raise unreadable(error) from error


async def _apart(call: Callable[[], None]) -> None:
    """Run a call that may never end in a daemon thread.

    The event loop's own threads are few and shared (a handful of hung calls would stop all passes), and a process waits for
    them when it exits.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            call()
        except _GONE as error:
            log.debug("closing a connection: %s", error)
        # After the loop is closed nobody waits for the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="close", daemon=True).start()
    await done.wait()
