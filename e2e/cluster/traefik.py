"""Traefik beside a testbed: the controller of the Gateway API's resources, and the proxy that clients connect to."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.cluster.build import ensure_traefik
from e2e.cluster.layout import CONTROL_ADDRESS
from e2e.cluster.procs import spawn
from e2e.cluster.system import CommandError, run
from e2e.cluster.testbed import Testbed
from e2e.cluster.waiting import wait_for

CONTROLLER: Final = "traefik.io/gateway-controller"  # that a GatewayClass names
PORT: Final = 9443  # a listener of a Gateway with this port is served


@contextmanager
def traefik(testbed: Testbed, log: Path) -> Iterator[None]:
    """Run it in the network of the control plane, which has routes to all pods and which pods and nodes reach at `CONTROL_ADDRESS`.

    Args:
        testbed: with the definitions of the Gateway API.
        log: file for its output.
    """
    command = testbed.inside(
        # Without this machine's environment, which may name a proxy.
        *("env", "-i", f"KUBECONFIG={testbed.layout.pki / 'admin.conf'}"),
        *(ensure_traefik(), "--providers.kubernetesgateway=true", "--log.level=INFO"),
        *(
            f"--providers.kubernetesgateway.statusaddress.ip={CONTROL_ADDRESS}",
            f"--entrypoints.kafka.address={CONTROL_ADDRESS}:{PORT}",
        ),
        *("--global.checknewversion=false", "--global.sendanonymoususage=false"),
    )
    process = spawn(command, log, dies_with_us=True)

    def listens() -> bool:
        try:
            run(*testbed.inside("bash", "-c", f"exec 3<>/dev/tcp/{CONTROL_ADDRESS}/{PORT}"), seconds=5)
        except CommandError:
            return False
        return True

    try:
        wait_for(
            "Traefik's port",
            listens,
            seconds=60,
            every=0.5,
            detail=lambda: log.read_text(errors="replace")[-2000:],
        )
        yield
    finally:
        process.stop(grace=15)
