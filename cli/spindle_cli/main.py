"""The command ``spindle``; also ``kubectl spindle`` when it is linked as ``kubectl-spindle``."""

import errno
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from spindle.api.cluster import KafkaCluster
from spindle.config.metrics_check import refused_metrics
from spindle.config.preview import preview as what_changes
from spindle.config.racks_check import refused_racks
from spindle.config.spec_allowed import owned_settings
from spindle.config.spec_settings import refused_settings
from spindle_cli import (
    backup_commands,
    broker_commands,
    cluster_commands,
    disk_bars,
    disk_commands,
    helper_pod,
    overview,
    racks,
    rebalance,
    rollout_commands,
    takeover_commands,
    topics,
    user_commands,
)
from spindle_cli import preview as changes
from spindle_cli.consent import INTERRUPTED
from spindle_cli.copied import command
from spindle_cli.disk_map.command import ui
from spindle_cli.doctor.command import doctor
from spindle_cli.explain import explain
from spindle_cli.kafka_client import Access
from spindle_cli.kube import ClusterView, Kube
from spindle_cli.options import context_first, shared
from spindle_cli.output import Output, OutputOption, structured
from spindle_cli.screen import on_one_line, say, tell
from spindle_cli.support.command import report
from spindle_cli.terminal import Namespace, OfCluster, console, pause, sentences

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.callback()(shared)
topic = typer.Typer(no_args_is_help=True, help="Topics with replicas in different racks.")
app.add_typer(topic, name="topic")
app.add_typer(rebalance.app, name="rebalance")
app.add_typer(takeover_commands.app, name="takeover")
app.add_typer(broker_commands.app, name="broker")
app.add_typer(disk_commands.app, name="disk")
app.add_typer(rollout_commands.app, name="rollout")
app.add_typer(user_commands.app, name="user")
app.command("doctor")(doctor)
app.command("pause")(cluster_commands.pause)
app.command("resume")(cluster_commands.resume)
app.command("stop", hidden=True)(broker_commands.stop)  # their names in earlier versions
app.command("start", hidden=True)(broker_commands.start)
app.command("racks")(racks.racks)
app.command("explain")(explain)
app.command("backup")(backup_commands.backup)
app.command("restore")(backup_commands.restore)
app.command("ui")(ui)
app.command("report")(report)

_POLL_S: Final = 1.0
_NO_FILES: Final = ":4"  # kubectl's word for: complete no file names
_WIDE: Final = 1000  # characters; no line wraps


Image = Annotated[
    str | None,
    typer.Option(help="Spindle's image for the helper pod; default: the one that the cluster uses."),
]


