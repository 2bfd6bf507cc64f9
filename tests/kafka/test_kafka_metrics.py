"""What brokers and controllers export to Prometheus, under the names that dashboards for Kafka commonly use."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from spindle.manifests.config_maps import TOPICS_KEY, topics_map
from tests.kafka.cluster import Cluster
from tests.kafka.node import Node
from tests.kafka.projected import project
from tools.monitoring.metrics_page import KAFKA_BROKER, KAFKA_DISK, KAFKA_TOPIC

# What the usual dashboards for brokers and KRaft ask for.
OF_BROKER = (
    "kafka_server_brokertopicmetrics_bytesin_total",
    "kafka_server_brokertopicmetrics_bytesout_total",
    "kafka_server_brokertopicmetrics_failedfetchrequests_total",
    "kafka_server_brokertopicmetrics_failedproducerequests_total",
    "kafka_server_brokertopicmetrics_messagesin_total",
    "kafka_server_brokertopicmetrics_totalfetchrequests_total",
    "kafka_server_brokertopicmetrics_totalproducerequests_total",
    "kafka_server_replicamanager_isrexpands_total",
    "kafka_server_replicamanager_isrshrinks_total",
    "kafka_server_replicamanager_atminisrpartitioncount",
    "kafka_server_replicamanager_leadercount",
    "kafka_server_replicamanager_offlinereplicacount",
    "kafka_server_replicamanager_partitioncount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_server_replicafetchermanager_maxlag",
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent",
    "kafka_network_socketserver_networkprocessoravgidle_percent",
    "kafka_network_requestmetrics_requests_total",
    "kafka_network_requestmetrics_totaltimems",
    "kafka_log_logmanager_offlinelogdirectorycount",
)
OF_CONTROLLER = (
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "kafka_server_raft_metrics_current_leader",
    "kafka_server_raft_metrics_high_watermark",
)


@pytest.fixture(scope="module")
def cluster(make_cluster: Callable[..., Cluster]) -> Cluster:
    made = make_cluster(brokers=1, disks=2)
    made.up()
    made.make_topic("kept", [[0]])
    made.produce("kept", 0, [b"%d" % index for index in range(100)])
    return made


def families(node: Node) -> dict[str, Metric]:
    """Metrics of Kafka by the names of their families; a counter's family has no ``_total``."""
    found = text_string_to_metric_families(node.metrics())
    return {family.name: family for family in found if family.name.startswith("kafka_")}


def series(node: Node) -> set[str]:
    return {sample.name for family in families(node).values() for sample in family.samples}


