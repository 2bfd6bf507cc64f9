"""A broker that is none: a TCP server of the test that speaks Kafka's protocol as badly as it is told to. The tenant owns its Kafka, and so may be this."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from spindle_operator import ca
from spindle_operator.connection import Access

HOST = "127.0.0.1"
LIES = "lies"  # its list of partitions goes in a circle
FLOODS = "floods"  # its list of partitions never ends
STALLS = "stalls"  # each answer takes almost as long as is waited for
SILENT = "silent"  # it accepts connections, and answers nothing
_KINDS = (
    ApiVersionsResponse,
    MetadataResponse,
    DescribeQuorumResponse,
    DescribeClusterResponse,
    ListPartitionReassignmentsResponse,
    DescribeTopicPartitionsResponse,
)
_ANSWERS: dict[int, Any] = {kind.API_KEY: kind for kind in _KINDS}


class FalseBroker:
    """One broker, id 0; ``pages`` counts those of its list of partitions, ``host`` is where it says that it is."""

    def __init__(self, how: str, pause: float, host: str = HOST) -> None:
        self.how = how
        self.host = host
        self.pause = pause
        self.port = 0
        self.pages = 0
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends."""
        self.connections += 1
        ends = (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError)
        with contextlib.suppress(*ends):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                if self.how == SILENT:
                    continue
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                answer = _ANSWERS[key](**self._fields(key), version=min(version, _ANSWERS[key].max_version))
                answer.with_header(correlation)
                if self.how == STALLS and key == DescribeTopicPartitionsResponse.API_KEY:
                    await asyncio.sleep(self.pause)
                writer.write(answer.encode(framed=True, header=True))
                await writer.drain()
        writer.close()

    def _fields(self, key: int) -> dict[str, Any]:
        if key == ApiVersionsResponse.API_KEY:
            kinds = [ApiVersionsResponse.ApiVersion(kind.API_KEY, 0, kind.max_version) for kind in _KINDS]
            return {"api_keys": kinds}
        if key == MetadataResponse.API_KEY:
            return {
                "brokers": [MetadataResponse.MetadataResponseBroker(0, self.host, self.port)],
                "cluster_id": "c",
                "topics": [],
            }
        if key == DescribeQuorumResponse.API_KEY:
            return {"topics": list(_quorum()), "nodes": []}
        if key == DescribeClusterResponse.API_KEY:
            broker = DescribeClusterResponse.DescribeClusterBroker(
                broker_id=0, host=self.host, port=self.port
            )
            return {"cluster_id": "c", "brokers": [broker], "controller_id": 0, "endpoint_type": 1}
        if key == DescribeTopicPartitionsResponse.API_KEY:
            return self._page()
        return {"topics": []}

    def _page(self) -> dict[str, Any]:
        self.pages += 1
        kind = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
        of = kind.DescribeTopicPartitionsResponsePartition
        name = f"t{0 if self.how == LIES else self.pages:09}"
        partitions = [
            of(partition_index=i, leader_id=0, replica_nodes=[0], isr_nodes=[0], offline_replicas=[])
            for i in range(2000)
        ]
        if self.how == STALLS:
            partitions = partitions[:1]
        cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=0)
        return {"topics": [kind(name=name, partitions=partitions)], "next_cursor": cursor}


def _quorum() -> Iterator[Any]:
    topic = DescribeQuorumResponse.TopicData
    replica = topic.PartitionData.ReplicaState
    one = replica(replica_id=0, log_end_offset=10, last_fetch_timestamp=1, last_caught_up_timestamp=1)
    state = topic.PartitionData(
        partition_index=0,
        leader_id=0,
        leader_epoch=1,
        high_watermark=10,
        current_voters=[one],
        observers=[one],
    )
    yield topic("__cluster_metadata", [state])


@contextlib.asynccontextmanager
async def false_broker(
    how: str, folder: Path, pause: float = 0.0
) -> AsyncIterator[tuple[FalseBroker, Access]]:
    """One that runs, and how the operator reaches it."""
    made = ca.issue(ca.make_ca("test"), "spindle-node", (HOST, "localhost"))
    async with serving(FalseBroker(how, pause), made, folder) as broker:
        yield broker, Access({0: HOST}, made["ca.crt"], made["tls.crt"], made["tls.key"])


@contextlib.asynccontextmanager
async def serving(
    broker: FalseBroker, made: Mapping[str, bytes], folder: Path, port: int = 0
) -> AsyncIterator[FalseBroker]:
    """The broker, with the certificate of a Secret, on a port."""
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(made[name])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    server = await asyncio.start_server(broker.serve, HOST, port, ssl=context)
    broker.port = server.sockets[0].getsockname()[1]
    try:
        yield broker
    finally:
        server.close()
