"""A process that stands in for all brokers of a large Kafka: each has an address of its own on loopback, and answers over TLS.

It holds no records. A replica that is told to be in another dir is there at once; every other change is forgotten. What it answers is encoded once per question, so that it takes little of the machine's time from
the process that is measured; log dirs are encoded again where ``--growing`` says that replicas grew.

.venv/bin/python -m bench.fleet.brokers --brokers 1000 --folder DIR     (DIR holds ADDRESS.pem of each; prints one line when it serves)
"""

import argparse
import asyncio
import contextlib
import ssl
import struct
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from kafka.protocol.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
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
        AlterReplicaLogDirsResponse,
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
_OFFLINE = 56  # KAFKA_STORAGE_ERROR
_UNKNOWN_DIR = 57  # LOG_DIR_NOT_FOUND

# Of what there is none.
_NOTHING: dict[int, dict[str, list[Any]]] = {
    ListPartitionReassignmentsResponse.API_KEY: {"topics": []},
    DescribeClientQuotasResponse.API_KEY: {"entries": []},
    DescribeAclsResponse.API_KEY: {"resources": []},
}

Held = list[dict[int, list[int]]]  # by disk: topic → partitions


class Brokers:
    """All of them, behind one port.

    Attributes:
        offline: (broker, disk) that have died.
    """

    def __init__(self, shape: Shape, port: int, *, growing: bool) -> None:
        self._shape, self._port, self._growing = shape, port, growing
        self.offline: set[tuple[int, int]] = set()
        self._known: dict[tuple[int, bytes], bytes] = {}
        self._moved: dict[int, Held] = {}
        self._grown = 0

    def held(self, broker: int) -> Held:
        """Where a broker's replicas are."""
        return self._moved.get(broker) or self._shape.held(broker)

    def forget(self, broker: int) -> None:
        """What a broker says of itself has changed."""
        for asked in [each for each in self._known if each[0] == broker]:
            del self._known[asked]

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
        growing = self._growing and api == DescribeLogDirsResponse.API_KEY
        if asked not in self._known or growing or api == AlterReplicaLogDirsResponse.API_KEY:
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
                return self.page(request.cursor)
            case DescribeConfigsResponse.API_KEY:
                request = DescribeConfigsRequest.decode(frame, version=version, header=True)
                return {"results": [_config(resource) for resource in request.resources]}
            case DescribeLogDirsResponse.API_KEY:
                self._grown += self._growing
                dead = {disk for node, disk in self.offline if node == broker}
                return {"results": list(_log_dirs(shape, self.held(broker), dead, self._grown))}
            case AlterReplicaLogDirsResponse.API_KEY:
                request = AlterReplicaLogDirsRequest.decode(frame, version=version, header=True)
                return {
                    "results": [
                        self._move(broker, each.path, topic) for each in request.dirs for topic in each.topics
                    ]
                }
            case _:
                return dict(_NOTHING[api])

    def _move(self, broker: int, path: str, topic: Any) -> Any:
        """Put replicas of a topic into a dir."""
        of = AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult
        number = self._shape.topic_of(topic.name)
        disk = next((disk for disk in range(DISKS) if _path(disk) == path), None)
        error = _UNKNOWN_DIR if disk is None else _OFFLINE if any(b == broker for b, _ in self.offline) else 0
        if disk is not None and not error:
            moved = set(topic.partitions)
            held = [{name: list(there) for name, there in each.items()} for each in self.held(broker)]
            here = moved & {i for each in held for i in each.get(number, ())}
            for each in held:
                each[number] = [i for i in each.get(number, ()) if i not in here]
            held[disk][number] += sorted(here)
            self._moved[broker] = [{name: there for name, there in each.items() if there} for each in held]
            self.forget(broker)
        one = of.AlterReplicaLogDirPartitionResult
        partitions = [one(partition_index=i, error_code=error) for i in topic.partitions]
        return of(topic_name=topic.name, partitions=partitions)

    def _cluster(self) -> dict[str, Any]:
        one = DescribeClusterResponse.DescribeClusterBroker
        brokers = [
            one(broker_id=i, host=address(i), port=self._port, rack=f"r{i % 3}") for i in self._shape.ids
        ]
        return {"cluster_id": "c", "brokers": brokers, "controller_id": 0, "endpoint_type": 1}

    def page(self, cursor: Any) -> dict[str, Any]:
        """The fields of one page of partitions; ``cursor`` is the one that the page before ended with."""
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


def _path(disk: int) -> str:
    return f"/var/lib/kafka/disk{disk}/log"


def _log_dirs(shape: Shape, there: Held, dead: Collection[int], grown: int) -> Iterator[Any]:
    of = DescribeLogDirsResponse.DescribeLogDirsResult
    topic = of.DescribeLogDirsTopic
    one = topic.DescribeLogDirsPartition
    for disk, held in enumerate(there):
        if disk in dead:
            yield of(error_code=_OFFLINE, log_dir=_path(disk), topics=[], total_bytes=-1, usable_bytes=-1)
            continue
        topics = [
            topic(
                name=shape.name(number),
                partitions=[
                    one(partition_index=i, partition_size=10**9 + grown, offset_lag=0, is_future_key=False)
                    for i in partitions
                ],
            )
            for number, partitions in held.items()
        ]
        yield of(
            error_code=0,
            log_dir=_path(disk),
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
    shape = Shape(options.brokers)
    brokers = Brokers(shape, options.port, growing=options.growing)
    async with contextlib.AsyncExitStack() as stack:
        for host in map(address, shape.ids):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(options.folder / f"{host}.pem")
            server = await asyncio.start_server(brokers.serve, host, options.port, ssl=context)
            await stack.enter_async_context(server)
        sys.stdout.write(f"{options.brokers} brokers of {DISKS} disks\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the parent ends


if __name__ == "__main__":
    asyncio.run(_main())
