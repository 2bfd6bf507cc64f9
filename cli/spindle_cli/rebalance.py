"""``spindle rebalance``: have a proposal made, look at it, approve it, see it carried out."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from spindle_cli import following, proposals, rebalance_report, terminal
from spindle_cli.kube import Kube
from spindle_cli.screen import on_one_line, say, tell
from spindle_cli.terminal import Namespace, OfCluster, sentences

app: Final = typer.Typer(no_args_is_help=True, help="Proposals to move replicas: look, approve, stop.")

Proposal = Annotated[str, typer.Argument(help="KafkaRebalance; see: spindle rebalance list.")]


@app.command("list")
def show_all(cluster: OfCluster = None, namespace: Namespace = None) -> None:
    """List proposals, with their phase and how far they are."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.rebalances(cluster)
        if found:
            terminal.console.print(proposals.list_of(on_one_line(found)))
        else:
            say(f"There is no KafkaRebalance in namespace {kube.namespace}.")


@app.command()
def show(
    name: Proposal,
    namespace: Namespace = None,
    moves: Annotated[int, typer.Option(min=0, help="How many moves to show, the largest first.")] = 20,
) -> None:
    """Show what a proposal costs, what it is good for, its largest moves, and what has become of them."""
    with sentences():
        terminal.console.print(proposals.page(on_one_line(Kube.connect(namespace).rebalance(name)), moves))


@app.command()
def approve(
    name: Proposal,
    namespace: Namespace = None,
    hashed: Annotated[
        str | None,
        typer.Option("--hash", help="The inputHash that was looked at; default: the one that stands there."),
    ] = None,
) -> None:
    """Approve a proposal. It is carried out as soon as nothing is in its way."""
    with sentences():
        kube = Kube.connect(namespace)
        say(proposals.approve(kube, name, hashed))


@app.command()
def stop(name: Proposal, namespace: Namespace = None) -> None:
    """End a proposal for good. Copies that are under way are given up, what has landed stays."""
    with sentences():
        kube = Kube.connect(namespace)
        say(proposals.stop(kube, name))


@app.command()
def report(cluster: OfCluster = None, namespace: Namespace = None) -> None:
    """Print the report of the latest run, one HTML file: spindle rebalance report > report.html."""
    with sentences():
        kube = Kube.connect(namespace)
        page = rebalance_report.fetch(kube, kube.one_cluster(cluster))
        if sys.stdout.isatty():
            say(page)
        else:
            typer.echo(page)  # into a file, as it is


@app.command()
def run(
    cluster: OfCluster = None,
    namespace: Namespace = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show the run's log until it has ended, and what came of it.")
    ] = False,
) -> None:
    """Have a proposal made now, whatever the schedule says."""
    with sentences():
        kube = Kube.connect(namespace)
        name = proposals.run(kube, kube.one_cluster(cluster), datetime.now(UTC))
        if not wait:
            say(f"Job {name} runs. Follow it with: kubectl logs -f job/{name}")
        elif not following.job(kube, name, tell):
            raise typer.Exit(1)


@app.command()
def wait(
    name: Proposal,
    namespace: Namespace = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which to give up.")] = 3600.0,
) -> None:
    """Wait until a proposal is over, telling how far it is. Ends with an error if it is not done in time."""
    with sentences():
        kube = Kube.connect(namespace)
        if not following.proposal(kube, name, timeout, tell):
            raise typer.Exit(1)
