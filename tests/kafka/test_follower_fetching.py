"""Where a consumer's bytes come from, without and with ``racks.followerFetching``: Kafka's own consumer, and each broker's own count."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster.build import ensure_kafka_libs
from spindle.api.policy import RACK_AWARE
from spindle_operator import ca
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

pytestmark = pytest.mark.slow

TOPIC = "read"
RECORDS, SIZE = 3000, 1000  # per partition, bytes
HOME = 1  # the consumer's zone is that of this broker


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    """Three brokers in three racks; each leads one partition and follows two."""
    made = make_cluster(brokers=3, disks=1)
    made.up()
    made.make_topic(TOPIC, [[0, 1, 2], [1, 2, 0], [2, 0, 1]])
    for partition in range(3):
        made.produce(TOPIC, partition, [bytes(SIZE)] * RECORDS)
    return made


def bytes_out(cluster: Cluster) -> dict[int, float]:
    """What each broker has sent to consumers since its start; replication has a counter of its own."""
    found = {
        node.node_id: node.metric("kafka_server_brokertopicmetrics_bytesout_total")
        for node in cluster.brokers
    }
    return {broker: value or 0.0 for broker, value in found.items()}


def consume(cluster: Cluster, folder: Path, rack: str | None) -> dict[int, float]:
    """Read the topic from its beginning with Kafka's console consumer; what each broker sent for that."""
    before = bytes_out(cluster)
    data = {
        name: (cluster.operator / name).read_bytes()
        for name in ("ca.crt", "tls.crt", "tls.key", "keystore.pem")
    }
    properties = ca.client_properties(data, ",".join(cluster.bootstrap()))
    if rack is not None:
        properties += f"client.rack={rack}\n".encode()
    config = folder / f"{rack}.properties"
    config.write_bytes(properties)
    done = subprocess.run(
        [
            *("java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *(
                "-cp",
                f"{ensure_kafka_libs(cluster.inputs.version)}/*",
                "org.apache.kafka.tools.consumer.ConsoleConsumer",
            ),
            *("--bootstrap-server", ",".join(cluster.bootstrap()), "--consumer.config", str(config)),
            *(
                "--topic",
                TOPIC,
                "--from-beginning",
                "--max-messages",
                str(3 * RECORDS),
                "--timeout-ms",
                "30000",
            ),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"Processed a total of {3 * RECORDS} messages" in done.stderr, done.stderr
    after = bytes_out(cluster)
    return {broker: after[broker] - before[broker] for broker in after}


def across(sent: dict[int, float]) -> float:
    """The share of bytes that came from other zones."""
    return sum(value for broker, value in sent.items() if broker != HOME) / sum(sent.values())


def test_a_consumer_with_its_rack_reads_only_in_its_zone(cluster: Cluster, tmp_path: Path) -> None:
    zone = cluster.brokers[HOME].rack
    leaders = consume(cluster, tmp_path, zone)  # before: its rack has no effect
    for node in cluster.brokers:
        node.follower_fetching = True
        node.stop()
        node.up()
        node.wait_ready()
        wait_for(
            "all in sync",
            lambda: all(len(isr) == 3 for isr in cluster.isr(TOPIC).values()) and cluster.isr(TOPIC),
        )
    cluster.forget_admin()
    properties = (Path(cluster.brokers[HOME].layout.config_dir) / "server.properties").read_text()
    assert RACK_AWARE in properties
    near = consume(cluster, tmp_path, zone)
    without = consume(cluster, tmp_path, None)
    print(f"bytes by broker: leaders only {leaders}, in its zone {near}, without client.rack {without}")

    whole = 3 * RECORDS * SIZE
    for sent in (leaders, near, without):
        assert whole <= sum(sent.values()) < 2 * whole
    assert 0.6 < across(leaders) < 0.72
    assert across(near) < 0.01
    assert across(without) > 0.6
