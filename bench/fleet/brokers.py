"""A process that stands in for all brokers of a large Kafka: each has an address of its own on loopback, and answers over TLS.

It holds no records and forgets every change. What it answers is encoded once per question, so that it takes little of the machine's time from
the process that is measured; log dirs are encoded again where ``--growing`` says that replicas grew.

.venv/bin/python -m bench.fleet.brokers --brokers 1000 --folder DIR     (DIR holds tls.crt and tls.key; prints one line when it serves)
"""

import argparse
import asyncio
import contextlib
import ssl
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafka.protocol.admin import (
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeLogDirsResponse,
    DescribeQuorumResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    ListPartitionReassignmentsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

from bench.fleet.shape import DISKS, Shape, address

_ENDS = (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, ssl.SSLError)
_KINDS: dict[int, Any] = {
    kind.API_KEY: kind
    for kind in (
        ApiVersionsResponse,
        DescribeAclsResponse,
        DescribeClientQuotasResponse,
        DescribeClusterResponse,
        DescribeConfigsResponse,
        DescribeLogDirsResponse,
        DescribeQuorumResponse,
        DescribeTopicPartitionsResponse,
        ListPartitionReassignmentsResponse,
        MetadataResponse,
    )
}
_PAGE = 2000  # partitions, as Kafka's max.request.partition.size.limit
_BROKER_RESOURCE = 4


class Brokers:
    """All of them, behind one port."""

    def __init__(self, shape: Shape, port: int, *, growing: bool) -> None:
        self._shape, self._port, self._growing = shape, port, growing
        self._known: dict[tuple[int, bytes], bytes] = {}
        self._grown = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection until it ends; the address that was connected to names the broker."""
        broker = self._shape.broker_at(writer.get_extra_info("sockname")[0])
        with contextlib.suppress(*_ENDS):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                answer = self._answer(broker, frame)
                writer.write(answer[:4] + frame[4:8] + answer[8:])
                await writer.drain()
        writer.close()

    def _answer(self, broker: int, frame: bytes) -> bytes:
        """The framed response; its correlation id is not set."""
        api, version = struct.unpack(">hh", frame[:4])
        asked = (broker, frame[:4] + frame[8:])
        if asked not in self._known or (self._growing and api == DescribeLogDirsResponse.API_KEY):
            kind = _KINDS[api]
            made = kind(**self._fields(broker, api, version, frame), version=min(version, kind.max_version))
            made.with_header(0)
            self._known[asked] = bytes(made.encode(framed=True, header=True))
        return self._known[asked]

    def _fields(self, broker: int, api: int, version: int, frame: bytes) -> dict[str, Any]:
        shape = self._shape
        match api:
            case ApiVersionsResponse.API_KEY:
                of = ApiVersionsResponse.ApiVersion
                return {"api_keys": [of(kind.API_KEY, 0, kind.max_version) for kind in _KINDS.values()]}
            case MetadataResponse.API_KEY:
                one = MetadataResponse.MetadataResponseBroker
                brokers = [one(i, address(i), self._port) for i in shape.ids]
                return {"brokers": brokers, "cluster_id": "c", "topics": []}
            case DescribeClusterResponse.API_KEY:
                return self._cluster()
            case DescribeQuorumResponse.API_KEY:
                return {"topics": [_quorum(shape)], "nodes": []}
            case DescribeTopicPartitionsResponse.API_KEY:
                request = DescribeTopicPartitionsRequest.decode(frame, version=version, header=True)
                return self._page(request.cursor)
            case DescribeConfigsResponse.API_KEY:
                request = DescribeConfigsRequest.decode(frame, version=version, header=True)
                return {"results": [_config(resource) for resource in request.resources]}
            case DescribeLogDirsResponse.API_KEY:
                self._grown += self._growing
                return {"results": list(_log_dirs(shape, broker, self._grown))}
            case ListPartitionReassignmentsResponse.API_KEY:
                return {"topics": []}
            case DescribeClientQuotasResponse.API_KEY:
                return {"entries": []}
            case _:
                return {"resources": []}

    def _cluster(self) -> dict[str, Any]:
        one = DescribeClusterResponse.DescribeClusterBroker
        brokers = [
            one(broker_id=i, host=address(i), port=self._port, rack=f"r{i % 3}") for i in self._shape.ids
        ]
        return {"cluster_id": "c", "brokers": brokers, "controller_id": 0, "endpoint_type": 1}

    def _page(self, cursor: Any) -> dict[str, Any]:
        topic, first = (
            (0, 0) if cursor is None else (self._shape.topic_of(cursor.topic_name), cursor.partition_index)
        )
        of = DescribeTopicPartitionsResponse
        kind, after, left = of.DescribeTopicPartitionsResponseTopic, None, _PAGE
        topics = []
        one = kind.DescribeTopicPartitionsResponsePartition
        while topic < self._shape.topics:
            if not left:
                after = of.Cursor(topic_name=self._shape.name(topic), partition_index=first)
                break
            there = range(first, min(self._shape.partitions_of(topic), first + left))
            partitions = [
                one(partition_index=i, leader_id=at[0], leader_epoch=7, replica_nodes=at, isr_nodes=at)
                for i in there
                for at in [self._shape.replicas(topic, i)]
            ]
            topics.append(
                kind(
                    name=self._shape.name(topic), topic_id=self._shape.topic_id(topic), partitions=partitions
                )
            )
            left -= len(there)
            topic, first = (
                (topic + 1, 0) if there.stop == self._shape.partitions_of(topic) else (topic, there.stop)
            )
        return {"topics": topics, "next_cursor": after}


def _quorum(shape: Shape) -> Any:
    topic = DescribeQuorumResponse.TopicData
    replica = topic.PartitionData.ReplicaState

    def state(node: int) -> Any:
        return replica(replica_id=node, log_end_offset=10, last_fetch_timestamp=1, last_caught_up_timestamp=1)

    data = topic.PartitionData(
        partition_index=0,
        leader_id=9000,
        leader_epoch=1,
        high_watermark=10,
        current_voters=[state(node) for node in (9000, 9001, 9002)],
        observers=[state(node) for node in shape.ids],
    )
    return topic("__cluster_metadata", [data])


def _config(resource: Any) -> Any:
    """Every key that was asked for, at a default."""
    of = DescribeConfigsResponse.DescribeConfigsResult
    one = of.DescribeConfigsResourceResult
    values = []
    for key in resource.configuration_keys or ():
        value = "2" if key == "min.insync.replicas" else "1000"
        same = one.DescribeConfigsSynonym(name=key, value=value, source=5)
        synonyms = [same] if resource.resource_type == _BROKER_RESOURCE else []
        values.append(one(name=key, value=value, config_source=5, synonyms=synonyms))
    return of(
        error_code=0,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=values,
    )


def _log_dirs(shape: Shape, broker: int, grown: int) -> Iterator[Any]:
    of = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = of.DescribeLogDirsTopic
    one = topic.DescribeLogDirsPartition
    for disk, held in enumerate(shape.held(broker)):
        topics = [
            topic(
                name=shape.name(number),
                partitions=[
                    one(partition_index=i, partition_size=10**9 + grown, offset_lag=0, is_future_key=False)
                    for i in there
                ],
            )
            for number, there in held.items()
        ]
        yield of(
            error_code=0,
            log_dir=f"/var/lib/kafka/disk{disk}/log",
            topics=topics,
            total_bytes=10**13,
            usable_bytes=10**12 - grown,
        )


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--port", type=int, default=19091)
    parser.add_argument("--growing", action="store_true")
    options = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.folder / "tls.crt", options.folder / "tls.key")
    shape = Shape(options.brokers)
    brokers = Brokers(shape, options.port, growing=options.growing)
    hosts = [address(node) for node in shape.ids]
    server = await asyncio.start_server(brokers.serve, hosts, options.port, ssl=context)
    sys.stdout.write(f"{len(hosts)} brokers of {DISKS} disks\n")
    sys.stdout.flush()
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the parent ends


if __name__ == "__main__":
    asyncio.run(_main())
