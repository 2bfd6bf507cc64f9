"""The commands ``spindle takeover``."""

from collections.abc import Sequence
from typing import Annotated

import typer

from spindle.takeover import strimzi
from spindle.takeover.converted import Converted
from spindle.takeover.downtime import Downtime, downtime
from spindle.takeover.plan import TakeoverPlan, steps
from spindle_cli import takeover as work
from spindle_cli.consent import consent
from spindle_cli.kube import Kube
from spindle_cli.kubectl_yaml import document, documents
from spindle_cli.objects import Objects
from spindle_cli.screen import say
from spindle_cli.takeover_check import with_refusals
from spindle_cli.terminal import Namespace, sentences

app = typer.Typer(no_args_is_help=True, help="Take over a cluster from Strimzi, with its disks and data.")

Cluster = Annotated[str, typer.Argument(help="Name of Strimzi's Kafka resource.")]
Image = Annotated[str | None, typer.Option(help="Spindle's image; default: the one that its operator runs.")]


@app.command()
def plan(cluster: Cluster, namespace: Namespace = None, image: Image = None) -> None:
    """Show the problems to solve first, the differences afterwards, each step, and the KafkaCluster. Changes nothing."""
    with sentences():
        kube = Kube.connect(namespace)
        found = Objects(kube)
        theirs = work.read(found, cluster)
        made = with_refusals(found, strimzi.plan(theirs), lambda: image or work.image_of(kube))
        say(_page(made, downtime(made, theirs.pods, theirs.volumes)))
    if made.problems:
        raise typer.Exit(1)


@app.command()
def run(
    cluster: Cluster,
    namespace: Namespace = None,
    image: Image = None,
    yes: Annotated[bool, typer.Option("--yes", help="Stop Kafka without asking for confirmation.")] = False,
) -> None:
    """Take the cluster over. Kafka is down meanwhile. If the command is interrupted, run it again: it continues."""
    with sentences():
        kube = Kube.connect(namespace)
        found = Objects(kube)
        if not yes:
            bound = work.outage(found, cluster).bound
            where = f"Kafka {cluster} in namespace {kube.namespace}"
            consent(f"{where} is stopped during the take-over, {bound}. Continue?", given=yes)
        work.take(found, cluster, image or work.image_of(kube), say)


@app.command()
def undo(cluster: Cluster, namespace: Namespace = None, image: Image = None) -> None:
    """Return the cluster to Strimzi. Possible until Spindle has started Kafka on its disks."""
    with sentences():
        kube = Kube.connect(namespace)
        work.undo(Objects(kube), cluster, image or work.image_of(kube), say)


@app.command()
def convert(cluster: Cluster, namespace: Namespace = None) -> None:
    """Print KafkaTopics and KafkaUsers of Spindle in place of Strimzi's, as YAML for kubectl apply. Changes nothing."""
    with sentences():
        kube = Kube.connect(namespace)
        say(manifests_text(work.convert(Objects(kube), cluster)).rstrip())


def manifests_text(found: Sequence[Converted]) -> str:
    """YAML documents, each after comments on what is different; what has no object is a comment alone."""
    parts = []
    for each in found:
        notes = "".join(f"# {each.was}: {' '.join(note.split())}.\n" for note in each.notes)
        parts.append(notes + documents(filter(None, [each.manifest])))
    return "".join(parts) or "# The cluster has no KafkaTopics and no KafkaUsers of Strimzi.\n"


def _page(made: TakeoverPlan, outage: Downtime) -> str:
    parts = []
    if made.problems:
        parts.append("Problems to solve first:\n" + _list(made.problems))
    if made.differences:
        parts.append("What will be different:\n" + _list(made.differences))
    if not made.problems:
        parts.append("Steps of spindle takeover run:\n" + _list(steps(made)))
        parts.append(f"Downtime:\n- {outage.text()}\n")
    parts.append("KafkaCluster that it applies:\n" + document(made.manifest))
    return "\n".join(parts)


def _list(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
