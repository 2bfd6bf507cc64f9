"""The testbed: a real multi-node Kubernetes on one machine, without Docker.

Scenarios call :func:`target` for the cluster to run on. Modules are imported only when needed, because small programs of
this package start with every node.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from e2e.cluster.target import ForeignCluster
    from e2e.cluster.testbed import Testbed


def target() -> "Testbed | ForeignCluster":
    """The cluster of KUBECONFIG, or the testbed."""
    from e2e.cluster.target import ForeignCluster, foreign_kubeconfig  # noqa: PLC0415
    from e2e.cluster.testbed import Testbed  # noqa: PLC0415

    kubeconfig = foreign_kubeconfig()
    return ForeignCluster(kubeconfig) if kubeconfig else Testbed()
