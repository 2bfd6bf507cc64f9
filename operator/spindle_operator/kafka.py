"""One cluster's Kafka: the one module that speaks to brokers, and that knows kafka-python's private parts.

The library's calls block, and its public ones hide what we need: an authorization failure of DescribeLogDirs looks like
an empty answer, an empty ELR like an unknown one, and every call picks a broker at random. So requests are sent through
the connection manager, each to a broker of our choice, each with a time-out; the whole look runs in a thread.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import logging
import os
import ssl
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError, KafkaTimeoutError, for_code
from kafka.net.compat import KafkaNetClient
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ElectionType,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest

from spindle.cluster import names
from spindle.cluster.view import Broker, KafkaView, LogDir, Partition, Quorum, Voter
from spindle_operator import metrics

log = logging.getLogger(__name__)

_PARTITIONS_PER_PAGE: Final = 2000  # what brokers allow at most (max.request.partition.size.limit)
_TOPICS_PER_CALL: Final = 500
_TOPIC: Final = 2  # ConfigResource.Type.TOPIC
_MIN_ISR: Final = "min.insync.replicas"
_ELECTION_NOT_NEEDED: Final = 84
_ASKED: Final = 3  # brokers asked for the quorum before it counts as unknown: each can cost a time-out
# A voter whose last caught-up fetch is older than this, on the leader's clock, has stopped following: followers fetch
# at least every half second, and the leader itself writes a record as often.
_CAUGHT_UP_MS: Final = 3000

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
        """Changes whenever a client made from this would be another one."""
        digest = sha256(self.authority + self.certificate)
        digest.update(repr(sorted(self.hosts.items())).encode())
        return digest.hexdigest()


def tls_context(access: Access) -> ssl.SSLContext:
    """A client context with this certificate. The key goes through an anonymous file in memory, never a disk."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=access.authority.decode())
    descriptor = os.memfd_create("client", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, access.key + b"\n" + access.certificate)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


