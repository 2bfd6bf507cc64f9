"""Settings that users may set although Spindle owns others with the same prefix: real nodes start with them and are reached."""

from collections.abc import Callable

from kafka.protocol.admin import DescribeConfigsRequest

from spindle.model.free_settings import PROTOCOLS, SUITES
from tests.kafka.cluster import Cluster

# All suites, because Java refuses a list with one that it does not know, and the operator's side has to have one of them in common.
TLS = {"ssl.cipher.suites": ",".join(SUITES), "ssl.enabled.protocols": PROTOCOLS[0]}
QUORUM = {"controller.quorum.election.timeout.ms": "3000", "controller.quorum.fetch.timeout.ms": "5000"}


def test_a_cluster_runs_with_them_and_is_reached(make_cluster: Callable[..., Cluster]) -> None:
    cluster = make_cluster(brokers=1, disks=1, config=TLS | QUORUM)
    cluster.up()
    cluster.make_topic("t", [[0]])
    cluster.produce("t", 0, [b"record"])
    link = cluster.link()
    try:
        resource = DescribeConfigsRequest.DescribeConfigsResource(4, "0", None)
        (result,) = link.send(DescribeConfigsRequest(resources=[resource]), 0).results
    finally:
        link.close()
    found = {config.name: config.value for config in result.configs}
    assert {key: found[key] for key in TLS | QUORUM} == TLS | QUORUM
