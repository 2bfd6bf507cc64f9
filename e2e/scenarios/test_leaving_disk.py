"""No record is lost with a disk that is removed from its broker, even if topics are created on that broker until it stops (docs/safety.md, rules 5 and 15)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from e2e.scenarios.disk_slot import assert_spread, choose, conclude
from e2e.scenarios.lab import Lab, client_pod
from e2e.scenarios.load import Topic, load
from e2e.scenarios.moving import request_drain, until_drained, use_again
from e2e.scenarios.stand import THREE, Stand
from e2e.scenarios.timeline import Timeline

pytestmark = pytest.mark.e2e

_POD: Final = "maker"
# Creates topics with one replica on one broker between two signals, writes to each with acks=all, and reads the acknowledged records back.
_MAKER: Final = """
import json, os, time
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
D = "/etc/spindle/credentials/"
S = dict(bootstrap_servers=os.environ["BOOTSTRAP"], security_protocol="SSL", ssl_cafile=D + "ca.crt",
         ssl_certfile=D + "tls.crt", ssl_keyfile=D + "tls.key")
broker, acked, made, number = int(os.environ["BROKER"]), {}, [], 0
admin, producer = KafkaAdminClient(**S), KafkaProducer(**S, acks="all", max_block_ms=3000, delivery_timeout_ms=6000, request_timeout_ms=3000)
def until(file):
    print(json.dumps({"until": file}), flush=True)
    while not os.path.exists(file):
        time.sleep(0.05)
admin.list_topics()
until("/tmp/go")
while not os.path.exists("/tmp/stop"):
    topic, number = "made%d" % number, number + 1
    try:
        admin.create_topics([NewTopic(topic, replica_assignments={0: [broker]})])
        made.append(topic)
        for n in range(3):
            producer.send(topic, b"%d" % n, partition=0).get(8)
            acked[topic] = n + 1
    except Exception as error:
        print(json.dumps({"topic": topic, "error": repr(error)}), flush=True)
        time.sleep(1)
    print(json.dumps({"made": number, "acked": sum(acked.values())}), flush=True)
    time.sleep(1)
producer.close(5)
reader, lost = KafkaConsumer(**S, consumer_timeout_ms=10000), {}
for topic, count in acked.items():
    for _ in range(12):
        reader.assign([TopicPartition(topic, 0)])
        reader.seek_to_beginning()
        found = set()
        for record in reader:
            found.add(int(record.value))
            if len(found) >= count:
                break
        if len(found) >= count:
            break
    else:
        lost[topic] = count - len(found)
admin.delete_topics(made)
print(json.dumps({"result": {"topics": len(acked), "acked": sum(acked.values()), "lost": lost}}), flush=True)
"""


@contextmanager
def _maker(lab: Lab, image: str, broker: int) -> Iterator[None]:
    lab.apply(client_pod(lab, _POD, image, _MAKER, {"BROKER": str(broker)}))
    try:
        lab.until("it is connected", lambda: '"until"' in _said(lab), 120)
        yield
    finally:
        lab.kubectl("delete", "pod", _POD, "--wait=false", "--ignore-not-found")


def _said(lab: Lab) -> str:
    return lab.kubectl("logs", _POD, "--tail=5").strip()


def test_a_disk_leaves_while_topics_are_made_on_its_broker_and_all_are_kept(
    stand: Stand, spindle_image: str
) -> None:
    lab = stand.get(THREE)
    with Timeline(lab) as timeline, load(lab, spindle_image, Topic("leaving", 12), fill=8) as running:
        slot = choose(lab, running)
        with _maker(lab, spindle_image, slot.broker):
            lab.kubectl("exec", _POD, "--", "touch", "/tmp/go")
            timeline.mark("topics are created on its broker")
            lab.until("the first topic is created", lambda: '"made"' in _said(lab), 60)
            began = request_drain(timeline, slot)
            until_drained(timeline, began, slot)
            timeline.mark("it was removed from its broker, where topics are still being created")
            lab.until_ready(600)
            lab.kubectl("exec", _POD, "--", "touch", "/tmp/stop")
            lab.until("all is read back", lambda: '"result"' in _said(lab), 600)
            result = json.loads(_said(lab).splitlines()[-1])["result"]
        print(f"created between the request and the end: {result}")
        assert result["acked"] > 0
        assert not result["lost"]
        use_again(timeline, slot)
        assert_spread(running)
        conclude(running, timeline, began)
