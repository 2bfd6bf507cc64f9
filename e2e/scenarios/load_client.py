"""Runs in a pod: writes with acks=all, records what was acknowledged, reads everything back.

``python3 -c <this> produce`` runs until the file ``/tmp/stop`` exists. ``… placement`` prints the location of each replica,
``… configs`` prints the settings of each topic; ``… drop TOPIC`` deletes a topic. All output is one JSON object per line; its environment is
described at ``Settings``.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError

_CREDENTIALS = os.environ.get("CREDENTIALS", "/etc/spindle/credentials") + "/"
_STOP = Path("/tmp/stop")
_MOST_PENDING = 300  # unacknowledged records per partition
_FILLING = 12_000  # bytes of the records that are written first: large ones, to be fast
_READINGS = 3  # attempts per partition to read it
_RATE = float(os.environ.get("RATE", "10"))
# Minimum seconds without an acknowledgement that are reported; shorter gaps are normal.
_GAP = max(1.0, 2 / _RATE)


# kafka-python's TLS handshake has no timeout. If the machine of a broker loses power in the middle of one, nothing else ends it: the client waits
# forever, and never connects to that broker again, also after its return.
_DEAD = 5  # seconds between two keep-alives; a connection ends after the third that gets no answer
_SOCKET = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 4 * 1000 * _DEAD),
]


def tell(**facts: Any) -> None:
    """Print one line with the time; written at once, because several threads print."""
    sys.stdout.write(json.dumps({"at": round(time.time(), 3), **facts}) + "\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Settings:
    """Settings, from the environment.

    Attributes:
        topics: TOPICS, separated by commas.
        size: SIZE, bytes of a record.
        rounds: RATE, records per partition and second.
        fill: FILL, MiB that are written to each topic first, as fast as possible.
        keep: KEEP, whether the topics are kept at the end.
    """

    topics: tuple[str, ...] = tuple(os.environ.get("TOPICS", "").split(","))
    size: int = int(os.environ.get("SIZE", "500"))
    rounds: float = _RATE
    fill: int = int(os.environ.get("FILL", "0"))
    keep: bool = bool(os.environ.get("KEEP", ""))


def access(**more: Any) -> dict[str, Any]:
    """Settings of a client."""
    return {
        "bootstrap_servers": os.environ["BOOTSTRAP"],
        "security_protocol": "SSL",
        "ssl_cafile": _CREDENTIALS + "ca.crt",
        "ssl_certfile": _CREDENTIALS + "tls.crt",
        "ssl_keyfile": _CREDENTIALS + "tls.key",
        "socket_options": _SOCKET,
        "request_timeout_ms": 30000,  # of a machine with one real disk
        **more,
    }


@dataclass
class Line:
    """The record of one partition.

    It has a producer of its own: brokers answer a connection's requests in order, so that with a common producer
    a single waiting partition would block all others, and the gaps would mean nothing.

    Attributes:
        sent: the next sequence number.
        acked: acknowledged sequence numbers.
        failed: number of records that the producer abandoned.
        heard: time of the last acknowledgement, in seconds since the epoch; at first, the start of sending.
        gaps: reported times between two acknowledgements: from, to.
    """

    partition: TopicPartition
    producer: Any
    sent: int = 0
    failed: int = 0
    heard: float = 0.0
    acked: set[int] = field(default_factory=set)
    gaps: list[tuple[float, float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """In the notation of Kafka's own tools."""
        return f"{self.partition.topic}-{self.partition.partition}"

    def pending(self) -> int:
        """Number of records that wait for their acknowledgement."""
        return self.sent - len(self.acked) - self.failed

    def hear(self, now: float) -> None:
        """Record an acknowledgement, or the end of the run."""
        if now - self.heard > _GAP:
            self.gaps.append((round(self.heard, 3), round(now, 3)))
        self.heard = now


