"""The commands ``spindle backup`` and ``spindle restore``."""

from pathlib import Path
from typing import Annotated

import typer

from spindle_cli import backup as work
from spindle_cli.kube import Kube, KubeError
from spindle_cli.objects import Objects
from spindle_cli.screen import say, tell
from spindle_cli.terminal import Namespace, sentences


def backup(
    cluster: Annotated[str | None, typer.Argument(help="KafkaCluster; default: the only one.")] = None,
    namespace: Namespace = None,
    secrets: Annotated[
        bool,
        typer.Option(
            "--secrets",
            help="With the authority and the users' credentials: whoever has the file can then do all.",
        ),
    ] = False,
) -> None:
    """Print a cluster's resources, to be put back onto its disks: spindle backup demo > demo.yaml."""
    with sentences():
        kube = Kube.connect(namespace)
        text, unkept = work.collect(Objects(kube), kube.one_cluster(cluster), secrets=secrets)
        typer.echo(text, nl=False)
        for volume in unkept:
            say(
                f"spindle: volume {volume} is deleted with its claim, and no backup brings it back. Retain it: kubectl patch pv "
                f"""{volume} -p '{{"spec":{{"persistentVolumeReclaimPolicy":"Retain"}}}}'""",
                err=True,
            )


def restore(
    file: Annotated[Path, typer.Argument(help="What spindle backup printed.")], namespace: Namespace = None
) -> None:
    """Put a cluster's resources back onto its disks, which are recognised and not formatted."""
    with sentences():
        try:
            kept = work.read(file.read_text())
        except OSError as error:
            raise KubeError(f"{file} cannot be read: {error}") from error
        for line in work.restore(Objects(Kube.connect(namespace)), kept):
            tell(line)
