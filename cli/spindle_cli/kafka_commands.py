"""The commands that ask Kafka itself: ``spindle topic``, ``verify`` and ``disks``."""

import sys
from collections.abc import Callable
from typing import Annotated, Final

import typer

from spindle_cli import disk_bars, helper_pod, topics
from spindle_cli.kafka_client import Access
from spindle_cli.kube import Kube
from spindle_cli.output import Output, OutputOption
from spindle_cli.terminal import Namespace, OfCluster, console, sentences

topic: Final = typer.Typer(no_args_is_help=True, help="Topics with replicas in different racks.")

Image = Annotated[
    str | None,
    typer.Option(help="Spindle's image for the helper pod; default: the one that the cluster uses."),
]


@topic.command("create")
def topic_create(
    name: Annotated[str, typer.Argument(help="Name of the topic.")],
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1)] = 1,
    replication_factor: Annotated[int, typer.Option("--replication-factor", "-r", min=1)] = 3,
    setting: Annotated[list[str] | None, typer.Option("--config", help="key=value; repeatable.")] = None,
    cluster: OfCluster = None,
    namespace: Namespace = None,
    image: Image = None,
) -> None:
    """Create a topic with replicas that alternate over the racks."""
    _at_kafka(
        lambda access: topics.create(access, name, partitions, replication_factor, setting or [], console),
        *(cluster, namespace, image),
    )


@topic.command("list")
def topic_list(cluster: OfCluster = None, namespace: Namespace = None, image: Image = None) -> None:
    """List the topics."""
    _at_kafka(lambda access: topics.show_names(access, console), cluster, namespace, image)


@topic.command("describe")
def topic_describe(
    name: Annotated[str, typer.Argument(help="Name of the topic.")],
    cluster: OfCluster = None,
    namespace: Namespace = None,
    image: Image = None,
) -> None:
    """Show leaders, replicas and racks of a topic's partitions."""
    _at_kafka(lambda access: topics.describe(access, name, console), cluster, namespace, image)


def verify(
    messages: Annotated[int, typer.Option(min=1, help="How many messages to send and read back.")] = 10_000,
    size: Annotated[int, typer.Option(min=1, max=900_000, help="Bytes of each message.")] = 100,
    name: Annotated[
        str, typer.Option("--topic", help="Topic; created if it does not exist.")
    ] = "spindle-verify",
    cluster: OfCluster = None,
    namespace: Namespace = None,
    image: Image = None,
) -> None:
    """Send messages with acks=all, read all of them back, and check the racks of every partition."""
    _at_kafka(lambda access: topics.verify(access, name, messages, size, console), cluster, namespace, image)


def disks(
    width: Annotated[int, typer.Option(min=8, max=200, help="Characters of a bar.")] = 40,
    cluster: OfCluster = None,
    namespace: Namespace = None,
    image: Image = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the usage of each broker and each disk as bars, with the size of its replicas, as Kafka reports them."""
    _at_kafka(lambda access: disk_bars.show(access, width, console, output), cluster, namespace, image)


def _at_kafka(
    work: Callable[[Access], bool], cluster: str | None, namespace: str | None, image: str | None
) -> None:
    """Run here if this process has credentials, else run the same command line in a pod that has them."""
    with sentences():
        access = Access.from_environment()
        if access is not None:
            if not work(access):
                raise typer.Exit(1)
            return
        kube = Kube.connect(namespace)
        code = helper_pod.run(
            kube,
            kube.one_cluster(cluster),
            sys.argv[1:],
            image=image,
            columns=console.width,
            write=helper_pod.write_line,
        )
    raise typer.Exit(code)
