"""Stand-ins for all brokers of a real quorum: they register, heart-beat and say in which dirs their replicas are, and answer the operator as brokers.

They hold no records, and fetch nothing. What else happens to them is said on standard input, one JSON object a line; each is answered with a
line when the controllers have taken it in:

    {"fence": [3, 4]}          their heartbeats ask to be fenced, as those of a broker that stops
    {"unfence": [3, 4]}
    {"offline": [3, 0]}        disk 0 of broker 3 dies; {"online": [3, 0]} takes it back

.venv/bin/python -m bench.fleet.standins --brokers 100 --folder DIR --cluster ID --version 4.3.1 --controllers 127.78.0.1 --real 100 127.78.1.1
"""

import argparse
import asyncio
import json
import ssl
import sys
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from kafka.protocol.metadata import MetadataResponse

from bench.fleet.brokers import Brokers
from bench.fleet.shape import DISKS, Shape, address
from bench.fleet.wire import STARTING_SECONDS, Schemas, Wire, connect_active
from spindle.api import names
from spindle_shared.tls import client_context

HEARTBEAT_SECONDS: Final = 10.0
_TOPICS_AT_ONCE: Final = 100
_AT_ONCE: Final = 32  # requests that wait for the controller
_NOT_CONTROLLER: Final = 41
_BUSY: Final = (7, 14, 15)  # what a controller says that has just started
_TLS: Final = 1  # SecurityProtocol
_ANY: Final = 32_767
_FEATURES: Final = (
    "metadata.version",
    "kraft.version",
    "transaction.version",
    "group.version",
    "eligible.leader.replicas.version",
    "share.version",
    "streams.version",
)
_PORT: Final = names.PORT_REPLICATION


def directory(broker: int, disk: int) -> uuid.UUID:
    """The directory id of a disk."""
    return uuid.UUID(int=(broker + 1 << 64) + disk + 1)


class Standins(Brokers):
    """What all of them answer."""

    def __init__(self, shape: Shape, real: tuple[int, str]) -> None:
        super().__init__(shape, _PORT, growing=False)
        self._real = real

    def _fields(self, broker: int, api: int, version: int, frame: bytes) -> dict[str, Any]:
        fields = super()._fields(broker, api, version, frame)
        if api == MetadataResponse.API_KEY:
            fields["brokers"].append(MetadataResponse.MetadataResponseBroker(*self._real, _PORT))
        return fields