class KafkaGate:
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
        self._link: Link | None = None
        self._identity = ""
        # One thread: a look that does not end holds back the next one, and nothing else.
        self._pool = concurrent.futures.ThreadPoolExecutor(1, f"kafka-{cluster}")
        self._busy: concurrent.futures.Future[Any] | None = None

    async def look(self, access: Access | str, *, ask_rights: bool = False) -> tuple[KafkaView, bool | None]:
        """Ask Kafka everything that a pass needs.

        Args:
            access: how to reach it, or why not to try.
            ask_rights: also ask whether the admin principal has its ACLs.

        Returns:
            the view, and the answer about the ACLs: None if it was not asked for or could not be had.
        """
        if isinstance(access, str):
            await self.close()
            return KafkaView(error=access), None
        try:
            link = await self._renewed(access)
            view, granted, clean = await self._threaded(lambda: link.look(ask_rights=ask_rights))
        except _GONE as error:
            metrics.KAFKA_FAILURES.labels(self._cluster, type(error).__name__).inc()
            await self.close()
            return KafkaView(error=_sentence(error)), None
        if not clean:
            self._identity = (
                ""  # the next look connects anew; what this pass still has to do may use what we have
            )
        return view, granted

    async def grant_admin(self) -> None:
        """Give the admin principal its ACLs. Raises KafkaError or OSError."""
        await self._threaded(self._connected().grant_admin)

    async def elect_preferred(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Elect the preferred leaders of these partitions. Raises KafkaError or OSError."""
        wanted = list(partitions)
        await self._threaded(lambda: self._connected().elect_preferred(wanted))

    async def close(self) -> None:
        """Forget the connection; the next look makes a new one."""
        link, self._link, self._identity = self._link, None, ""
        if link is not None:
            # Closing waits for the client's own thread, which may hang in a call of its own.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(link.close), self._timeout)

    async def shutdown(self) -> None:
        """Close for good."""
        await self.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _connected(self) -> "Link":
        if self._link is None:
            raise ConnectionError("no connection to Kafka")
        return self._link

    async def _renewed(self, access: Access) -> "Link":
        if self._link is None or self._identity != access.identity:
            await self.close()
            context = tls_context(access)
            hosts = await self._answering(access.hosts, context)
            if not hosts:
                raise ConnectionError(f"none of the {len(access.hosts)} running brokers takes connections")
            self._link = await self._threaded(
                lambda: Link(self._cluster, hosts, self._port, context, self._timeout)
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


# What ends a connection. RuntimeError: kafka-python's loop was closed under a call.
_GONE: Final = (KafkaError, OSError, TimeoutError, RuntimeError)


def _sentence(error: BaseException) -> str:
    text = str(error) or "no answer in time"
    return (
        text
        if isinstance(error, OSError) and not isinstance(error, TimeoutError)
        else f"{type(error).__name__}: {text}"
    )


class Link:
    """A connected admin client. All methods block; all raise KafkaError, OSError or RuntimeError."""

    def __init__(
        self, cluster: str, hosts: Mapping[int, str], port: int, context: ssl.SSLContext, timeout: float
    ) -> None:
        self._cluster = cluster
        self._hosts = hosts
        self._timeout_ms = int(timeout * 1000)
        self._failed = False
        self._limit = 1.25 * timeout
        self._client: Any = None
        try:
            self._admin = KafkaAdminClient(
                bootstrap_servers=[f"{host}:{port}" for host in hosts.values()],
                client_id=names.FIELD_MANAGER,
                security_protocol="SSL",
                ssl_context=context,
                request_timeout_ms=self._timeout_ms,
                bootstrap_timeout_ms=self._timeout_ms,
                metadata_max_age_ms=15_000,
                kafka_client=self._bounded_client,
            )
        except BaseException:
            self._abandon()
            raise

    def _bounded_client(self, **config: Any) -> Any:
        """The admin's client, every blocking call of which ends.

        As it is, the library's TLS handshake has no time-out, so a call to a broker that takes connections and then says
        nothing (a stopped process, a dead disk under its logs) would block for ever, the first one included.
        """
        self._client = KafkaNetClient(**config)
        manager = self._manager = self._client._manager  # noqa: SLF001 - see the module's docstring
        manager.config["socket_connection_setup_timeout_ms"] = self._timeout_ms
        manager.config["socket_connection_setup_timeout_max_ms"] = self._timeout_ms
        manager.run = self._run
        manager.bootstrap = lambda timeout_ms: self._run(manager.bootstrap_async, timeout_ms)
        return self._client

    def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run on the client's own thread; wait no longer than a call may take."""
        future = self._manager.call_soon(call, *args)
        done = threading.Event()
        future.add_both(lambda _: done.set())
        if not done.wait(self._limit):
            raise KafkaTimeoutError(f"no answer within {self._limit:g} s")
        if future.exception is not None:
            raise future.exception
        return future.value

    def close(self) -> None:
        """Close connections and the client's thread."""
        self._admin.close()

    def _abandon(self) -> None:
        """End what a constructor that failed has left running."""
        if self._client is not None:
            self._client.close()
            self._manager._net.stop()  # noqa: SLF001 - the admin does the same, but there is none

    # The look

    def look(self, *, ask_rights: bool) -> tuple[KafkaView, bool | None, bool]:
        """Everything at once: the view, whether the admin has its ACLs, and whether every answer came."""
        self._failed = False
        quorum, node = self._quorum()
        if node is None:
            # Without a quorum there is no telling how old a broker's metadata is: unknown, not stale.
            return KafkaView(quorum=quorum), None, False
        cluster = self._try(lambda: self._describe_cluster(node))
        partitions = self._try(lambda: self._partitions(node))
        view = KafkaView(
            cluster_id=cluster[0] if cluster else None,
            brokers=self._with_log_dirs(cluster[1]) if cluster else None,
            partitions=partitions,
            min_isr=None if partitions is None else self._try(lambda: self._min_isr(node, partitions)),
            quorum=quorum,
            metadata_version=self._try(lambda: self._metadata_version(node)),
        )
        granted = self._try(self._admin_granted) if ask_rights else None
        return view, granted, not self._failed

    def _try(self, call: Callable[[], _T]) -> _T | None:
        """The call's result; None, noted, where it could not be had."""
        try:
            return call()
        except (KafkaError, OSError) as error:
            self._failed = True
            metrics.KAFKA_FAILURES.labels(self._cluster, type(error).__name__).inc()
            log.info("%s: Kafka did not say: %s", self._cluster, _sentence(error))
            return None

    def _send(self, request: Any, node: int) -> Any:
        return self._run(self._manager.send, request, node)

    def _quorum(self) -> tuple[Quorum | None, int | None]:
        """The quorum, and the broker whose metadata is the freshest by the word of the quorum's leader.

        A broker cut off from the controllers goes on answering with what it last knew; rule 2 must not be decided on that.
        """
        request = DescribeQuorumRequest
        topic = request.TopicData("__cluster_metadata", [request.TopicData.PartitionData(0)])
        for node in list(self._hosts)[:_ASKED]:
            answer = self._try(lambda node=node: self._send(request(topics=[topic]), node))  # type: ignore[misc]
            if answer is None or answer.error_code:
                continue
            state = answer.topics[0].partitions[0]
            if state.error_code or state.leader_id < 0:
                continue
            quorum = read_quorum(state)
            fresh = freshest(state, self._hosts)
            if fresh is not None:
                return quorum, fresh
            return quorum, None
        return None, None

    def _describe_cluster(self, node: int) -> tuple[str, dict[int, Broker]]:
        answer = self._send(DescribeClusterRequest(include_fenced_brokers=True), node)
        _raise(answer.error_code, answer.error_message)
        told = answer.API_VERSION >= 2
        brokers = {
            broker.broker_id: Broker(broker.broker_id, broker.rack, broker.is_fenced if told else None)
            for broker in answer.brokers
        }
        return answer.cluster_id, brokers

    def _with_log_dirs(self, brokers: Mapping[int, Broker]) -> dict[int, Broker]:
        """Ask every broker that runs for its log dirs, side by side: a dead one costs one time-out, not the pass."""
        asked = [node for node in brokers if node in self._hosts]

        def ask(node: int) -> tuple[LogDir, ...] | None:
            return self._try(lambda: read_log_dirs(self._send(DescribeLogDirsRequest(topics=None), node)))

        found: dict[int, tuple[LogDir, ...] | None] = {}
        if asked:
            with concurrent.futures.ThreadPoolExecutor(min(len(asked), 16), "log-dirs") as pool:
                found = dict(zip(asked, pool.map(ask, asked), strict=True))
        return {
            node: Broker(broker.id, broker.rack, broker.fenced, found.get(node))
            for node, broker in brokers.items()
        }

    def _partitions(self, node: int) -> tuple[Partition, ...]:
        moving = self._reassignments(node)
        request = DescribeTopicPartitionsRequest
        found: list[Partition] = []
        cursor = None
        while True:
            answer = self._send(
                request(topics=[], response_partition_limit=_PARTITIONS_PER_PAGE, cursor=cursor), node
            )
            for topic in answer.topics:
                _raise(topic.error_code, topic.name)
                found.extend(read_partition(topic.name, partition, moving) for partition in topic.partitions)
            if answer.next_cursor is None:
                return tuple(found)
            cursor = request.Cursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )

    def _reassignments(self, node: int) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
        answer = self._send(ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None), node)
        _raise(answer.error_code, answer.error_message)
        return {
            (topic.name, partition.partition_index): (
                tuple(partition.adding_replicas),
                tuple(partition.removing_replicas),
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    def _min_isr(self, node: int, partitions: Sequence[Partition]) -> dict[str, int]:
        topics = sorted({partition.topic for partition in partitions})
        found: dict[str, int] = {}
        for start in range(0, len(topics), _TOPICS_PER_CALL):
            wanted = [
                DescribeConfigsRequest.DescribeConfigsResource(_TOPIC, topic, [_MIN_ISR])
                for topic in topics[start : start + _TOPICS_PER_CALL]
            ]
            answer = self._send(DescribeConfigsRequest(resources=wanted), node)
            for result in answer.results:
                _raise(result.error_code, result.error_message)
                for config in result.configs:
                    if config.name == _MIN_ISR:
                        found[result.resource_name] = int(config.value)
        return found

    def _metadata_version(self, node: int) -> int | None:
        answer = self._send(
            ApiVersionsRequest(client_software_name="spindle", client_software_version="1", min_version=3),
            node,
        )
        _raise(answer.error_code, "ApiVersions")
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features or []}
        return levels.get("metadata.version")

    # The admin principal

    def _admin_granted(self) -> bool:
        anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        wanted = ACLFilter(_ADMIN, None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
        acls, _ = self._admin.describe_acls(wanted)
        have = {
            (acl.resource_pattern.resource_type, acl.resource_pattern.resource_name)
            for acl in acls
            if acl.operation is ACLOperation.ALL
            and acl.permission_type is ACLPermissionType.ALLOW
            and acl.host == "*"
        }
        return have >= set(_ADMIN_MAY)

    def grant_admin(self) -> None:
        """Create the admin principal's ACLs; those that exist stay as they are."""
        result = self._admin.create_acls(
            [
                ACL(_ADMIN, "*", ACLOperation.ALL, ACLPermissionType.ALLOW, ResourcePattern(kind, name))
                for kind, name in _ADMIN_MAY
            ]
        )
        for error in result["failed"]:
            raise error

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Elect preferred leaders; a partition that has its preferred leader already is no error."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = ElectLeadersRequest(
            election_type=ElectionType.PREFERRED,
            topic_partitions=[ElectLeadersRequest.TopicPartitions(*topic) for topic in topics.items()],
            timeout_ms=self._timeout_ms,
        )
        answer = self._send(request, next(iter(self._hosts)))
        _raise(answer.error_code, "ElectLeaders")
        for topic in answer.replica_election_results:
            for partition in topic.partition_result:
                if partition.error_code != _ELECTION_NOT_NEEDED:
                    _raise(partition.error_code, f"{topic.topic}-{partition.partition_id}")


_ADMIN: Final = f"User:{names.PRINCIPAL_ADMIN}"
_ADMIN_MAY: Final = (
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.DELEGATION_TOKEN, "*"),
)


