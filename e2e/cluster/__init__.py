"""The testbed: a real multi-node Kubernetes on one machine, without Docker.

Scenarios ask :func:`target` for the cluster to run on. Nothing is imported before it is needed: small programs of
this package start with every node.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from e2e.cluster.target import ForeignCluster
    from e2e.cluster.testbed import Testbed


def target() -> "Testbed | ForeignCluster":
    """The cluster that KUBECONFIG names, else the testbed."""
    from e2e.cluster.target import ForeignCluster, foreign_kubeconfig  # noqa: PLC0415
    from e2e.cluster.testbed import Testbed  # noqa: PLC0415

    kubeconfig = foreign_kubeconfig()
    return ForeignCluster(kubeconfig) if kubeconfig else Testbed()
