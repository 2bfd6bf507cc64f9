"""The command ``spindle preview``."""

from pathlib import Path
from typing import Annotated

import typer

from spindle.config.listeners_check import refused_listeners
from spindle.config.logging_check import refused_logging
from spindle.config.metrics_check import refused_metrics
from spindle.config.preview import preview as what_changes
from spindle.config.racks_check import refused_racks
from spindle.config.spec_allowed import owned_settings
from spindle.config.spec_settings import refused_settings
from spindle.config.template_check import refused_templates
from spindle.topics.preview import preview_topic
from spindle_cli import preview as changes
from spindle_cli.kube import Json, Kube, NotFoundError
from spindle_cli.screen import say
from spindle_cli.terminal import Namespace, console, sentences


def preview(
    file: Annotated[Path, typer.Argument(help="File with the changed KafkaCluster, or with KafkaTopics.")],
    namespace: Namespace = None,
) -> None:
    """Show the effects of a changed KafkaCluster or of KafkaTopics: what is rejected, changes without a restart, changes by a rolling restart."""
    with sentences():
        if topics := changes.read_topics(file):
            _preview_topics(topics, namespace)
            return
        wanted = changes.read(file)
        refused = (
            *owned_settings(wanted.spec),
            *refused_settings(wanted.spec, wanted.spec.version),
            *refused_metrics(wanted.spec),
            *refused_logging(wanted.spec),
            *refused_racks(wanted.spec),
            *refused_listeners(wanted.spec, namespace=wanted.metadata.namespace or namespace),
            *refused_templates(wanted.spec),
        )
        if refused:  # found without the cluster, too
            say(changes.refusals(refused))
            raise typer.Exit(1)
        kube = Kube.connect(wanted.metadata.namespace or namespace)
        running = kube.cluster(kube.one_cluster(wanted.metadata.name))
        highest = max(
            (int(each["spec"]["id"]) for each in kube.view(running.metadata.name).brokers), default=0
        )
        if refused := refused_listeners(wanted.spec, highest, namespace=kube.namespace):
            say(changes.refusals(refused))
            raise typer.Exit(1)
        console.print(changes.table(what_changes(running.spec, wanted.spec)))


def _preview_topics(topics: list[Json], namespace: str | None) -> None:
    """Show the effects of KafkaTopics; exit code 1 if one would be refused."""
    refused, found = [], []
    for topic in topics:
        kube = Kube.connect(topic["metadata"].get("namespace") or namespace)
        cluster = kube.cluster(str((topic.get("spec") or {}).get("cluster")))
        try:
            present = kube.raw("KafkaTopic", str(topic["metadata"]["name"]))
        except NotFoundError:
            present = None
        said, what = preview_topic(topic, present, cluster.spec)
        refused += [f"KafkaTopic {topic['metadata']['name']}: {each}" for each in said]
        found += what
    if refused:
        say("\n".join(refused))
    console.print(changes.table(found, "Nothing changes."))
    if refused:
        raise typer.Exit(1)