class Fleet:
    """Their registrations and heartbeats."""

    def __init__(self, wire: Wire, standins: Standins, shape: Shape, cluster: str) -> None:
        self._wire, self._standins, self._shape, self._cluster = wire, standins, shape, cluster
        self._epochs: dict[int, int] = {}
        self._fenced: set[int] = set()
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def _ask(self, name: str, request: Any) -> Any:
        """The response of the active controller; it may have just started.

        Raises:
            RuntimeError: an error that does not pass.
        """
        end = time.monotonic() + STARTING_SECONDS
        while True:
            async with self._at_once:
                answer = await self._wire.ask(name, request)
            error = getattr(answer, "error_code", 0)
            if not error:
                return answer
            if error not in (_NOT_CONTROLLER, *_BUSY) or time.monotonic() > end:
                raise RuntimeError(f"{name}: error {error}")
            await asyncio.sleep(1)

    async def register(self, broker: int) -> None:
        """Register a broker with all its log dirs."""
        make = self._wire.schemas.message("BrokerRegistrationRequest").make
        listener = make.Listener(
            name=names.LISTENER_REPLICATION, host=address(broker), port=_PORT, security_protocol=_TLS
        )
        request = make(
            broker_id=broker,
            cluster_id=self._cluster,
            incarnation_id=uuid.uuid4(),
            listeners=[listener],
            features=[
                make.Feature(name=name, min_supported_version=0, max_supported_version=_ANY)
                for name in _FEATURES
            ],
            rack=f"r{broker % 3}",
            log_dirs=[directory(broker, disk) for disk in range(DISKS)],
            previous_broker_epoch=-1,
        )
        answer = await self._ask("BrokerRegistration", request)
        self._epochs[broker] = answer.broker_epoch

    async def beat(self, broker: int) -> None:
        """One heartbeat."""
        request = self._wire.schemas.message("BrokerHeartbeatRequest").make(
            broker_id=broker,
            broker_epoch=self._epochs[broker],
            # As far as its own registration, which is what the controllers wait for.
            current_metadata_offset=self._epochs[broker],
            want_fence=broker in self._fenced,
            want_shut_down=False,
            offline_log_dirs=[
                directory(node, disk) for node, disk in self._standins.offline if node == broker
            ],
        )
        await self._ask("BrokerHeartbeat", request)

    async def go_on(self) -> None:
        """Heartbeats of all, again and again."""
        while True:
            pause = asyncio.create_task(asyncio.sleep(HEARTBEAT_SECONDS))
            await self.all(self.beat, self._shape.ids)
            await pause

    async def create_topics(self, minimum: int) -> dict[int, uuid.UUID]:
        """Create all topics with the assignments of the shape; number → id."""
        make = self._wire.schemas.message("CreateTopicsRequest").make
        topic = make.CreatableTopic
        of = topic.CreatableReplicaAssignment
        found: dict[int, uuid.UUID] = {}
        shape = self._shape
        for start in range(0, shape.topics, _TOPICS_AT_ONCE):
            batch = range(start, min(shape.topics, start + _TOPICS_AT_ONCE))
            topics = [
                topic(
                    name=shape.name(number),
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[
                        of(partition_index=i, broker_ids=shape.replicas(number, i))
                        for i in range(shape.partitions_of(number))
                    ],
                    configs=[topic.CreatableTopicConfig(name="min.insync.replicas", value=str(minimum))],
                )
                for number in batch
            ]
            answer = await self._ask(
                "CreateTopics", make(topics=topics, timeout_ms=60_000, validate_only=False)
            )
            for one in answer.topics:
                if one.error_code:
                    raise RuntimeError(f"{one.name}: error {one.error_code}: {one.error_message}")
                found[shape.topic_of(one.name)] = one.topic_id
        return found

    async def assign(self, broker: int, ids: dict[int, uuid.UUID]) -> None:
        """Say in which log dirs a broker's replicas are."""
        make = self._wire.schemas.message("AssignReplicasToDirsRequest").make
        data, topic = make.DirectoryData, make.DirectoryData.TopicData
        dirs = [
            data(
                id=directory(broker, disk),
                topics=[
                    topic(
                        topic_id=ids[number],
                        partitions=[topic.PartitionData(partition_index=i) for i in partitions],
                    )
                    for number, partitions in held.items()
                ],
            )
            for disk, held in enumerate(self._standins.held(broker))
        ]
        request = make(broker_id=broker, broker_epoch=self._epochs[broker], directories=dirs)
        await self._ask("AssignReplicasToDirs", request)

    async def order(self, order: dict[str, list[int]]) -> None:
        """Do what a line says, until the controllers have taken it in."""
        ((what, value),) = order.items()
        match what:
            case "fence":
                self._fenced |= set(value)
                await self.all(self.beat, value)
            case "unfence":
                self._fenced -= set(value)
                await self.all(self.beat, value)
            case "offline" | "online":
                broker, disk = value
                change = self._standins.offline.add if what == "offline" else self._standins.offline.discard
                change((broker, disk))
                self._standins.forget(broker)
                if what == "online":  # Kafka takes a dir back only from a broker that has restarted
                    await self.register(broker)
                await self.beat(broker)
            case _:
                raise ValueError(f"unknown: {what}")

    async def all(self, call: Any, brokers: Iterable[int]) -> None:
        """One call for each of them, side by side."""
        await asyncio.gather(*(call(broker) for broker in brokers))


def _say(what: str, began: float) -> float:
    now = time.monotonic()
    sys.stdout.write(f"{what} {now - began:.2f}\n")
    sys.stdout.flush()
    return now


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--brokers", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="with ca.crt, tls.crt, tls.key of a node")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--controllers", nargs="+", required=True)
    parser.add_argument("--real", nargs=2, required=True)
    parser.add_argument(
        "--assigned", type=int, required=True, help="brokers that say where their replicas are"
    )
    options = parser.parse_args()
    shape = Shape(options.brokers)
    authority, certificate, key = (
        (options.folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")
    )
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(options.folder / "tls.crt", options.folder / "tls.key")
    standins = Standins(shape, (int(options.real[0]), options.real[1]))
    hosts = [address(node) for node in shape.ids]
    server = await asyncio.start_server(standins.serve, hosts, _PORT, ssl=served)

    began = time.monotonic()
    controllers = {names.controller_id(i): host for i, host in enumerate(options.controllers)}
    context = client_context(authority, certificate, key)
    wire, _ = await connect_active(Schemas(options.version), controllers, context)
    fleet = Fleet(wire, standins, shape, options.cluster)
    began = _say("controllers", began)
    await fleet.all(fleet.register, shape.ids)
    await fleet.all(fleet.beat, shape.ids)
    beats = asyncio.create_task(fleet.go_on())
    began = _say("brokers", began)
    ids = await fleet.create_topics(2)
    began = _say("topics", began)
    await fleet.all(lambda broker: fleet.assign(broker, ids), shape.ids[: options.assigned])
    _say("dirs", began)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    async with server:
        while line := await reader.readline():
            if beats.done():
                beats.result()
            began = time.monotonic()
            await fleet.order(json.loads(line))
            _say("done", began)
    beats.cancel()


if __name__ == "__main__":
    asyncio.run(_main())
