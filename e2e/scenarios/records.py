"""Numbered records: written once, and counted again later."""

from typing import Final

from e2e.scenarios.lab import CLUSTER, Lab, run_client

RECORDS: Final = 3000
CONNECT: Final = """
import os
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
D = "/etc/spindle/credentials/"
S = dict(bootstrap_servers=os.environ["BOOTSTRAP"], security_protocol="SSL", ssl_cafile=D + "ca.crt",
         ssl_certfile=D + "tls.crt", ssl_keyfile=D + "tls.key")
"""
_WRITE: Final = """
p = KafkaProducer(**S, acks="all")
sent = [p.send("{topic}", b"%d" % n, partition=n % {partitions}) for n in range({records})]
for each in sent:
    each.get(60)
p.close(10)
print("RESULT", len(sent))
"""
_READ: Final = """
c = KafkaConsumer(**S, consumer_timeout_ms=15000)
c.assign([TopicPartition("{topic}", n) for n in range({partitions})])
c.seek_to_beginning()
found = set()
for record in c:
    found.add(int(record.value))
    if len(found) == {records}:
        break
print("RESULT", len(found & set(range({records}))))
"""


def write(lab: Lab, image: str, topic: str, partitions: int = 3, *, single: bool = False) -> None:
    """Create a topic and write to it with acks=all; ``single`` for one replica of each partition."""
    where = ("-n", lab.namespace, "-c", CLUSTER)
    one = ("--replication-factor", "1", "--config", "min.insync.replicas=1") if single else ()
    lab.spindle("topic", "create", topic, *where, "--partitions", str(partitions), *one)
    assert _run(lab, image, "writer", _WRITE, topic, partitions) == RECORDS


def read(lab: Lab, image: str, topic: str, partitions: int = 3, records: int = RECORDS) -> int:
    """Number of these records that exist."""
    return _run(lab, image, "reader", _READ, topic, partitions, records)


def _run(
    lab: Lab, image: str, name: str, program: str, topic: str, partitions: int, records: int = RECORDS
) -> int:
    text = CONNECT + program.format(topic=topic, partitions=partitions, records=records)
    return int(run_client(lab, f"{name}-{topic}", image, text).split("RESULT ", 1)[1].split()[0])
