"""The state of one cluster, as a run of the rebalance job reads and records it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pydantic import ValidationError

from spindle.api import names
from spindle.api.broker import KafkaBroker
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.thresholds import Thresholds
from spindle.model.maintenance import NO_REQUEST, disk_requests
from spindle.model.view import Broker, KafkaView, LogDir, Partition

_FORMAT: Final = 1
_OPEN: Final = frozenset({"Approved", "Executing"})

DirPlace = tuple[int, str]  # broker, path of a log dir
PlaceKey = tuple[str, int]  # topic, partition


class RecordError(ValueError):
    """An unreadable record of a state; the message says what is wrong."""


@dataclass(frozen=True)
class DiskFact:
    """One disk according to Kubernetes.

    Attributes:
        name: name in the KafkaBroker.
        mode: ``Active``, ``Placeholder`` or ``Absent``.
        state: the disk's state; empty if none is recorded yet.
        level: its usage level; empty if none is recorded.
        cordoned, drained: whether a user has requested that.
        slow: whether the agent reports it as slow.
    """

    name: str
    mode: str
    state: str = ""
    level: str = ""
    cordoned: bool = False
    drained: bool = False
    slow: bool = False

    @property
    def path(self) -> str:
        """Path of its log dir."""
        return names.log_dir(self.name)


@dataclass(frozen=True)
class BrokerFact:
    """One broker according to Kubernetes.

    Attributes:
        thresholds: its thresholds in the KafkaBroker, if they differ from the cluster's.
        moving: partitions that its agent is moving between its disks.
    """

    id: int
    disks: tuple[DiskFact, ...]
    thresholds: Mapping[str, Any] | None = None
    moving: tuple[PlaceKey, ...] = ()

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read a KafkaBroker.

        Raises:
            pydantic.ValidationError: the object is invalid; the API server would have rejected it.
        """
        broker = KafkaBroker.parse(raw)
        status, requests = broker.status, disk_requests(raw)
        states = {disk.name: disk for disk in status.disks} if status else {}
        observed = status.observed if status else None
        slow = {disk.name for disk in observed.disks if disk.verdict == "Slow"} if observed else set()
        disks = []
        for disk in broker.spec.disks:
            known, request = states.get(disk.name), requests.get(disk.name, NO_REQUEST)
            disks.append(
                DiskFact(
                    name=disk.name,
                    mode=disk.mode,
                    state=(known.state if known else None) or "",
                    level=known.usage.level if known and known.usage else "",
                    cordoned=request.cordoned,
                    drained=request.drained,
                    slow=disk.name in slow,
                )
            )
        thresholds = broker.spec.thresholds
        return cls(
            id=broker.spec.id,
            disks=tuple(disks),
            thresholds=None if thresholds is None else thresholds.to_dict(),
            moving=tuple(sorted({(move.topic, move.partition) for move in broker.spec.moves})),
        )


@dataclass(frozen=True)
class Picture:
    """All input of a plan except the history.

    Attributes:
        at_ms: time of the picture, in ms since 1970; times in the proposal count from here.
        spec: the KafkaCluster's spec from the API server.
        brokers: data of the KafkaBrokers.
        kafka: brokers with their log dirs, and partitions; nothing else is used.
        under_way: name of an approved or executing KafkaRebalance; empty if there is none.
    """

    namespace: str
    cluster: str
    at_ms: int
    spec: Mapping[str, Any]
    brokers: tuple[BrokerFact, ...]
    kafka: KafkaView = field(repr=False)
    under_way: str = ""

    @property
    def policy(self) -> KafkaClusterSpec:
        """The spec as a model with defaults."""
        return KafkaClusterSpec.parse(self.spec)

    def thresholds(self, broker: int) -> Thresholds:
        """The thresholds of a broker's disks."""
        own = next((b.thresholds for b in self.brokers if b.id == broker), None)
        return Thresholds.parse(own) if own is not None else self.policy.disks.thresholds

    def to_document(self) -> dict[str, Any]:
        """As a JSON document; sizes are grouped by topic, so that a million replicas take about 30 MB."""
        return {
            "format": _FORMAT,
            "namespace": self.namespace,
            "cluster": self.cluster,
            "atMs": self.at_ms,
            "underWay": self.under_way,
            "spec": dict(self.spec),
            "brokers": [
                {
                    "id": b.id,
                    "thresholds": b.thresholds,
                    "moving": [list(key) for key in b.moving],
                    "disks": [vars(disk) for disk in b.disks],
                }
                for b in self.brokers
            ],
            "kafka": _kafka_document(self.kafka),
        }

    @classmethod
    def from_document(cls, document: Any) -> Self:
        """Read a document made by `to_document`.

        Raises:
            RecordError: the document has a different format or is corrupt.
        """
        try:
            if document["format"] != _FORMAT:
                raise RecordError(
                    f"the record has format {document['format']}, but this version reads format {_FORMAT}"
                )
            found = cls(
                namespace=str(document["namespace"]),
                cluster=str(document["cluster"]),
                at_ms=int(document["atMs"]),
                under_way=str(document["underWay"]),
                spec=dict(document["spec"]),
                brokers=tuple(
                    BrokerFact(
                        id=int(b["id"]),
                        thresholds=b["thresholds"],
                        moving=tuple((str(topic), int(index)) for topic, index in b["moving"]),
                        disks=tuple(DiskFact(**disk) for disk in b["disks"]),
                    )
                    for b in document["brokers"]
                ),
                kafka=_kafka(document["kafka"]),
            )
            _ = found.policy
        except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
            if isinstance(error, RecordError):
                raise
            raise RecordError(f"the record cannot be read: {type(error).__name__}: {error}") from error
        return found


