"""One cluster's Kafka: the one module that speaks to brokers, and that knows kafka-python's private parts.

The library's calls block, and its public ones hide what we need: an authorization failure of DescribeLogDirs looks like
an empty answer, an empty ELR like an unknown one, and every call picks a broker at random. So requests are sent through
the connection manager, each to a broker of our choice, each with a time-out; the whole look runs in a thread.
"""

import concurrent.futures
import copy
import logging
import os
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
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
from kafka.errors import KafkaError, KafkaTimeoutError, RequestTimedOutError
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
from spindle.cluster.view import Broker, KafkaView, LogDir, Partition, Quorum
from spindle_operator import metrics
from spindle_operator.answers import (
    expect,
    freshest,
    leading_state,
    read_log_dirs,
    read_partition,
    read_quorum,
)

log = logging.getLogger(__name__)

_PARTITIONS_PER_PAGE: Final = 2000  # what brokers allow at most (max.request.partition.size.limit)
_TOPICS_PER_CALL: Final = 500
_TOPIC: Final = 2  # ConfigResource.Type.TOPIC
_MIN_ISR: Final = "min.insync.replicas"
_ELECTION_NOT_NEEDED: Final = 84
_ASKED: Final = 4  # brokers asked for the quorum before it counts as unknown
_AT_ONCE: Final = 16  # threads that wait for brokers

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


def sentence(error: BaseException) -> str:
    """An error in words."""
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
        self._silent: set[int] = set()
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
        self._silent.clear()
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
            log.info("%s: Kafka did not say: %s", self._cluster, sentence(error))
            return None

    def _send(self, request: Any, node: int) -> Any:
        if node in self._silent:
            raise ConnectionError(f"broker {node} did not answer a moment ago")
        try:
            return self._run(self._manager.send, request, node)
        except (KafkaTimeoutError, RequestTimedOutError):
            self._silent.add(node)  # each broker costs a look one time-out, not one for every question
            raise

    def _side_by_side(self, ask: Callable[[int], _T], nodes: Sequence[int]) -> list[_T]:
        """Ask several brokers at once; answers in their order."""
        if not nodes:
            return []
        with concurrent.futures.ThreadPoolExecutor(min(len(nodes), _AT_ONCE), "brokers") as pool:
            return list(pool.map(ask, nodes))

    def _quorum(self) -> tuple[Quorum | None, int | None]:
        """The quorum, and the broker whose metadata is the freshest by the word of the quorum's leader.

        A broker cut off from the controllers goes on answering with what it last knew; rule 2 must not be decided on that.
        """
        topic = DescribeQuorumRequest.TopicData
        asked = DescribeQuorumRequest(topics=[topic("__cluster_metadata", [topic.PartitionData(0)])])

        def ask(node: int) -> Any | None:
            answer = self._try(lambda: self._send(copy.copy(asked), node))
            return leading_state(answer) if answer is not None else None

        hosts = list(self._hosts)[:_ASKED]
        for nodes in (hosts[:1], hosts[1:]):
            for state in self._side_by_side(ask, nodes):
                if state is not None:
                    answering = [node for node in self._hosts if node not in self._silent]
                    return read_quorum(state), freshest(state, answering)
        return None, None

    def _describe_cluster(self, node: int) -> tuple[str, dict[int, Broker]]:
        answer = self._send(DescribeClusterRequest(include_fenced_brokers=True), node)
        expect(answer.error_code, answer.error_message)
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

        found = dict(zip(asked, self._side_by_side(ask, asked), strict=True))
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
                expect(topic.error_code, topic.name)
                found.extend(read_partition(topic.name, partition, moving) for partition in topic.partitions)
            if answer.next_cursor is None:
                return tuple(found)
            cursor = request.Cursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )

    def _reassignments(self, node: int) -> dict[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
        answer = self._send(ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None), node)
        expect(answer.error_code, answer.error_message)
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
                expect(result.error_code, result.error_message)
                for config in result.configs:
                    if config.name == _MIN_ISR:
                        found[result.resource_name] = int(config.value)
        return found

    def _metadata_version(self, node: int) -> int | None:
        answer = self._send(
            ApiVersionsRequest(client_software_name="spindle", client_software_version="1", min_version=3),
            node,
        )
        expect(answer.error_code, "ApiVersions")
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
        expect(answer.error_code, "ElectLeaders")
        for topic in answer.replica_election_results:
            for partition in topic.partition_result:
                if partition.error_code != _ELECTION_NOT_NEEDED:
                    expect(partition.error_code, f"{topic.topic}-{partition.partition_id}")


_ADMIN: Final = f"User:{names.PRINCIPAL_ADMIN}"
_ADMIN_MAY: Final = (
    (ResourceType.CLUSTER, "kafka-cluster"),
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.DELEGATION_TOKEN, "*"),
)
