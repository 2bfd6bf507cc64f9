"""The commands ``spindle takeover``."""

from collections.abc import Sequence
from typing import Annotated

import typer
import yaml

from spindle.takeover import strimzi
from spindle.takeover.plan import TakeoverPlan, steps
from spindle_cli import takeover as work
from spindle_cli.kube import Kube
from spindle_cli.objects import Objects
from spindle_cli.screen import say
from spindle_cli.terminal import Namespace, sentences

app = typer.Typer(no_args_is_help=True, help="A cluster that Strimzi made becomes Spindle's, disks and all.")

Cluster = Annotated[str, typer.Argument(help="Name of Strimzi's Kafka resource.")]
Image = Annotated[str | None, typer.Option(help="Spindle's image; default: the one that its operator runs.")]


@app.command()
def plan(cluster: Cluster, namespace: Namespace = None) -> None:
    """Show what stands against it, what will be different, each step, and the KafkaCluster. Nothing is changed."""
    with sentences():
        found = Objects(Kube.connect(namespace))
        made = strimzi.plan(work.read(found, cluster))
        say(_page(made))
    if made.problems:
        raise typer.Exit(1)


@app.command()
def run(
    cluster: Cluster,
    namespace: Namespace = None,
    image: Image = None,
    yes: Annotated[bool, typer.Option("--yes", help="Kafka is stopped without a further question.")] = False,
) -> None:
    """Take it over. Kafka stands still from its second step to its last. Run again, it goes on from where it was."""
    with sentences():
        kube = Kube.connect(namespace)
        if not yes:
            typer.confirm(
                f"Kafka {cluster} in namespace {kube.namespace} is stopped for this. Go on?", abort=True
            )
        work.take(Objects(kube), cluster, image or work.image_of(kube), say)


@app.command()
def undo(cluster: Cluster, namespace: Namespace = None, image: Image = None) -> None:
    """Give it back to Strimzi, as long as Spindle has not started on its disks."""
    with sentences():
        kube = Kube.connect(namespace)
        work.undo(Objects(kube), cluster, image or work.image_of(kube), say)


def _page(made: TakeoverPlan) -> str:
    parts = []
    if made.problems:
        parts.append("These stand against it:\n" + _list(made.problems))
    if made.differences:
        parts.append("These will be different:\n" + _list(made.differences))
    if not made.problems:
        parts.append("These are the steps:\n" + _list(steps(made)))
    parts.append("This will be applied:\n" + yaml.safe_dump(dict(made.manifest), sort_keys=False))
    return "\n".join(parts)


def _list(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