def _raise(code: int, message: str | None) -> None:
    if code:
        raise for_code(code)(message or "")


# Answers as the core's view


def read_quorum(state: Any) -> Quorum:
    """DescribeQuorum's partition state as a Quorum."""
    now = next(
        (v.last_caught_up_timestamp for v in state.current_voters if v.replica_id == state.leader_id), -1
    )

    def caught_up(voter: Any) -> bool | None:
        if voter.replica_id == state.leader_id:
            return True
        if now < 0:
            return None
        return bool(
            voter.last_caught_up_timestamp >= 0 and now - voter.last_caught_up_timestamp <= _CAUGHT_UP_MS
        )

    return Quorum(
        leader=state.leader_id,
        voters=tuple(
            Voter(voter.replica_id, directory_text(voter.replica_directory_id), caught_up(voter))
            for voter in state.current_voters
        ),
        observers=tuple(observer.replica_id for observer in state.observers),
    )


def freshest(state: Any, reachable: Iterable[int]) -> int | None:
    """The reachable broker that follows the metadata log best; None if all of them lag."""
    now = next(
        (v.last_caught_up_timestamp for v in state.current_voters if v.replica_id == state.leader_id), -1
    )
    candidates = [
        observer
        for observer in state.observers
        if observer.replica_id in set(reachable)
        and (now < 0 or now - observer.last_caught_up_timestamp <= _CAUGHT_UP_MS)
    ]
    if not candidates:
        return None
    return int(
        max(candidates, key=lambda observer: (observer.log_end_offset, -observer.replica_id)).replica_id
    )


