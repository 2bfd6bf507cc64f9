"""What all commands share: the console, the options that many have, and errors that end in one sentence."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console

from spindle.placement.racks import PlacementError
from spindle_cli.kafka_client import ClientError
from spindle_cli.kube import KubeError

console = Console(highlight=False, soft_wrap=False)

Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace; default: the kubeconfig's.")
]
OfCluster = Annotated[
    str | None, typer.Option("--cluster", "-c", help="KafkaCluster; default: the only one of the namespace.")
]


@contextmanager
def sentences() -> Iterator[None]:
    """End with one sentence instead of a traceback."""
    try:
        yield
    except (KubeError, ClientError, PlacementError) as error:
        typer.echo(f"spindle: {error}", err=True)
        raise typer.Exit(1) from error


def pause(seconds: float) -> None:
    """Wait between two looks: a command line has nothing else to do meanwhile."""
    time.sleep(seconds)  # noqa: TID251 - see above