def is_open(phase: str | None, approved: str | None) -> bool:
    """Whether a KafkaRebalance is approved or executing; then no other one is made."""
    return phase in _OPEN or (phase in (None, "Proposed") and bool(approved))


def _kafka_document(view: KafkaView) -> dict[str, Any]:
    partitions: dict[str, list[list[Any]]] = {}
    for p in view.partitions or ():
        entry = [p.index, p.leader, list(p.replicas), list(p.isr), list(p.adding), list(p.removing)]
        partitions.setdefault(p.topic, []).append(entry)
    return {
        "clusterId": view.cluster_id,
        "error": view.error,
        "brokers": None
        if view.brokers is None
        else [
            {
                "id": b.id,
                "rack": b.rack,
                "fenced": b.fenced,
                "logDirs": None if b.log_dirs is None else [_dir_document(d) for d in b.log_dirs],
            }
            for _, b in sorted(view.brokers.items())
        ],
        "partitions": None if view.partitions is None else partitions,
    }


def _dir_document(log_dir: LogDir) -> dict[str, Any]:
    return {
        "path": log_dir.path,
        "error": log_dir.error,
        "total": log_dir.total_bytes,
        "usable": log_dir.usable_bytes,
        "cordoned": log_dir.cordoned,
        "replicas": _by_topic(log_dir.replicas),
        "futures": _by_topic(log_dir.futures),
    }


def _by_topic(sizes: Mapping[PlaceKey, int]) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    for (topic, index), size in sorted(sizes.items()):
        found.setdefault(topic, []).append([index, size])
    return found


def _kafka(document: Mapping[str, Any]) -> KafkaView:
    brokers, partitions = document["brokers"], document["partitions"]
    return KafkaView(
        error=document["error"],
        cluster_id=document["clusterId"],
        brokers=None if brokers is None else {int(b["id"]): _broker(b) for b in brokers},
        partitions=None
        if partitions is None
        else tuple(
            Partition(
                topic=topic,
                index=index,
                leader=leader,
                replicas=tuple(replicas),
                isr=tuple(isr),
                adding=tuple(adding),
                removing=tuple(removing),
            )
            for topic, entries in partitions.items()
            for index, leader, replicas, isr, adding, removing in entries
        ),
    )


def _broker(document: Mapping[str, Any]) -> Broker:
    dirs = document["logDirs"]
    return Broker(
        id=int(document["id"]),
        rack=document["rack"],
        fenced=document["fenced"],
        log_dirs=None
        if dirs is None
        else tuple(
            LogDir(
                path=d["path"],
                error=d["error"],
                total_bytes=d["total"],
                usable_bytes=d["usable"],
                cordoned=d["cordoned"],
                replicas=_sizes(d["replicas"]),
                futures=_sizes(d["futures"]),
            )
            for d in dirs
        ),
    )


def _sizes(document: Mapping[str, Any]) -> dict[PlaceKey, int]:
    return {(topic, int(index)): int(size) for topic, entries in document.items() for index, size in entries}
