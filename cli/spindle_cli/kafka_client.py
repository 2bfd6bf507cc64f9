"""Connections to Kafka with the credentials in a folder, in the layout of a mounted admin Secret."""

import os
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final, Self

from spindle.model.racks import count_racks, rack_of, wanted_racks
from spindle.planner.assign import assign
from spindle_cli.errors import ClientError
from spindle_cli.libraries import kafka

ENV_CREDENTIALS: Final = "SPINDLE_CREDENTIALS"
ENV_BOOTSTRAP: Final = "SPINDLE_BOOTSTRAP"
_SHOWN_SECONDS: Final = 30.0
_PAUSE: Final = Event()  # never set
_FILES: Final = {"ssl_cafile": "ca.crt", "ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}


@dataclass(frozen=True)
class Access:
    """Address and credentials of a Kafka cluster.

    Attributes:
        credentials: folder with ``ca.crt``, ``tls.crt`` and ``tls.key`` in PEM.
        bootstrap: ``host:port`` of the client listener.
    """

    credentials: Path
    bootstrap: str

    @classmethod
    def from_environment(cls) -> Self | None:
        """From the environment; None if this process was given no credentials."""
        folder, bootstrap = os.environ.get(ENV_CREDENTIALS), os.environ.get(ENV_BOOTSTRAP)
        return cls(Path(folder), bootstrap) if folder and bootstrap else None

    def settings(self) -> dict[str, Any]:
        """Settings common to all clients of kafka-python.

        Raises:
            ClientError: a file is missing. The client itself would only report, after 30 seconds, that it cannot connect.
        """
        missing = [name for name in _FILES.values() if not (self.credentials / name).is_file()]
        if missing:
            raise ClientError(
                f"the folder of {ENV_CREDENTIALS}, {self.credentials}, lacks {', '.join(missing)}"
            )
        files = {setting: str(self.credentials / name) for setting, name in _FILES.items()}
        return {"bootstrap_servers": self.bootstrap, "security_protocol": "SSL", **files}


@dataclass(frozen=True)
class PartitionView:
    """One partition, from Kafka's metadata."""

    index: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class TopicView:
    """A topic and the racks of its replicas.

    Attributes:
        racks: broker id → rack, of the whole cluster; an empty string if a broker has no rack.
    """

    name: str
    partitions: tuple[PartitionView, ...]
    racks: Mapping[int, str]

    def racks_of(self, partition: PartitionView) -> list[str]:
        """Racks of a partition's replicas, sorted; none in a cluster without racks."""
        return sorted({self.racks[broker] for broker in partition.replicas if self.racks.get(broker)})

    @property
    def badly_spread(self) -> list[int]:
        """Partitions on fewer racks than min(replicas, racks)."""
        there = len(set(self.racks.values()))
        return [
            each.index
            for each in self.partitions
            if count_racks(each.replicas, self.racks) < wanted_racks(len(each.replicas), there)
        ]

    @property
    def not_in_sync(self) -> list[int]:
        """Partitions with replicas outside the ISR."""
        return [each.index for each in self.partitions if set(each.isr) != set(each.replicas)]


@dataclass(frozen=True)
class DirView:
    """One log dir, from DescribeLogDirs.

    Attributes:
        path: its path.
        online: whether Kafka can use it; if not, nothing else is known.
        capacity, usable: total and usable bytes of its file system (KIP-827); None if the broker does not report them.
        replicas: number of replicas in it.
        bytes: their size.
    """

    path: str
    online: bool
    capacity: int | None = None
    usable: int | None = None
    replicas: int = 0
    bytes: int = 0


class Client:
    """An admin connection. Every method raises ClientError."""

    def __init__(self, admin: "kafka.KafkaAdminClient", access: Access) -> None:
        self._admin = admin
        self.access = access

    def racks(self) -> dict[int, str]:
        """Live brokers and their racks, from Kafka's metadata."""
        with _told("the brokers"):
            answer = self._admin.describe_cluster()
            return rack_of({broker["broker_id"]: broker.get("rack") for broker in answer["brokers"]})

    def topics(self) -> list[str]:
        """Names of the topics, without Kafka's internal ones."""
        with _told("the topics"):
            return sorted(
                topic["name"] for topic in self._admin.describe_topics() if not topic.get("is_internal")
            )

    def topic(self, name: str) -> TopicView | None:
        """One topic; None if it does not exist."""
        with _told(f"topic {name}"):
            found = next((each for each in self._admin.describe_topics([name]) if each["name"] == name), None)
        if found is None or found["error_code"] == _UNKNOWN_TOPIC:
            return None
        if found["error_code"]:
            raise ClientError(f"topic {name}: {_error_name(found['error_code'])}")
        return TopicView(name, tuple(sorted(map(_partition, found["partitions"]), key=_index)), self.racks())

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, settings: Mapping[str, str]
    ) -> TopicView:
        """Create a topic whose replicas alternate over the racks, and wait until every partition has a leader.

        Raises:
            PlacementError: no such assignment exists.
        """
        racks = self.racks()
        # The first broker depends on the name, so that the first partitions of all topics do not share their leaders.
        start = zlib.crc32(name.encode()) % max(len(racks), 1)
        rows = assign(dict(racks), partitions, replication_factor, start=start)
        wanted = {name: {"assignments": dict(enumerate(rows)), "configs": dict(settings)}}
        existed = self.topic(name) is not None
        with _told(f"topic {name}"):
            (answer,) = self._admin.create_topics(wanted, raise_errors=False)["topics"]
            # The broker repeats the request if the controller's answer was lost: the topic then exists because of this request.
            repeated = answer["error_code"] == _TOPIC_EXISTS and not existed
            if answer["error_code"] and not repeated:
                why = answer.get("error_message") or _error_name(answer["error_code"])
                raise ClientError(f"topic {name} was not created: {why}")
        # Each request may go to another broker, and the metadata of one that has just started may be stale.
        until = time.monotonic() + _SHOWN_SECONDS
        while (made := self.topic(name)) is None or any(each.leader is None for each in made.partitions):
            if time.monotonic() > until:
                raise ClientError(
                    f"topic {name} was created, but {_SHOWN_SECONDS:.0f} s later {_not_yet(made)}"
                )
            _PAUSE.wait(0.3)
        if repeated and [tuple(row) for row in rows] != [each.replicas for each in made.partitions]:
            raise ClientError(f"topic {name} was not created: another client created it at the same time")
        return made

    def log_dirs(self, topic: TopicView) -> dict[int, dict[str, int]]:
        """Log dirs of each broker that are online, and how many replicas of a topic are on each."""
        found: dict[int, dict[str, int]] = {}
        for broker in topic.racks:
            with _told(f"log dirs of broker {broker}"):
                (answer,) = self._admin.describe_log_dirs(topic_partitions=[topic.name], brokers=[broker])
            online = [each for each in answer["log_dirs"] if not each["error_code"]]
            found[broker] = {
                each["log_dir"]: sum(len(part["partitions"]) for part in each["topics"])
                for each in sorted(online, key=lambda each: str(each["log_dir"]))
            }
        return found

    def dirs(self, broker: int) -> list[DirView]:
        """All log dirs of a broker, by path."""
        with _told(f"log dirs of broker {broker}"):
            (answer,) = self._admin.describe_log_dirs(brokers=[broker])
        return sorted(map(_dir, answer["log_dirs"]), key=lambda each: each.path)