@app.command()
def status(
    cluster: Annotated[
        str | None, typer.Argument(help="KafkaCluster; default: all of the namespace.")
    ] = None,
    namespace: Namespace = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show racks, brokers, disks and log dirs of a cluster, and what it waits for."""
    with sentences():
        kube = Kube.connect(namespace)
        clusters = kube.clusters() if cluster is None else []
        if cluster is None and len(clusters) != 1:
            _show_many(kube, clusters, output)
            return
        view = kube.view(cluster or clusters[0].metadata.name)
        if output in (Output.JSON, Output.YAML):
            parts: dict[str, Any] = {
                "cluster": view.cluster.to_dict(),
                "brokers": [broker.to_dict() for broker in view.brokers],
                "controllers": list(view.controllers),
            }
            typer.echo(structured(parts, output))
        else:
            shown = overview.overview(_on_screen(view), datetime.now(UTC))
            console.print(shown, width=_WIDE if output is Output.WIDE else None)


def _on_screen(view: ClusterView) -> ClusterView:
    return ClusterView(on_one_line(view.cluster), on_one_line(view.brokers), on_one_line(view.controllers))


def _show_many(kube: Kube, clusters: list[KafkaCluster], output: Output) -> None:
    if output in (Output.JSON, Output.YAML):
        typer.echo(structured({"clusters": [each.to_dict() for each in clusters]}, output))
    elif clusters:
        wide = output is Output.WIDE
        console.print(overview.list_of(on_one_line(clusters), wide=wide), width=_WIDE if wide else None)
    else:
        say(f"There is no KafkaCluster in namespace {kube.namespace}.")


@app.command()
def preview(
    file: Annotated[Path, typer.Argument(help="File with the changed KafkaCluster.")],
    namespace: Namespace = None,
) -> None:
    """Show the effects of a changed KafkaCluster: settings that Kafka rejects, changes without a restart, changes by a rolling restart."""
    with sentences():
        wanted = changes.read(file)
        refused = (
            *owned_settings(wanted.spec),
            *refused_settings(wanted.spec, wanted.spec.version),
            *refused_metrics(wanted.spec),
            *refused_racks(wanted.spec),
        )
        if refused:  # found without the cluster, too
            say(changes.refusals(refused))
            raise typer.Exit(1)
        kube = Kube.connect(wanted.metadata.namespace or namespace)
        running = kube.cluster(kube.one_cluster(wanted.metadata.name))
        console.print(changes.table(what_changes(running.spec, wanted.spec)))


@app.command()
def wait(
    cluster: Annotated[str | None, typer.Argument(help="KafkaCluster; default: the only one.")] = None,
    namespace: Namespace = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which to stop waiting.")] = 600.0,
) -> None:
    """Wait until a cluster is ready, and print what happens meanwhile."""
    with sentences():
        kube = Kube.connect(namespace)
        name = kube.one_cluster(cluster)
        if not wait_until_ready(kube, name, timeout, tell):
            say(
                f"spindle: {name} was not ready within {timeout:.0f} s; see: {command(f'spindle status {name}')}",
                err=True,
            )
            raise typer.Exit(1)


def wait_until_ready(kube: Kube, name: str, timeout: float, news: Callable[[str], None]) -> bool:
    """Print each new line of the cluster's state, until it is ready.

    Returns:
        Whether it became ready in time.
    """
    began = time.monotonic()
    told: frozenset[str] = frozenset()
    while True:
        view = kube.view(name)
        now = dict.fromkeys(overview.progress(view))  # several entries can have the same message
        for line in now:
            if line not in told:
                news(f"{time.monotonic() - began:5.0f} s  {line}")
        told = frozenset(now)
        if _is_ready(view.cluster):
            return True
        if time.monotonic() - began > timeout:
            return False
        pause(_POLL_S)


def _is_ready(cluster: KafkaCluster) -> bool:
    """Ready for the current generation, with nothing left to do (during a rolling restart all pods can be up, too)."""
    status = cluster.status
    if status is None or status.observed_generation != cluster.metadata.generation:
        return False
    found = {each.type: each.status for each in status.conditions}
    return found.get("Ready") == "True" and found.get("Reconciling") != "True"


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


@app.command()
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


@app.command()
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


def main() -> None:
    """Entry point; as a kubectl plugin it shows the name that the user typed."""
    called = os.path.basename(sys.argv[0])  # noqa: PTH119 - a name, not a path
    sys.argv[1:] = context_first(sys.argv[1:])
    try:
        app(prog_name="kubectl spindle" if called.startswith("kubectl-") else "spindle")
    except Exception as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Ctrl-C while a library was imported
            sys.exit(INTERRUPTED)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _not_written(error)
        raise
    finally:
        _flush()


def _flush() -> None:
    """Write what is left: at the interpreter's own end an error is a traceback, and the exit code says nothing of what is missing."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # a pager or head that was closed
        _forget_output()
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _not_written(error)


def _not_written(error: OSError) -> NoReturn:
    _forget_output()
    say(f"spindle: the output cannot be written: {error.strerror}", err=True)
    sys.exit(1)


def _forget_output() -> None:
    """Have nothing left to write."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complete() -> None:
    """Entry point ``kubectl_complete-spindle``, which kubectl asks for the next words of ``kubectl spindle``."""
    words = sys.argv[1:]
    os.environ |= {
        "COMP_WORDS": shlex.join(["spindle", *words]),
        "COMP_CWORD": str(len(words)),
        "_SPINDLE_COMPLETE": "complete_bash",
    }
    sys.argv = ["spindle"]
    try:
        app(prog_name="spindle")
    finally:
        print(_NO_FILES)


if __name__ == "__main__":
    main()
