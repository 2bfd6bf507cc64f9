"""The way to one cluster's Kafka: connects, asks in a thread, and starts anew when brokers came or went or fell silent."""

import asyncio
import concurrent.futures
import contextlib
import logging
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from kafka.errors import KafkaError

from spindle.cluster import names
from spindle.cluster.view import KafkaView
from spindle.reconcile.actions import AddVoter, AlterUser, RemoveVoter
from spindle_operator import kafka_commands, metrics, quorum, users
from spindle_operator.connection import Access, sentence, tls_context
from spindle_operator.kafka_client import KafkaClient

log = logging.getLogger(__name__)

# What ends a connection. RuntimeError: kafka-python's loop was closed under a call.
_GONE: Final = (KafkaError, OSError, TimeoutError, RuntimeError)

_T = TypeVar("_T")


class KafkaExecutor:
    """The connection to one cluster's Kafka, renewed when brokers came or went or an error came."""

    def __init__(self, cluster: str, timeout: float, port: int = names.PORT_REPLICATION) -> None:
        """A gate that has not connected yet.

        Args:
            cluster: ``namespace/name``, for logs and metrics.
            timeout: seconds for one call to one broker.
            port: of the brokers' listener for us.
        """
        self._cluster = cluster
        self._timeout = timeout
        self._port = port
        self._link: KafkaClient | None = None
        self._identity = ""
        self._said = ""
        # Whether Kafka has said that no agent has anything. Who gives them something is this process, and only where there are agents.
        self._no_agents = False
        # One thread: a look that does not end holds back the next one, and nothing else.
        self._pool = concurrent.futures.ThreadPoolExecutor(1, f"kafka-{cluster}")
        self._busy: concurrent.futures.Future[Any] | None = None

    async def look(
        self,
        access: Access | str,
        *,
        ask_rights: bool = False,
        asked: Sequence[str] = (),
        agents: bool = True,
    ) -> tuple[KafkaView, bool | None]:
        """Ask Kafka everything that a pass needs.

        Args:
            access: how to reach it, or why not to try.
            ask_rights: also ask whether the admin principal has its ACLs.
            asked: also ask what these users have.
            agents: whether there are any. Where there are none, it is asked what they have until that is nothing.

        Returns:
            the view, and the answer about the ACLs: None if it was not asked for or could not be had.
        """
        if isinstance(access, str):
            await self.close()
            return self._blind(access), None
        try:
            link = await self._renewed(access)
            ask_agents = agents or not self._no_agents
            view, granted, clean = await self._threaded(
                lambda: link.look(ask_rights=ask_rights, users=asked, agents=ask_agents)
            )
            if ask_agents:
                self._no_agents = view.agents == {}
        except _GONE as error:
            metrics.KAFKA_FAILURES.labels(self._cluster, type(error).__name__).inc()
            await self.close()
            return self._blind(sentence(error)), None
        if not clean:
            # The next look connects anew; what this pass still has to do may use what we have.
            self._identity = ""
        self._say("answers" if view.quorum is not None else "answers, but does not know its quorum")
        return view, granted

    def _blind(self, why: str) -> KafkaView:
        self._say(f"cannot be asked: {why}")
        return KafkaView(error=why)

    def _say(self, what: str) -> None:
        """Log what is new about this Kafka, once."""
        if what != self._said:
            self._said = what
            log.info("%s: Kafka %s", self._cluster, what)

    # Orders. All raise KafkaError, OSError or RuntimeError; see `spindle_operator.kafka_commands`.

    async def grant_admin(self) -> None:
        """Give the admin principal its ACLs."""
        await self._order(kafka_commands.grant_admin)

    async def alter_user(self, change: AlterUser) -> None:
        """Give a user rights and quotas, or take them away."""
        await self._order(lambda link: _alter_user(link, change))

    async def set_password(self, user: str, password: bytes) -> None:
        """Give a user a password."""
        await self._order(lambda link: users.set_password(link, user, password))

    async def grant_rebalance(self) -> None:
        """Give the rebalance job's principal its ACLs."""
        await self._order(kafka_commands.grant_rebalance)

    async def elect(self, partitions: Iterable[tuple[str, int]], *, unclean: bool = False) -> None:
        """Elect leaders of these partitions, the preferred ones unless told otherwise."""
        await self._order(lambda link: kafka_commands.elect(link, partitions, unclean=unclean))

    async def place(self, broker: int, placements: Iterable[tuple[str, int, str]]) -> None:
        """Have a broker make these replicas in these dirs."""
        await self._order(lambda link: kafka_commands.place(link, broker, placements))

    async def reassign(self, assignments: Iterable[tuple[str, int, Sequence[int] | None]]) -> None:
        """Give partitions other replicas, or cancel that."""
        await self._order(lambda link: kafka_commands.reassign(link, assignments))

    async def set_configs(
        self, kind: Literal["topic", "broker", "quota"], name: str, values: Mapping[str, str | None]
    ) -> None:
        """Set or delete dynamic configs of a topic or a broker, or the quota of users that have none of their own."""
        if kind == "quota":
            await self._order(lambda link: kafka_commands.set_quota(link, values))
        else:
            await self._order(lambda link: kafka_commands.set_configs(link, kind, name, values))

    async def raise_features(self, levels: Mapping[str, int]) -> None:
        """Raise finalized feature levels."""
        await self._order(lambda link: kafka_commands.raise_features(link, levels))

    async def unregister(self, broker: int) -> None:
        """Have Kafka forget a broker that is stopped."""
        await self._order(lambda link: kafka_commands.unregister(link, broker))

    async def change_voters(self, change: AddVoter | RemoveVoter) -> None:
        """Make a controller a voter, or take one out of the quorum."""
        await self._order(lambda link: _change_voters(link, change))

    async def trim(self, partitions: Sequence[tuple[str, int, int, float]]) -> None:
        """Delete the oldest records of partitions: (topic, index, leader, share of its records)."""
        await self._order(lambda link: kafka_commands.trim(link, partitions))

    async def create_topic(
        self, topic: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Make a topic whose partitions have these brokers."""
        await self._order(lambda link: kafka_commands.create_topic(link, topic, assignments, configs))

    async def _order(self, order: Callable[[KafkaClient], None]) -> None:
        link = self._connected()
        await self._threaded(lambda: order(link))

    async def close(self) -> None:
        """Forget the connection; the next look makes a new one."""
        link, self._link, self._identity = self._link, None, ""
        if link is not None:
            # Closing waits for the client's own thread, which may hang in a call of its own.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(_apart(link.close), self._timeout)

    async def shutdown(self) -> None:
        """Close for good."""
        await self.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _connected(self) -> KafkaClient:
        if self._link is None:
            raise ConnectionError("no connection to Kafka")
        return self._link

    async def _renewed(self, access: Access) -> KafkaClient:
        if self._link is None or self._identity != access.identity:
            await self.close()
            context = tls_context(access)
            hosts = await self._answering(access.hosts, context)
            if not hosts:
                raise ConnectionError(f"none of the {len(access.hosts)} running brokers takes connections")
            self._link = await self._threaded(
                lambda: KafkaClient(self._cluster, hosts, self._port, context, self._timeout)
            )
            # A broker that did not answer is asked again by making a new client, hence the identity of those that did.
            self._identity = access.identity if len(hosts) == len(access.hosts) else ""
        return self._link

    async def _answering(self, hosts: Mapping[int, str], context: ssl.SSLContext) -> dict[int, str]:
        """Which brokers complete a TLS handshake: a dead one would cost the client its whole time to connect."""

        async def knock(host: str) -> bool:
            try:
                async with asyncio.timeout(self._timeout):
                    _, writer = await asyncio.open_connection(host, self._port, ssl=context)
            except (OSError, TimeoutError) as error:
                metrics.KAFKA_FAILURES.labels(self._cluster, type(error).__name__).inc()
                log.debug("%s: no connection to %s: %s", self._cluster, host, error)
                return False
            writer.close()
            return True

        answers = await asyncio.gather(*(knock(host) for host in hosts.values()))
        return {node: host for (node, host), answered in zip(hosts.items(), answers, strict=True) if answered}

    async def _threaded(self, call: Callable[[], _T]) -> _T:
        """Run a blocking call in this gate's thread, waiting no longer than any sane call takes."""
        if self._busy is not None and not self._busy.done():
            raise TimeoutError("an earlier question to Kafka has not been answered yet")
        self._busy = future = self._pool.submit(call)
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout=12 * self._timeout)


def _alter_user(link: KafkaClient, change: AlterUser) -> None:
    if change.keep_out is not None:  # before what it is kept out of is given
        users.keep_out(link, change.user, wanted=change.keep_out)
    users.alter(link, change.user, change.give, change.take)
    if change.quotas:
        users.set_quotas(link, change.user, change.quotas)
    if change.drop_password:
        users.drop_password(link, change.user)
    if change.deny is not None:
        users.deny(link, change.user, wanted=change.deny)


def _change_voters(link: KafkaClient, change: AddVoter | RemoveVoter) -> None:
    who = (change.cluster_id, change.controller, change.directory_id)
    if isinstance(change, AddVoter):
        quorum.add_voter(link, *who, change.host)
    else:
        quorum.remove_voter(link, *who)


async def _apart(call: Callable[[], None]) -> None:
    """Run a call that may never end in a thread that nobody misses.

    The loop's own threads are few and shared (a handful of calls that hang would stop all passes), and a process that is to
    end waits for them.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            call()
        except _GONE as error:
            log.debug("closing a connection: %s", error)
        # Nobody waits any more once the loop is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, name="close", daemon=True).start()
    await done.wait()
