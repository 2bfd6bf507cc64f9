"""Attacks, tried: what a tenant, a node, a job or a pod that turned bad would do, and that it gets nowhere.

Each test says by its marker what it needs, and shares that with the folder of the same name (tests/kube, tests/kafka).
"""

from tests.kafka.conftest import make_cluster
from tests.kube.conftest import act, api_client, api_server, cluster, kube, namespace, resources, shared

__all__ = [
    "act",
    "api_client",
    "api_server",
    "cluster",
    "kube",
    "make_cluster",
    "namespace",
    "resources",
    "shared",
]
