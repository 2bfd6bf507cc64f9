"""What brokers and controllers export to Prometheus, under the names that dashboards for Kafka commonly use."""

from collections.abc import Callable

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.kafka.cluster import Cluster
from tests.kafka.node import Node
from tools.monitoring.metrics_page import KAFKA_BROKER, KAFKA_DISK

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
