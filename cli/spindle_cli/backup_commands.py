"""The commands ``spindle backup`` and ``spindle restore``."""

from pathlib import Path
from typing import Annotated

import typer

from spindle_cli import backup as work
from spindle_cli.copied import in_namespace
from spindle_cli.kube import Kube, KubeError
from spindle_cli.objects import Objects
from spindle_cli.screen import say, tell
from spindle_cli.terminal import Cluster, Namespace, sentences


def backup(
    cluster: Cluster = None,
    namespace: Namespace = None,
    secrets: Annotated[
        bool,
        typer.Option(
            "--secrets",
            help="Include the CA and the users' credentials. Anyone with the file then has full access to the cluster.",
        ),
    ] = False,
) -> None:
    """Print a cluster's resources, to restore them onto its disks later: spindle backup demo > demo.yaml."""
    with sentences():
        kube = Kube.connect(namespace)
        text, not_retained = work.collect(Objects(kube), kube.one_cluster(cluster), secrets=secrets)
        typer.echo(text, nl=False)
        for volume in not_retained:
            say(
                f"spindle: volume {volume} is deleted with its claim, and a backup cannot bring it back. To retain it: "
                + in_namespace(f"spindle volume retain {volume}", None),
                err=True,
            )


def restore(
    file: Annotated[Path, typer.Argument(help="Output of spindle backup.")], namespace: Namespace = None
) -> None:
    """Restore a cluster's resources onto its disks. The disks are recognised and not formatted."""
    with sentences():
        try:
            kept = work.read(file.read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise KubeError(f"{file} cannot be read: {error}") from error
        for line in work.restore(Objects(Kube.connect(namespace)), kept):
            tell(line)
