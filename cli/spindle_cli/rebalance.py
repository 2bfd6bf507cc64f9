"""``spindle rebalance``: create, review, approve and follow proposals."""

import sys
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from spindle_cli import completion, following, proposals, rebalance_report, terminal
from spindle_cli.copied import command
from spindle_cli.kube import Kube
from spindle_cli.output import Output, OutputOption, structured, wide
from spindle_cli.screen import on_one_line, say, tell
from spindle_cli.terminal import Namespace, OfCluster, sentences

app: Final = typer.Typer(no_args_is_help=True, help="Proposals to move replicas: run, show, approve, stop.")

Proposal = Annotated[
    str,
    typer.Argument(autocompletion=completion.proposals, help="KafkaRebalance; see: spindle rebalance list."),
]


@app.command("list")
def show_all(
    cluster: OfCluster = None, namespace: Namespace = None, output: OutputOption = Output.TABLE
) -> None:
    """List proposals, with their phase and progress."""
    with sentences():
        kube = Kube.connect(namespace)
        found = kube.rebalances(cluster)
        if output in (Output.JSON, Output.YAML):
            typer.echo(structured({"proposals": [each.to_dict() for each in found]}, output))
        elif found:
            terminal.console.print(proposals.list_of(on_one_line(found)), width=wide(output))
        else:
            say(f"There is no KafkaRebalance in namespace {kube.namespace}.")


@app.command()
def show(
    name: Proposal,
    namespace: Namespace = None,
    moves: Annotated[int, typer.Option(min=0, help="How many moves to show, the largest first.")] = 20,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the cost and the gain of a proposal, its largest moves, and their state."""
    with sentences():
        found = Kube.connect(namespace).rebalance(name)
        if output in (Output.JSON, Output.YAML):
            typer.echo(structured(found.to_dict(), output))
        else:
            terminal.console.print(proposals.page(on_one_line(found), moves), width=wide(output))


@app.command()
def approve(
    name: Proposal,
    namespace: Namespace = None,
    hashed: Annotated[
        str | None,
        typer.Option("--hash", help="The inputHash that was reviewed; default: the current one."),
    ] = None,
) -> None:
    """Approve a proposal. Spindle executes it as soon as no safety check holds it back."""
    with sentences():
        kube = Kube.connect(namespace)
        say(proposals.approve(kube, name, hashed))


@app.command()
def stop(name: Proposal, namespace: Namespace = None) -> None:
    """Stop a proposal permanently. Moves in progress are cancelled; completed moves stay."""
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
            typer.echo(page)  # unchanged, for redirection into a file


@app.command()
def run(
    cluster: OfCluster = None,
    namespace: Namespace = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Print the run's log until it has ended, then its result.")
    ] = False,
) -> None:
    """Start a run of the rebalance job now, independent of the schedule."""
    with sentences():
        kube = Kube.connect(namespace)
        name = proposals.run(kube, kube.one_cluster(cluster), datetime.now(UTC))
        if not wait:
            say(f"Job {name} runs. Follow it with: {command(f'kubectl logs -f job/{name}')}")
        elif not following.job(kube, name, tell):
            raise typer.Exit(1)


@app.command()
def wait(
    name: Proposal,
    namespace: Namespace = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which to stop waiting.")] = 3600.0,
) -> None:
    """Wait until a proposal has ended, and print its progress. Fails if it is not done in time."""
    with sentences():
        kube = Kube.connect(namespace)
        if not following.proposal(kube, name, timeout, tell):
            raise typer.Exit(1)
