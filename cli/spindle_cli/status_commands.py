"""``spindle status`` and ``spindle wait``."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from spindle_cli import completion, overview
from spindle_cli.copied import command
from spindle_cli.kube import ClusterView, Json, Kube, KubeError
from spindle_cli.output import Output, OutputOption, structured, wide
from spindle_cli.screen import on_one_line, say, tell
from spindle_cli.terminal import Cluster, Namespace, console, pause, sentences

_POLL_S: Final = 1.0


def status(
    cluster: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.clusters, help="KafkaCluster; default: all of the namespace."
        ),
    ] = None,
    namespace: Namespace = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show racks, brokers, disks and log dirs of a cluster, and what it waits for."""
    with sentences():
        kube = Kube.connect(namespace)
        clusters = kube.raw_clusters() if cluster is None else []
        if cluster is None and len(clusters) != 1:
            _show_many(kube, clusters, output)
            return
        view = kube.view(cluster or clusters[0]["metadata"]["name"])
        if output in (Output.JSON, Output.YAML):
            parts: dict[str, Any] = {
                "cluster": _shown(view.cluster),
                "brokers": [_shown(broker) for broker in view.brokers],
                "controllers": [_shown(pod) for pod in view.controllers],
            }
            typer.echo(structured(parts, output))
        else:
            with _known_form(view.cluster):
                shown = overview.overview(_on_screen(view), datetime.now(UTC))
            console.print(shown, width=wide(output))


def _shown(obj: Json) -> Json:
    """An object for a reader, who does not ask who wrote which field."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


@contextmanager
def _known_form(*clusters: Json) -> Iterator[None]:
    """One sentence if the objects are not as this version reads them."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        named = ", ".join(str(each["metadata"]["name"]) for each in clusters)
        raise KubeError(
            f"KafkaCluster {named}, or one of its objects, has a form that this version of the command does not know: {error!r}. Use the version of the "
            "operator that wrote it, or: kubectl get skc,skb -o yaml"
        ) from error


def _on_screen(view: ClusterView) -> ClusterView:
    return ClusterView(on_one_line(view.cluster), on_one_line(view.brokers), on_one_line(view.controllers))


def _show_many(kube: Kube, clusters: list[Json], output: Output) -> None:
    if output in (Output.JSON, Output.YAML):
        typer.echo(structured({"clusters": [_shown(each) for each in clusters]}, output))
    elif clusters:
        with _known_form(*clusters):
            shown = overview.list_of(on_one_line(clusters), wide=output is Output.WIDE)
        console.print(shown, width=wide(output))
    else:
        say(f"There is no KafkaCluster in namespace {kube.namespace}.")


def wait(
    cluster: Cluster = None,
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
        with _known_form(view.cluster):
            now = dict.fromkeys(overview.progress(view))  # several entries can have the same message
            ready = _is_ready(view.cluster)
        for line in now:
            if line not in told:
                news(f"{time.monotonic() - began:5.0f} s  {line}")
        told = frozenset(now)
        if ready:
            return True
        if time.monotonic() - began > timeout:
            return False
        pause(_POLL_S)


def _is_ready(cluster: Json) -> bool:
    """Ready for the current generation, with nothing left to do (during a rolling restart all pods can be up, too)."""
    if not overview.is_observed(cluster):
        return False
    found = {each["type"]: each["status"] for each in overview.status_of(cluster).get("conditions") or ()}
    return found.get("Ready") == "True" and found.get("Reconciling") != "True"