class Ledger:
    """Sends records and records the result of each."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        consumer = KafkaConsumer(**access())
        self.lines = [
            Line(TopicPartition(topic, index), _producer())
            for topic in settings.topics
            for index in sorted(consumer.partitions_for_topic(topic))
        ]
        consumer.close()

    def send(self, line: Line, size: int) -> None:
        """Send the next record of a partition."""
        number = line.sent
        line.sent += 1
        if not line.heard:
            line.heard = time.time()
        value = str(number).encode().ljust(size, b".")
        future = line.producer.send(line.partition.topic, value, partition=line.partition.partition)

        def acknowledged(_: Any) -> None:
            line.acked.add(number)
            line.hear(time.time())

        def failed(error: Exception) -> None:
            line.failed += 1
            tell(failed=line.name, number=number, error=repr(error)[:200])

        future.add_callback(acknowledged)
        future.add_errback(failed)

    def fill(self) -> None:
        """Write this much first, as fast as possible."""
        for topic in self._settings.topics:
            lines = [line for line in self.lines if line.partition.topic == topic]
            rounds = (self._settings.fill << 20) // (_FILLING * len(lines))
            for number in range(rounds):
                for line in lines:
                    self.send(line, _FILLING)
                if number % 10 == 0:  # otherwise requests take too long, and their records are sent twice
                    self._flush(120)
        self._flush(120)

    def run(self) -> None:
        """Send at a steady rate until stopped."""
        told = 0.0
        while not _STOP.exists():
            began = time.time()
            for line in self.lines:
                if line.pending() < _MOST_PENDING:
                    self.send(line, self._settings.size)
            if began - told >= 1:
                told = began
                silent = {x.name: round(began - x.heard, 1) for x in self.lines if began - x.heard > 2 * _GAP}
                tell(acked=self.acked(), sent=sum(x.sent for x in self.lines), silent=silent)
            time.sleep(max(0.0, 1 / self._settings.rounds - (time.time() - began)))  # noqa: TID251 - a rate

    def close(self) -> None:
        """Wait for the records in flight."""
        now = time.time()
        for line in self.lines:
            if line.pending():
                line.hear(now)
        try:
            self._flush(60)
        except KafkaError as error:
            tell(flush=repr(error))
        for line in self.lines:
            line.producer.close(timeout=5)

    def _flush(self, seconds: float) -> None:
        """Wait until every sent record has its answer."""
        end = time.monotonic() + seconds
        for line in self.lines:
            line.producer.flush(timeout=max(0.1, end - time.monotonic()))

    def acked(self) -> int:
        """Records acknowledged so far."""
        return sum(len(line.acked) for line in self.lines)


def _producer() -> Any:
    return KafkaProducer(
        # Not idempotent: a partition that lost its log with a user's consent must be written to again. A broker that waits for a lost
        # replica answers only at the request's timeout, so that is short.
        **access(acks="all", enable_idempotence=False, request_timeout_ms=3000, delivery_timeout_ms=900000),
        linger_ms=5,
        batch_size=1 << 17,  # one of the large records would fill a batch of the default size
        metadata_max_age_ms=10000,
    )


class Watch:
    """Prints ISRs, leaders and reassignments whenever they change."""

    def __init__(self, topics: tuple[str, ...]) -> None:
        self._topics = topics
        self._before: dict[str, Any] = {}
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        admin: Any = None
        while not _STOP.exists():
            try:
                admin = admin or KafkaAdminClient(**access(request_timeout_ms=5000))
                self._look(admin)
            except Exception as error:  # noqa: BLE001 - whatever a broken cluster brings, look again
                tell(unseen=repr(error)[:120])
                _close(admin)
                admin = None
            time.sleep(0.5)  # noqa: TID251 - how often to look

    def _look(self, admin: Any) -> None:
        now: dict[str, Any] = {}
        for topic in admin.describe_topics(list(self._topics)):
            for found in topic["partitions"]:
                name = f"{topic['name']}-{found['partition_index']}"
                now[name] = [found["leader_id"], sorted(found["isr_nodes"]), sorted(found["replica_nodes"])]
        changed = {name: value for name, value in now.items() if self._before.get(name) != value}
        moving = {
            f"{p.topic}-{p.partition}": [x["adding_replicas"], x["removing_replicas"]]
            for p, x in admin.list_partition_reassignments().items()
        }
        if changed or moving != self._before.get("moving", {}):
            tell(partitions=changed, moving=moving)
        self._before = {**now, "moving": moving}


def _close(admin: Any) -> None:
    try:
        if admin is not None:
            admin.close()
    except Exception as error:  # noqa: BLE001 - it is thrown away anyway
        tell(unseen=repr(error)[:120])


def read_back(line: Line) -> tuple[set[int], str]:
    """The sequence numbers in a partition, and the error that prevented reading, if any.

    A cluster that had a fault a minute ago may reject a client once, so an error is final only when it is repeated.
    """
    seen, trouble = _read(line.partition)
    for _ in range(_READINGS - 1):
        if trouble:
            tell(reading=line.name, trouble=trouble)
            seen, trouble = _read(line.partition)
    return seen, trouble


def _read(partition: TopicPartition) -> tuple[set[int], str]:
    seen: set[int] = set()
    try:
        consumer = KafkaConsumer(**access(consumer_timeout_ms=1000, fetch_max_wait_ms=200))
    except KafkaError as error:
        return seen, repr(error)[:200]
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        last = time.monotonic()
        while consumer.position(partition) < end:
            batches = consumer.poll(timeout_ms=1000)
            for records in batches.values():
                seen.update(int(record.value.rstrip(b".")) for record in records)
            if batches:
                last = time.monotonic()
            elif time.monotonic() - last > 60:
                return seen, f"stuck at {consumer.position(partition)} of {end}"
    except KafkaError as error:
        return seen, repr(error)[:200]
    finally:
        consumer.close()
    return seen, ""


def verdict(ledger: Ledger) -> dict[str, Any]:
    """The result by partition: what was acknowledged, compared with what Kafka has."""
    lines = {}
    for line in ledger.lines:
        seen, trouble = read_back(line)
        lost = sorted(line.acked - seen)
        lines[line.name] = {
            "sent": line.sent,
            "acked": len(line.acked),
            "read": len(seen),
            "lost": len(lost),
            "lostNumbers": lost[:10],
            "unreadable": trouble,
            "gaps": line.gaps,
        }
    return lines


def produce() -> None:
    """Run the load to its end."""
    settings = Settings()
    ledger = Ledger(settings)
    ledger.fill()
    tell(filled=ledger.acked())
    Watch(settings.topics)
    ledger.run()
    ledger.close()
    result = verdict(ledger)
    if not settings.keep:
        _drop(settings.topics)
    tell(result=result)


def _drop(topics: tuple[str, ...]) -> None:
    """Delete the topics: data that was read back would only slow down the following scenarios."""
    admin: Any = None
    try:
        admin = KafkaAdminClient(**access())
        admin.delete_topics(list(topics))
    except KafkaError as error:
        tell(undropped=repr(error)[:200])
    finally:
        _close(admin)


def _replicas() -> Iterator[dict[str, Any]]:
    admin = KafkaAdminClient(**access())
    brokers = [broker["broker_id"] for broker in admin.describe_cluster()["brokers"]]
    for broker in brokers:
        try:
            answers = admin.describe_log_dirs(brokers=[broker])
        except KafkaError as error:  # fenced, or it hangs
            tell(unanswered=broker, error=repr(error)[:120])
            continue
        for found in answers:
            for log_dir in found["log_dirs"]:
                for topic in log_dir["topics"]:
                    for partition in topic["partitions"]:
                        yield {
                            "topic": topic["name"],
                            "partition": partition["partition_index"],
                            "broker": broker,
                            "dir": log_dir["log_dir"],
                            "bytes": partition["partition_size"],
                            "future": partition["is_future_key"],
                        }


def placement() -> None:
    """Location of each replica, from the brokers."""
    tell(placement=list(_replicas()))


def configs() -> None:
    """Settings of each topic itself."""
    admin = KafkaAdminClient(**access())
    topics = [name for name in admin.list_topics() if not name.startswith("__")]
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    found = {
        name: {key: c["value"] for key, c in values.items() if c["config_source"] == "DYNAMIC_TOPIC_CONFIG"}
        for name, values in answer.get("topic", {}).items()
    }
    tell(configs=found)


def settings() -> None:
    """Dynamic settings of each broker itself."""
    admin = KafkaAdminClient(**access())
    brokers = [str(broker["broker_id"]) for broker in admin.describe_cluster()["brokers"]]
    answer = admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, name) for name in brokers])
    found = {
        name: {key: c["value"] for key, c in values.items() if c["config_source"] == "DYNAMIC_BROKER_CONFIG"}
        for name, values in answer.get("broker", {}).items()
    }
    tell(settings=found)


def reassign() -> None:
    """Reassign a partition: topic, partition, brokers separated by commas."""
    partition = TopicPartition(sys.argv[2], int(sys.argv[3]))
    replicas = [int(broker) for broker in sys.argv[4].split(",")]
    KafkaAdminClient(**access()).alter_partition_reassignments({partition: replicas})


def drop() -> None:
    """Delete the topic that the next argument names."""
    KafkaAdminClient(**access()).delete_topics([sys.argv[2]])


_MODES: dict[str, Callable[[], None]] = {
    "produce": produce,
    "placement": placement,
    "configs": configs,
    "settings": settings,
    "reassign": reassign,
    "drop": drop,
}

if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    _MODES[sys.argv[1]]()
