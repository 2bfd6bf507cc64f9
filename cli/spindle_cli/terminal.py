"""Shared by all commands: the console, common options, and errors that end in one sentence."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer

from spindle.model.racks import PlacementError
from spindle_cli import completion
from spindle_cli.copied import remember
from spindle_cli.errors import ClientError
from spindle_cli.kube import KubeError, no_object
from spindle_cli.libraries import yaml
from spindle_cli.screen import SafeConsole, say

# Without markup and emoji: else `[link=…]` in a message would become a link, and `:bomb:` an emoji.
console = SafeConsole(highlight=False, soft_wrap=False, markup=False, emoji=False)

_TOLD: Final = (KubeError, ClientError, PlacementError)  # their messages are for the user

Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", callback=remember, help="Namespace; default: the kubeconfig's."),
]
OfCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        "-c",
        autocompletion=completion.clusters,
        help="KafkaCluster; default: the only one of the namespace.",
    ),
]
Cluster = Annotated[
    str | None,
    typer.Argument(
        autocompletion=completion.clusters, help="KafkaCluster; default: the only one of the namespace."
    ),
]
Broker = Annotated[
    str, typer.Argument(autocompletion=completion.brokers, help="KafkaBroker, for example demo-broker-1.")
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Take the field over from another tool that owns it, for example from Argo CD."
    ),
]


@contextmanager
def sentences() -> Iterator[None]:
    """Exit with one sentence instead of a traceback."""
    try:
        yield
    except (*_TOLD, yaml.YAMLError, UnicodeDecodeError, json.JSONDecodeError) as error:
        say(f"spindle: {_sentence(error)}", err=True)
        raise typer.Exit(1) from error


def _sentence(error: Exception) -> str:
    if isinstance(error, _TOLD):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return str(no_object("this request"))
    # Every file but the kubeconfig is read by code that catches these itself.
    return f"no usable kubeconfig: {' '.join(str(error).split())}; set KUBECONFIG"


def pause(seconds: float) -> None:
    """Sleep between two polls; a command line has nothing else to do meanwhile."""
    time.sleep(seconds)  # noqa: TID251 - see above
