"""The command ``spindle ui``."""

from typing import Annotated

import typer

from spindle_cli.kube import Kube, KubeError
from spindle_cli.libraries import map_server
from spindle_cli.screen import say
from spindle_cli.terminal import Cluster, Namespace, sentences


def ui(
    cluster: Cluster = None,
    namespace: Namespace = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0: a free one.")] = 0,
) -> None:
    """Show a live map of all disks in a browser: racks, brokers, disks, moves, and what the cluster waits for. Changes nothing."""
    with sentences():
        kube = Kube.connect(namespace)
        name = kube.one_cluster(cluster)
        kube.cluster(name)  # an error about it is better told here than in the page
        try:
            map_server.serve(kube, name, port, lambda url: _tell(name, url))
        except OSError as error:
            raise KubeError(
                f"cannot serve on port {port}: {error.strerror}; choose another with --port"
            ) from error


def _tell(name: str, url: str) -> None:
    say(f"Map of {name}, for this machine's browser, once:\n\n    {url}\n\nIt ends with Ctrl-C.")
