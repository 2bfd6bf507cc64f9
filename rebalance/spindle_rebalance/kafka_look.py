"""Reads the state of a Kafka cluster: brokers with their log dirs, partitions, running reassignments. Changes nothing.

Each request goes to a chosen broker, which the library's public calls do not support: requests that every broker can answer go to one
that has just reported its log dirs. A call can block forever if a broker accepts connections and then sends nothing (the library's TLS
handshake has no time-out), so each runs in a thread that is waited for only up to the time-out. A broker that does not answer is
unknown ("unknown is not absent", docs/safety.md).
"""

import copy
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, for_code
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeLogDirsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)

from spindle.api import names
from spindle.model.answers import read_log_dir, read_partition
from spindle.model.view import Broker, KafkaView, LogDir, Partition
from spindle_rebalance.errors import CREDENTIALS, KAFKA, RunError

log = logging.getLogger(__name__)

_TRIES: Final = 3
_TELLS_FENCED: Final = 2  # first version of DescribeCluster that reports fenced brokers
_PAGE: Final = 2000  # partitions; the brokers' limit (max.request.partition.size.limit)
_FILES: Final = {"ssl_cafile": "ca.crt", "ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Access:
    """Address and credentials of a cluster.

    Attributes:
        bootstrap: ``host:port`` of a listener with mutual TLS.
        tls: folder with ``ca.crt``, ``tls.crt`` and ``tls.key`` in PEM.
    """

    bootstrap: str
    tls: Path

    def settings(self) -> dict[str, Any]:
        """Settings for every kafka-python client.

        Raises:
            RunError: a file cannot be read.
        """
        paths = {setting: self.tls / name for setting, name in _FILES.items()}
        for path in paths.values():
            try:
                path.read_bytes()
            except OSError as error:
                raise RunError(
                    CREDENTIALS, f"the client certificate for Kafka cannot be read: {error}"
                ) from error
        files = {setting: str(path) for setting, path in paths.items()}
        return {"bootstrap_servers": [self.bootstrap], "security_protocol": "SSL", **files}


def look(access: Access, timeout: float) -> KafkaView:
    """Read everything once.

    Args:
        access: address and credentials.
        timeout: seconds for one response.

    Raises:
        RunError: no broker answers, or a necessary request is refused.
    """
    admin = _try("connecting", timeout, [lambda: _connect(access, timeout)] * _TRIES)
    try:
        return _Questions(admin, timeout).view()
    finally:
        threading.Thread(
            target=admin.close, daemon=True
        ).start()  # closing may wait for a broker that does not answer


def _connect(access: Access, timeout: float) -> Any:
    return KafkaAdminClient(
        **access.settings(),
        client_id=names.PRINCIPAL_REBALANCE,
        request_timeout_ms=int(timeout * 1000),
        bootstrap_timeout_ms=int(timeout * 1000),
    )


Reassignments = Mapping[tuple[str, int], tuple[tuple[int, ...], tuple[int, ...]]]


class _Questions:
    """Requests through a connected admin client."""

    def __init__(self, admin: Any, timeout: float) -> None:
        self._manager = admin._manager  # noqa: SLF001 - see the module's docstring
        self._timeout = timeout
        self._heard: list[int] = []

    def view(self) -> KafkaView:
        """Everything."""
        dirs = self._log_dirs([int(broker.node_id) for broker in self._manager.cluster.brokers()])
        self._heard = sorted(dirs)
        cluster = self._ask("DescribeCluster", DescribeClusterRequest(include_fenced_brokers=True))
        _expect(cluster, "DescribeCluster")
        moving = self._reassignments()
        return KafkaView(
            cluster_id=cluster.cluster_id,
            brokers={
                int(b.broker_id): Broker(
                    id=int(b.broker_id),
                    rack=b.rack,
                    fenced=b.is_fenced if cluster.API_VERSION >= _TELLS_FENCED else None,
                    log_dirs=dirs.get(int(b.broker_id)),
                )
                for b in cluster.brokers
            },
            partitions=self._partitions(moving),
        )

    def _send(self, request: Any, node: int) -> Callable[[], Any]:
        return lambda: self._manager.run(self._manager.send, copy.copy(request), node)

    def _ask(self, what: str, request: Any) -> Any:
        """Send a request that every broker can answer to one broker after the other until one answers."""
        return _try(what, self._timeout, [self._send(request, node) for node in self._heard[:_TRIES]])

    def _log_dirs(self, brokers: Iterable[int]) -> dict[int, tuple[LogDir, ...]]:
        """Log dirs of each broker that answers in time; all are asked in parallel."""
        request = DescribeLogDirsRequest(topics=None)
        waiting = {broker: _begin(self._send(request, broker)) for broker in brokers}
        found: dict[int, tuple[LogDir, ...]] = {}
        refused = ""
        ends = time.monotonic() + self._timeout
        for broker, answer in waiting.items():
            try:
                told = answer(max(0.01, ends - time.monotonic()))
                _expect(told, f"broker {broker}, DescribeLogDirs")
                found[broker] = tuple(read_log_dir(result) for result in told.results)
            except (KafkaError, OSError, TimeoutError, RunError) as error:
                refused = _sentence(error)
                log.warning("broker %d did not report its log dirs: %s", broker, refused)
        if not found:
            raise RunError(KAFKA, f"no broker reported its log dirs: {refused or 'no broker is known'}")
        return found

    def _reassignments(self) -> Reassignments:
        what = "ListPartitionReassignments"
        request = ListPartitionReassignmentsRequest(timeout_ms=int(self._timeout * 1000), topics=None)
        answer = self._ask(what, request)
        _expect(answer, what)
        return {
            (topic.name, p.partition_index): (tuple(p.adding_replicas), tuple(p.removing_replicas))
            for topic in answer.topics
            for p in topic.partitions
        }

    def _partitions(self, moving: Reassignments) -> tuple[Partition, ...]:
        """All partitions of all topics, page by page."""
        request = DescribeTopicPartitionsRequest
        found: list[Partition] = []
        cursor = None
        while True:
            what = "DescribeTopicPartitions"
            page = self._ask(what, request(topics=[], response_partition_limit=_PAGE, cursor=cursor))
            for topic in page.topics:
                _expect(topic, f"{what} {topic.name}")
                found += [read_partition(topic.name, p, moving) for p in topic.partitions]
            if page.next_cursor is None:
                return tuple(found)
            cursor = request.Cursor(
                topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
            )


def _expect(answer: Any, what: str) -> None:
    """Raise on an error in a response (missing rights, for example), which must not look like an empty response."""
    if code := getattr(answer, "error_code", 0):
        said = getattr(answer, "error_message", None) or "no details"
        raise RunError(KAFKA, f"{what}: Kafka refused: {for_code(code).__name__}: {said}")


# Calls with a time-out


def _begin(call: Callable[[], _T]) -> Callable[[float], _T]:
    """Start a call in its own thread. The returned function waits for it for the given seconds, and raises the call's error."""
    box: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            box.put((None, error))

    threading.Thread(target=run, daemon=True).start()

    def wait(seconds: float) -> _T:
        try:
            value, error = box.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no response within {seconds:g} s") from None
        if error is not None:
            raise error
        return value  # type: ignore[return-value]  # without an error it is the call's result

    return wait


def _try(what: str, timeout: float, calls: Iterable[Callable[[], _T]]) -> _T:
    """Result of the first of these calls that succeeds in time."""
    last = "there is no broker to ask"
    for call in calls:
        try:
            return _begin(call)(timeout)
        except (KafkaError, OSError, TimeoutError) as error:
            last = _sentence(error)
            log.warning("%s: %s", what, last)
    raise RunError(KAFKA, f"Kafka did not answer ({what}): {last}")


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