@contextmanager
def connect(access: Access) -> Iterator[Client]:
    """An admin connection that is closed on exit."""
    with _told(access.bootstrap):
        admin = kafka.KafkaAdminClient(**access.settings(), request_timeout_ms=20_000)
    try:
        yield Client(admin, access)
    finally:
        admin.close()


def producer(access: Access) -> "kafka.KafkaProducer":
    """A producer with acks=all."""
    with _told(access.bootstrap):
        return kafka.KafkaProducer(**access.settings(), acks="all", linger_ms=5)


def consumer(access: Access) -> "kafka.KafkaConsumer":
    """A consumer without a consumer group."""
    with _told(access.bootstrap):
        return kafka.KafkaConsumer(**access.settings(), group_id=None, enable_auto_commit=False)


_UNKNOWN_TOPIC: Final = 3
_TOPIC_EXISTS: Final = 36


def _partition(raw: Mapping[str, Any]) -> PartitionView:
    leader = raw["leader_id"]
    return PartitionView(
        raw["partition_index"],
        leader if leader >= 0 else None,
        tuple(raw["replica_nodes"]),
        tuple(raw["isr_nodes"]),
    )


def _dir(raw: Mapping[str, Any]) -> DirView:
    if raw["error_code"]:
        return DirView(raw["log_dir"], online=False)
    logs = [part["partition_size"] for topic in raw["topics"] for part in topic["partitions"]]
    total, usable = raw.get("total_bytes", -1), raw.get("usable_bytes", -1)  # since KIP-827; -1: not reported
    return DirView(
        raw["log_dir"],
        online=True,
        capacity=total if total > 0 else None,
        usable=usable if usable >= 0 else None,
        replicas=len(logs),
        bytes=sum(logs),
    )


def _not_yet(made: TopicView | None) -> str:
    if made is None:
        return "the brokers do not list it"
    return f"its partitions {[each.index for each in made.partitions if each.leader is None]} have no leader"


def _index(partition: PartitionView) -> int:
    return partition.index


def _error_name(code: int) -> str:
    return str(kafka.errors.for_code(code).__name__)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn Kafka's errors into ClientError."""
    try:
        yield
    except (kafka.errors.KafkaError, OSError) as error:
        raise ClientError(f"{what}: {error or type(error).__name__}") from error
