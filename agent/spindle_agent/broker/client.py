"""Requests to a broker, with responses as plain data classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from spindle.model.view import CORDONED, LOG_DIRS_RATE
from spindle_agent.broker.connection import BrokerConnection, BrokerError

_DESCRIBE_LOG_DIRS: Final = 4  # a version that Kafka 4.x has and that contains everything needed
_ALTER_LOG_DIRS: Final = 2
_DESCRIBE_CONFIGS: Final = 4
_METADATA: Final = 12
_TOPICS_AT_ONCE: Final = 100  # responses are decoded in the event loop
_BROKER: Final = 4  # resource type
_DYNAMIC_BROKER: Final = 2  # ConfigSource: this broker's own dynamic config

Replica = tuple[str, int]


@dataclass(frozen=True)
class Copy:
    """A replica that is being copied into a dir (Kafka's "future" replica, KIP-113).

    Attributes:
        size: bytes copied so far.
        lag: number of offsets by which it is behind the original.
    """

    size: int
    lag: int


@dataclass(frozen=True)
class LogDir:
    """One log dir as its broker reports it.

    Attributes:
        error: Kafka's error code, 0 for none; 56 for an offline dir.
        total_bytes, usable_bytes: of its file system; None if the broker does not report them.
    """

    path: str
    error: int = 0
    replicas: Mapping[Replica, int] = field(default_factory=dict)
    copies: Mapping[Replica, Copy] = field(default_factory=dict)
    total_bytes: int | None = None
    usable_bytes: int | None = None


class KafkaClient:
    """One broker. Every method raises BrokerError."""

    def __init__(self, wire: BrokerConnection, broker_id: int) -> None:
        self.wire = wire
        self._broker = str(broker_id)

    def close(self) -> None:
        """Close the connection."""
        self.wire.close()

    async def log_dirs(self) -> tuple[LogDir, ...]:
        """All log dirs with their replicas."""
        answer = await self.wire.ask(DescribeLogDirsRequest(topics=None), _DESCRIBE_LOG_DIRS)
        # A top-level error (missing rights, for example) must not look like "no log dirs".
        _expect(getattr(answer, "error_code", 0) or 0, "DescribeLogDirs")
        return tuple(_log_dir(result) for result in answer.results)

    async def leaders(self, topics: Sequence[str]) -> tuple[str, dict[Replica, int]]:
        """The cluster's id, and the leader of each partition of these topics, as this broker knows them.

        Partitions without a leader and deleted topics are left out.
        """
        found: dict[Replica, int] = {}
        start, cluster_id = 0, ""
        while start == 0 or start < len(topics):
            some = [
                MetadataRequest.MetadataRequestTopic(name=topic)
                for topic in topics[start : start + _TOPICS_AT_ONCE]
            ]
            request = MetadataRequest(topics=some, allow_auto_topic_creation=False)
            answer = await self.wire.ask(request, _METADATA)
            cluster_id = str(answer.cluster_id)
            for topic in answer.topics:
                found |= {
                    (topic.name, partition.partition_index): partition.leader_id
                    for partition in topic.partitions
                    if partition.leader_id >= 0
                }
            start += _TOPICS_AT_ONCE
        return cluster_id, found

    async def move(self, moves: Mapping[Replica, str]) -> dict[Replica, str]:
        """Copy replicas to other dirs (AlterReplicaLogDirs); with the current dir of a replica its copy is cancelled.

        Args:
            moves: replica → path of the dir.

        Returns:
            Replicas that were refused, with the reason.
        """
        if not moves:
            return {}
        request = AlterReplicaLogDirsRequest
        by_dir: dict[str, dict[str, list[int]]] = {}
        for (topic, partition), path in moves.items():
            by_dir.setdefault(path, {}).setdefault(topic, []).append(partition)
        dirs = [
            request.AlterReplicaLogDir(
                path,
                [
                    request.AlterReplicaLogDir.AlterReplicaLogDirTopic(topic, partitions)
                    for topic, partitions in topics.items()
                ],
            )
            for path, topics in by_dir.items()
        ]
        answer = await self.wire.ask(request(dirs=dirs), _ALTER_LOG_DIRS)
        return {
            (topic.topic_name, partition.partition_index): _name(partition.error_code)
            for topic in answer.results
            for partition in topic.partitions
            if partition.error_code
        }

    async def throttle(self, dirs: Sequence[LogDir]) -> str | None:
        """The broker's own dynamic throttle for moves between its dirs; None if none is set.

        Args:
            dirs: its log dirs. A broker with a cordon of a dir that it does not have reports no throttle, so the throttle is unknown.
        """
        keys = [LOG_DIRS_RATE, CORDONED]
        resource = DescribeConfigsRequest.DescribeConfigsResource(_BROKER, self._broker, keys)
        request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
        answer = await self.wire.ask(request, _DESCRIBE_CONFIGS)
        for result in answer.results:
            _expect(result.error_code, result.error_message)
        own = {
            each.name: str(each.value)
            for result in answer.results
            for config in result.configs
            for each in config.synonyms or ()
            if each.source == _DYNAMIC_BROKER and each.value is not None
        }
        hidden(own.get(CORDONED), dirs)
        return own.get(LOG_DIRS_RATE)


def hidden(cordon: str | None, dirs: Sequence[LogDir]) -> None:
    """Raise BrokerError if a cordon makes the broker report no throttle (`KafkaConfig.validateCordonedLogDirs`)."""
    cordoned = {path.strip() for path in (cordon or "").split(",")} - {"", "*"}
    gone = sorted(cordoned - {each.path for each in dirs})
    if gone:
        raise BrokerError(
            f"it reports no throttle while a dir is cordoned that it does not have: {', '.join(gone)}"
        )


def offline(dirs: Sequence[LogDir]) -> list[str]:
    """Paths of the dirs that the broker has taken offline."""
    return [each.path for each in dirs if each.error]


def _log_dir(result: Any) -> LogDir:
    replicas: dict[Replica, int] = {}
    copies: dict[Replica, Copy] = {}
    for topic in result.topics:
        for partition in topic.partitions:
            replica = topic.name, partition.partition_index
            if partition.is_future_key:
                copies[replica] = Copy(partition.partition_size, partition.offset_lag)
            else:
                replicas[replica] = partition.partition_size
    total, usable = (size if size >= 0 else None for size in (result.total_bytes, result.usable_bytes))
    return LogDir(result.log_dir, result.error_code, replicas, copies, total, usable)


def _expect(code: int, message: str | None) -> None:
    if code:
        raise BrokerError(f"{_name(code)}: {message}" if message else _name(code))


def _name(code: int) -> str:
    return str(for_code(code).__name__).removesuffix("Error")