def test_the_names_of_common_dashboards_are_exported(cluster: Cluster) -> None:
    broker, controller = cluster.brokers[0], cluster.controller
    assert set(OF_BROKER) - series(broker) == set()
    assert set(OF_CONTROLLER) - series(controller) == set()
    assert broker.metric("kafka_server_brokertopicmetrics_messagesin_total") == 100
    assert broker.metric("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert controller.metric("kafka_controller_kafkacontroller_activecontrollercount") == 1


def test_each_metric_has_one_meaning_and_a_type(cluster: Cluster) -> None:
    for node in (cluster.brokers[0], cluster.controller):
        found = families(node)
        assert found
        for name, family in found.items():
            assert name == name.lower()
            assert family.type in ("counter", "gauge"), name
            for sample in family.samples:
                assert "stat" not in sample.labels
                assert sample.name.endswith("_total") == (family.type == "counter"), sample.name
        times = found["kafka_network_requestmetrics_totaltimems"] if node is cluster.brokers[0] else None
        if times is not None:
            shares = {each.labels["quantile"] for each in times.samples}
            assert shares == {"0.50", "0.95", "0.99", "0.999"}
            assert found["kafka_network_requestmetrics_totaltimems_count"].type == "counter"


def test_the_number_of_series_is_as_the_page_says(cluster: Cluster) -> None:
    """Few enough for the readiness probe, which reads all of them every few seconds."""
    text = cluster.brokers[0].metrics()
    assert 'topic="kept"' not in text
    found = [line for line in text.splitlines() if line and not line.startswith("#")]
    of_disks = [line for line in found if "/disks/disk" in line]
    assert len(of_disks) == 2 * KAFKA_DISK
    assert 0.9 * KAFKA_BROKER < len(found) - len(of_disks) <= KAFKA_BROKER


def projected(node: Node, *topics: str) -> None:
    """What the kubelet does with the ConfigMap."""
    data = topics_map({"metadata": {"name": "demo", "namespace": "test", "uid": "uid"}}, topics)["data"]
    project(Path(node.layout.topics_dir), TOPICS_KEY, data[TOPICS_KEY])


def of_topics(node: Node) -> dict[str, dict[str, float]]:
    """Topic → metric → value, without those of the broker as a whole."""
    found: dict[str, dict[str, float]] = {}
    for family in families(node).values():
        for sample in family.samples:
            if topic := sample.labels.get("topic"):
                found.setdefault(topic, {})[sample.name.removeprefix("kafka_server_brokertopicmetrics_")] = (
                    sample.value
                )
    return found


def test_topics_that_are_asked_for_are_exported_by_running_brokers(cluster: Cluster) -> None:
    """The readiness probe writes the exporter's configuration, and the exporter reads it again; Kafka is not restarted."""
    broker = cluster.brokers[0]
    assert broker.kafka is not None
    process = broker.kafka.pid
    cluster.make_topic("Orders.eu_1-a", [[0], [0]])
    cluster.make_topic("other", [[0]])
    for topic in ("Orders.eu_1-a", "other"):
        cluster.produce(topic, 0, [b"%d" % index for index in range(7)])
    assert of_topics(broker) == {}
    before = len([line for line in broker.metrics().splitlines() if line and line[0] != "#"])

    projected(broker, "Orders.eu_1-a", "not-there")
    assert broker.ready(SPINDLE_READY_EVERY="0")[0]
    found = of_topics(broker)
    assert found.keys() == {"Orders.eu_1-a"}
    # Kafka makes a meter of a topic when it first counts something.
    written = {"bytesin_total", "messagesin_total", "totalproducerequests_total"}
    assert found["Orders.eu_1-a"].keys() == written
    assert found["Orders.eu_1-a"]["messagesin_total"] == 7
    assert found["Orders.eu_1-a"]["bytesin_total"] > 0
    after = [line for line in broker.metrics().splitlines() if line and line[0] != "#"]
    assert len(after) - before == len(written) <= KAFKA_TOPIC
    assert broker.metric("kafka_server_brokertopicmetrics_messagesin_total") == 114  # the sum stays

    projected(broker, "Orders.eu_1-a", "other")
    assert broker.ready(SPINDLE_READY_EVERY="0")[0]
    assert of_topics(broker).keys() == {"Orders.eu_1-a", "other"}
    config = Path(broker.environment()["SPINDLE_JMX_CONFIG"])
    wrote = config.stat().st_mtime_ns
    assert broker.ready(SPINDLE_READY_EVERY="0")[0]
    assert config.stat().st_mtime_ns == wrote  # only when the list changed

    projected(broker)
    assert broker.ready(SPINDLE_READY_EVERY="0")[0]
    assert of_topics(broker) == {}
    assert broker.metric(r'spindle_start\{kind="Empty"\}') == 1
    assert broker.kafka.pid == process
    assert re.search("^jmx_config_reload_failure_total 0.0$", broker.metrics(), re.MULTILINE)


def test_topics_are_exported_from_the_start(cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    projected(broker, "kept")
    broker.stop()
    broker.start()
    broker.wait_ready()
    cluster.produce("kept", 0, [b"again"])
    assert of_topics(broker)["kept"]["messagesin_total"] == 1
    assert broker.metric(r'spindle_start\{kind="Clean"\}') == 1