def read_partition(
    topic: str, partition: Any, moving: Mapping[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]
) -> Partition:
    """DescribeTopicPartitions' partition. An ELR of null is unknown, an empty one is empty."""
    adding, removing = moving.get((topic, partition.partition_index), ((), ()))
    elr = partition.eligible_leader_replicas
    return Partition(
        topic=topic,
        index=partition.partition_index,
        leader=partition.leader_id if partition.leader_id >= 0 else None,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        elr=None if elr is None else tuple(elr),
        adding=adding,
        removing=removing,
    )


def read_log_dirs(answer: Any) -> tuple[LogDir, ...]:
    """DescribeLogDirs' answer. An error at its top (no rights, say) raises: it must not look like "no log dirs"."""
    _raise(getattr(answer, "error_code", 0) or 0, "DescribeLogDirs")
    return tuple(_read_log_dir(result) for result in answer.results)


def _read_log_dir(result: Any) -> LogDir:
    replicas: dict[tuple[str, int], int] = {}
    futures: dict[tuple[str, int], int] = {}
    for topic in result.topics:
        for partition in topic.partitions:
            kind = futures if partition.is_future_key else replicas
            kind[topic.name, partition.partition_index] = partition.partition_size
    return LogDir(
        path=result.log_dir,
        error=result.error_code,
        total_bytes=_size(result.total_bytes),
        usable_bytes=_size(result.usable_bytes),
        cordoned=bool(result.is_cordoned),
        replicas=replicas,
        futures=futures,
    )


def _size(value: int | None) -> int | None:
    return None if value is None or value < 0 else value


def directory_text(value: Any) -> str:
    """A directory id as Kafka writes it: URL-safe base64 without padding."""
    raw = value.bytes if isinstance(value, uuid.UUID) else bytes(value)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
