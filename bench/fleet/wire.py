"""Requests to a controller and the records of its log, as the schemas in a Kafka release's own jars define them.

kafka-python has no schemas for what only brokers and controllers say to each other. Its classes are made here from those that the jars carry, so each
release is spoken to in its own versions.
"""

import asyncio
import contextlib
import itertools
import json
import re
import ssl
import struct
import time
import zipfile
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final

from kafka.protocol.data_container import DataContainer
from kafka.protocol.schemas import StructField
from kafka.protocol.schemas.fields.codecs.encode_buffer import EncodeBufferPool

from e2e.cluster.build import ensure_kafka_libs
from spindle.api import names

_STRING_OR_COMMENT: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_CLIENT: Final = b"fleet"
STARTING_SECONDS: Final = 240.0  # a controller on a machine that has other work


class Message:
    """One kind of message or record.

    Attributes:
        key: of the API, or of the type of record.
        latest: its highest version.
        make: the class of its content; the classes of its arrays' elements are attributes of it.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        for unused in ("listeners", "latestVersionUnstable", "about"):
            schema.pop(unused, None)
        field = StructField(schema)
        self.name: str = schema["name"]
        self.key: int = schema["apiKey"]
        self.latest = int(schema["validVersions"].rsplit("-", 1)[-1])
        flexible = schema.get("flexibleVersions", "none")
        self._flexible_from = 1 << 15 if flexible == "none" else int(flexible.rstrip("+").split("-")[0])
        self.make: Any = type(self.name, (DataContainer,), {"_struct": field})
        field.set_data_class(self.make)
        self._field = field

    def is_flexible(self, version: int) -> bool:
        """Whether a version has tagged fields."""
        return version >= self._flexible_from

    @cache  # noqa: B019 - as many as there are schemas
    def _decoder(self, version: int) -> Any:
        flexible = self.is_flexible(version)
        return self._field.compiled_decode_from(
            version, compact=flexible, tagged=flexible, data_class=self.make
        )

    def decode(self, data: Any, version: int, start: int = 0) -> Any:
        """The message that begins at ``start``."""
        return self._decoder(version)(memoryview(data), start)[0]

    def encode(self, message: Any, version: int, head: bytes = b"") -> bytes:
        """The message, after ``head``."""
        flexible = self.is_flexible(version)
        message._version = version  # noqa: SLF001 - the library's own messages set it like this
        with EncodeBufferPool.acquire() as out:
            self._field.compiled_encode_into(version, compact=flexible, tagged=flexible)(message, out)
            return head + bytes(out.result())


class Schemas:
    """All of one release."""

    def __init__(self, version: str) -> None:
        libs = ensure_kafka_libs(version)
        self._messages = zipfile.ZipFile(libs / f"kafka-clients-{version}.jar")
        self._records = zipfile.ZipFile(libs / f"kafka-metadata-{version}.jar")

    @cache  # noqa: B019 - one object a process
    def message(self, name: str) -> Message:
        """A request or a response, for example ``FetchRequest``."""
        return Message(_schema(self._messages, f"common/message/{name}.json"))

    @cached_property
    def records(self) -> Mapping[int, Message | None]:
        """Type → record of the metadata log; None for one without fields."""
        names = [
            name
            for name in self._records.namelist()
            if re.fullmatch(r"common/metadata/\w+Record\.json", name)
        ]
        schemas = [_schema(self._records, name) for name in names]
        return {schema["apiKey"]: Message(schema) if schema["fields"] else None for schema in schemas}


def _schema(jar: zipfile.ZipFile, name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(_STRING_OR_COMMENT.sub(r"\1", jar.read(name).decode()))
    common = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    _resolve(schema["fields"], common)
    return schema


def _resolve(fields: list[dict[str, Any]], common: Mapping[str, Any]) -> None:
    for field in fields:
        kind = field["type"].removeprefix("[]")
        if kind in common:
            field.setdefault("fields", common[kind])
        _resolve(field.get("fields", []), common)


class Wire:
    """A connection on which many requests may wait for their responses."""

    def __init__(self, schemas: Schemas) -> None:
        self.schemas = schemas
        self.sent = self.received = self.requests = 0
        self.versions: Mapping[int, int] = {}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[bytes], bool]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def connect(self, host: str, port: int, context: ssl.SSLContext) -> None:
        """Connect, and ask for the versions that are spoken."""
        reader, self._writer = await asyncio.open_connection(host, port, ssl=context, limit=2**24)
        self._reading = asyncio.create_task(self._read(reader))
        kind = self.schemas.message("ApiVersionsRequest")
        request = kind.make(client_software_name="fleet", client_software_version="1")
        answer = await self.ask("ApiVersions", request, version=3)
        self.versions = {each.api_key: each.max_version for each in answer.api_keys}

    async def ask(self, name: str, request: Any, version: int | None = None) -> Any:
        """The response to a request, in the highest version that both sides know.

        Raises:
            OSError: the connection broke.
            KeyError: the other side does not know it.
        """
        asked, answered = (self.schemas.message(f"{name}{kind}") for kind in ("Request", "Response"))
        used = min(asked.latest, self.versions[asked.key]) if version is None else version
        if self._writer is None:
            raise ConnectionError("not connected")
        number = next(self._numbers)
        head = struct.pack(">hhih", asked.key, used, number, len(_CLIENT)) + _CLIENT
        frame = asked.encode(request, used, head + (b"\0" if asked.is_flexible(used) else b""))
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        # ApiVersions is answered with a header without tagged fields, so that every client reads it.
        self._waiting[number] = future, answered.is_flexible(used) and name != "ApiVersions"
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        self.sent += len(frame) + 4
        self.requests += 1
        return answered.decode(await future, used)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                self.received += size + 4
                future, tagged = self._waiting.pop(struct.unpack_from(">i", frame)[0])
                if not future.done():
                    future.set_result(frame[5 if tagged else 4 :])
        except (OSError, asyncio.IncompleteReadError) as error:
            for future, _ in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"the controller closed the connection: {error}"))

    async def close(self) -> None:
        """End it."""
        if self._reading is not None:
            self._reading.cancel()
        if self._writer is not None:
            self._writer.close()


async def connect_active(
    schemas: Schemas, hosts: Mapping[int, str], context: ssl.SSLContext
) -> tuple[Wire, int]:
    """A connection to the active controller, once there is one, and its epoch.

    Args:
        schemas: of the release.
        hosts: controller → host.
        context: of a client that may act on the cluster.
    """
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end:
        for node, host in hosts.items():
            wire = Wire(schemas)
            with contextlib.suppress(OSError):
                await wire.connect(host, names.PORT_CONTROLLER, context)
                state = await quorum(wire)
                if not state.error_code and state.leader_id == node:
                    return wire, state.leader_epoch
            await wire.close()
        await asyncio.sleep(1)
    raise RuntimeError("no controller became active")


async def quorum(wire: Wire) -> Any:
    """What a controller says of the quorum: leader, epoch, voters, observers."""
    make = wire.schemas.message("DescribeQuorumRequest").make
    partition = make.TopicData.PartitionData(partition_index=0)
    asked = make(topics=[make.TopicData(topic_name="__cluster_metadata", partitions=[partition])])
    ((state,),) = (topic.partitions for topic in (await wire.ask("DescribeQuorum", asked)).topics)
    return state
