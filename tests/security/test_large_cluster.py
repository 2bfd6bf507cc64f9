"""A KafkaCluster that is too large to be looked after beside others is refused when it is written."""

import json

import pytest

from e2e.cluster.apiserver import ApiServer, KubectlError
from spindle.api.cluster import MAX_CLUSTER_DISKS
from tests.kube.samples import cluster

pytestmark = pytest.mark.kube

MOST_OF_POOL = 1000  # brokers


def of_size(replicas: int, disks: int) -> str:
    made = cluster()
    (pool,) = made["spec"]["brokerPools"]
    sizes = [min(replicas - begun, MOST_OF_POOL) for begun in range(0, replicas, MOST_OF_POOL)]
    made["spec"]["brokerPools"] = [
        {**pool, "name": f"p{index}", "replicas": size, "disks": {**pool["disks"], "count": disks}}
        for index, size in enumerate(sizes)
    ]
    return json.dumps(made)


def test_more_disks_than_a_cluster_may_have_are_refused(api_server: ApiServer, namespace: str) -> None:
    with pytest.raises(KubectlError, match=f"together may have {MAX_CLUSTER_DISKS} disks"):
        api_server.kubectl("-n", namespace, "create", "-f", "-", stdin=of_size(8999, 64))
