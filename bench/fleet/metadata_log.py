"""Kafka's metadata log (``__cluster_metadata``), read from a controller as an observer without a vote: by Fetch, and by FetchSnapshot where its beginning is gone.

The request says replica id -1, so the controllers neither count the reader for the high watermark nor name it. What is read reaches beyond the high watermark:
records behind it may still vanish, and are left for the next read.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.record import MemoryRecords

from bench.fleet.wire import Wire

_TOPIC: Final = "__cluster_metadata"
_TOPIC_ID: Final = uuid.UUID(int=1)
_MOST_BYTES: Final = 2**23
_BEGIN, _END, _ABORT = 23, 24, 25  # of a transaction, whose records count together or not at all
_FENCED: Final = 1

_Change = tuple[Callable[[Any], None], Any]


class UnknownRecordError(RuntimeError):
    """A record of a type or version that the schemas of this release lack: what it changes is not known."""


@dataclass
class Partition:
    """What the log says about one."""

    leader: int
    replicas: list[int]
    isr: list[int]
    elr: list[int]
    directories: list[uuid.UUID]


@dataclass
class Image:
    """State that the records make up.

    Attributes:
        end: offset of the next record.
        epoch: of the leader that wrote the last one.
        fenced: broker → whether it is fenced.
        partitions: (topic id, partition).
        configs: (type, name) → key → value.
        records: how many were read.
    """

    end: int = 0
    epoch: int = 0
    topics: dict[uuid.UUID, str] = field(default_factory=dict)
    fenced: dict[int, bool] = field(default_factory=dict)
    directories: dict[int, list[uuid.UUID]] = field(default_factory=dict)
    partitions: dict[tuple[uuid.UUID, int], Partition] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    records: int = 0


class MetadataLog:
    """Follows the log of one cluster."""

    def __init__(self, wire: Wire, epoch: int, cluster: str) -> None:
        """Nothing is read yet.

        Args:
            wire: to the active controller; the others refuse a Fetch.
            epoch: the active controller's; a Fetch without it is refused.
            cluster: Kafka's id of it.
        """
        self.wire = wire
        self.image = Image()
        self._schemas = wire.schemas
        self._pending: list[_Change] | None = None  # of an open transaction
        self._epoch = epoch
        self._cluster = cluster

    async def read(self) -> None:
        """Read up to the high watermark.

        Raises:
            RuntimeError: the controller refuses.
            UnknownRecordError: see there.
        """
        while True:
            data = await self._fetch()
            if data.snapshot_id is not None and data.snapshot_id.end_offset >= 0:
                await self._snapshot(data.snapshot_id)
                continue
            if data.diverging_epoch is not None and data.diverging_epoch.end_offset >= 0:
                raise RuntimeError("the log was truncated: what is known has to be read anew")
            before = self.image.end
            if data.records:
                self._apply(bytes(data.records), data.high_watermark)
            if self.image.end >= data.high_watermark or self.image.end == before:
                return

    async def _fetch(self) -> Any:
        make = self._schemas.message("FetchRequest").make
        topic = make.FetchTopic
        partition = topic.FetchPartition(
            partition=0,
            current_leader_epoch=self._epoch,
            fetch_offset=self.image.end,
            last_fetched_epoch=self.image.epoch,
            log_start_offset=-1,
            partition_max_bytes=_MOST_BYTES,
        )
        request = make(
            cluster_id=self._cluster,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_MOST_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[topic(topic=_TOPIC, topic_id=_TOPIC_ID, partitions=[partition])],
            forgotten_topics_data=[],
            rack_id="",
        )
        answer = await self.wire.ask("Fetch", request)
        if answer.error_code:
            raise RuntimeError(f"Fetch: error {answer.error_code}")
        ((data,),) = (each.partitions for each in answer.responses)
        if data.error_code:
            raise RuntimeError(f"Fetch: error {data.error_code}")
        return data

    async def _snapshot(self, wanted: Any) -> None:
        """Read a whole snapshot, and start from it."""
        make = self._schemas.message("FetchSnapshotRequest").make
        topic = make.TopicSnapshot
        of = topic.PartitionSnapshot
        found = bytearray()
        while True:
            partition = of(
                partition=0,
                current_leader_epoch=self._epoch,
                snapshot_id=of.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
                position=len(found),
            )
            request = make(
                cluster_id=self._cluster,
                replica_id=-1,
                max_bytes=_MOST_BYTES,
                topics=[topic(name=_TOPIC, partitions=[partition])],
            )
            answer = await self.wire.ask("FetchSnapshot", request)
            if answer.error_code:
                raise RuntimeError(f"FetchSnapshot: error {answer.error_code}")
            ((data,),) = (each.partitions for each in answer.topics)
            if data.error_code:
                raise RuntimeError(f"FetchSnapshot: error {data.error_code}")
            found += data.unaligned_records
            if len(found) >= data.size:
                break
        self.image = Image()
        self._apply(bytes(found), 1 << 62)
        self.image.end, self.image.epoch = wanted.end_offset, wanted.epoch

    def _apply(self, data: bytes, high_watermark: int) -> None:
        batches = MemoryRecords(data)
        while (batch := batches.next_batch()) is not None:
            end = batch.base_offset + batch.last_offset_delta + 1
            if end > high_watermark:
                return
            if not batch.is_control_batch:
                for record in batch:
                    self._record(record.value)
            self.image.end, self.image.epoch = end, batch.leader_epoch

    def _record(self, value: bytes) -> None:
        """One record: the version of its frame, its type, its version, its fields."""
        self.image.records += 1
        kind, version = value[1], value[2]  # varints, all of them below 128 so far
        if value[0] != 1 or kind > 127 or version > 127:
            raise UnknownRecordError(f"a record in the frame {value[0]}, of type {kind}, version {version}")
        if kind not in self._schemas.records:
            raise UnknownRecordError(f"a record of type {kind}, version {version}")
        message = self._schemas.records[kind]
        if kind == _BEGIN:
            self._pending = []
        elif kind in {_END, _ABORT}:
            pending, self._pending = self._pending or [], None
            for apply, fields in pending if kind == _END else ():
                apply(fields)
        elif message is not None:
            if version > message.latest:
                raise UnknownRecordError(f"a record of type {kind}, version {version}")
            change = getattr(self, f"_{message.name}", None)
            if change is not None and self._pending is not None:
                self._pending.append((change, message.decode(value, version, 3)))
            elif change is not None:
                change(message.decode(value, version, 3))

    # One function for each type of record that changes what the image has.

    def _TopicRecord(self, of: Any) -> None:  # noqa: N802
        self.image.topics[of.topic_id] = of.name

    def _RemoveTopicRecord(self, of: Any) -> None:  # noqa: N802
        self.image.topics.pop(of.topic_id, None)
        for key in [key for key in self.image.partitions if key[0] == of.topic_id]:
            del self.image.partitions[key]

    def _PartitionRecord(self, of: Any) -> None:  # noqa: N802
        self.image.partitions[of.topic_id, of.partition_id] = Partition(
            of.leader, of.replicas, of.isr, of.eligible_leader_replicas or [], of.directories or []
        )

    def _PartitionChangeRecord(self, of: Any) -> None:  # noqa: N802
        one = self.image.partitions[of.topic_id, of.partition_id]
        if of.leader != -2 and of.leader is not None:
            one.leader = of.leader
        one.replicas = one.replicas if of.replicas is None else of.replicas
        one.isr = one.isr if of.isr is None else of.isr
        one.directories = one.directories if of.directories is None else of.directories
        one.elr = one.elr if of.eligible_leader_replicas is None else of.eligible_leader_replicas

    def _ClearElrRecord(self, of: Any) -> None:  # noqa: N802
        for (topic, _), one in self.image.partitions.items():
            if not of.topic_name or self.image.topics.get(topic) == of.topic_name:
                one.elr = []

    def _RegisterBrokerRecord(self, of: Any) -> None:  # noqa: N802
        self.image.fenced[of.broker_id] = of.fenced
        self.image.directories[of.broker_id] = of.log_dirs or []

    def _UnregisterBrokerRecord(self, of: Any) -> None:  # noqa: N802
        self.image.fenced.pop(of.broker_id, None)
        self.image.directories.pop(of.broker_id, None)

    def _FenceBrokerRecord(self, of: Any) -> None:  # noqa: N802
        self.image.fenced[of.id] = True

    def _UnfenceBrokerRecord(self, of: Any) -> None:  # noqa: N802
        self.image.fenced[of.id] = False

    def _BrokerRegistrationChangeRecord(self, of: Any) -> None:  # noqa: N802
        if of.fenced:
            self.image.fenced[of.broker_id] = of.fenced == _FENCED
        if of.log_dirs:
            self.image.directories[of.broker_id] = of.log_dirs

    def _ConfigRecord(self, of: Any) -> None:  # noqa: N802
        values = self.image.configs.setdefault((of.resource_type, of.resource_name), {})
        if of.value is None:
            values.pop(of.name, None)
        else:
            values[of.name] = of.value

    def _FeatureLevelRecord(self, of: Any) -> None:  # noqa: N802
        self.image.features[of.name] = of.feature_level
