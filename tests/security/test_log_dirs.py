"""No value in a KafkaCluster's configuration takes a broker's log dirs from it. On a real broker."""

from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.config.settings_check import problems
from spindle.model.allowed import Allowed, forbidden_settings
from tests.kafka.cluster import Cluster
from tests.kafka.node import wait_for

pytestmark = pytest.mark.kafka

# The reporter is allowed, and together with it Kafka accepts keys that it does not know. The last line of the configuration is then a user's.
CONFIG = {"metric.reporters": "org.apache.kafka.common.metrics.JmxReporter", "zz": " "}


def test_a_space_at_the_end_of_the_configuration_does_not_swallow_the_log_dirs(
    make_cluster: Callable[..., Cluster],
) -> None:
    assert not problems(CONFIG, "4.3.1")
    assert not list(forbidden_settings(CONFIG, Allowed()))
    made = make_cluster(brokers=1, disks=1, config=CONFIG)
    made.up()
    made.make_topic("orders", [[0]])
    wait_for("its folder", (Path(made.brokers[0].log_dir("disk0")) / "orders-0").is_dir)
