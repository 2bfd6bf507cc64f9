"""Sends records to Kafka. Blocks, so it runs in a thread."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kafka.errors import KafkaTimeoutError
from kafka.net.compat import KafkaNetClient
from kafka.producer import KafkaProducer

from spindle.api import names
from spindle_agent.broker.connection import Access, BrokerError

_TIMEOUT: Final = 20.0  # seconds for each step: connect, find the topic, get the records acknowledged
_LARGEST: Final = 1_048_576  # bytes of a request; a record is slightly smaller


def send(access: Access, broker: int, records: Sequence[tuple[int, bytes]]) -> int:
    """Send records, oldest first, and wait for their acknowledgement (acks=all). Opens a connection and closes it afterwards.

    A sample comes every few minutes; a permanent connection would have an outdated certificate and outdated metadata.

    Args:
        access: address and credentials of any broker of the cluster.
        broker: id of the sampled broker, the key of the records.
        records: (wall clock in milliseconds, value).

    Returns:
        Number of acknowledged records, counted from the first.

    Raises:
        BrokerError: no record was acknowledged.
    """
    done = 0
    try:
        with _producer(access) as producer:
            key = str(broker).encode()
            futures = [
                producer.send(names.TOPIC_SAMPLES, value=value, key=key, timestamp_ms=at_ms)
                for at_ms, value in records
            ]
            for future in futures:
                future.get(timeout=_TIMEOUT)
                done += 1
    except Exception as error:  # any error of the library: the agent must continue with its disks
        if done == 0:
            raise BrokerError(f"{names.TOPIC_SAMPLES}: {str(error) or type(error).__name__}") from error
    return done


@contextlib.contextmanager
def _producer(access: Access) -> Iterator[Any]:
    milliseconds = int(1000 * _TIMEOUT)
    producer = KafkaProducer(
        bootstrap_servers=[f"{access.host}:{access.port}"],
        client_id=names.PRINCIPAL_AGENT,
        security_protocol="SSL",
        ssl_context=access.context(),
        acks="all",
        enable_idempotence=True,
        compression_type=None,  # the records are compressed
        max_request_size=_LARGEST,
        batch_size=_LARGEST,
        bootstrap_timeout_ms=milliseconds,
        max_block_ms=milliseconds,
        delivery_timeout_ms=milliseconds,
        request_timeout_ms=milliseconds // 2,
        metrics_enabled=False,
        kafka_client=_bounded_client,
    )
    # Only the operator creates the topic. The producer accepts this option, but does not pass it on (kafka-python 3.0.12).
    producer._metadata.config["allow_auto_create_topics"] = False  # noqa: SLF001 - as above
    try:
        yield producer
    finally:
        producer.close(timeout=_TIMEOUT / 4)


def _bounded_client(**config: Any) -> Any:
    """The producer's client, with a limit on its first connection.

    The library's TLS handshake has no timeout: a broker that accepts connections and says nothing (a false one, or a hung one) would hold a sender's
    thread forever, and the agent has few of them for all brokers of its node.
    """
    client: Any = KafkaNetClient(**config)
    manager, net = client._manager, client._net  # noqa: SLF001 - the library has no public way

    def bootstrap(timeout_ms: float, *, refresh: bool = True) -> None:
        future = net.call_soon_with_future(manager.bootstrap_async, timeout_ms, refresh)
        net.poll(timeout_ms=timeout_ms, future=future)
        error = future.exception if future.is_done else KafkaTimeoutError("no response in time")
        if error is not None:
            client.close()
            raise error

    manager.bootstrap = bootstrap
    return client
