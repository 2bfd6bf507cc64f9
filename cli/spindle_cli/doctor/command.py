"""The command ``spindle doctor``."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from spindle_cli import preview, terminal
from spindle_cli.doctor import installation, places, reading
from spindle_cli.doctor.facts import Facts, Finding, Level
from spindle_cli.kube import Kube
from spindle_cli.output import Output, OutputOption, structured
from spindle_cli.screen import on_one_line
from spindle_cli.terminal import Namespace, sentences

CHECKS: Final[Sequence[Callable[[Facts], Iterator[Finding]]]] = (
    installation.kubernetes,
    installation.definitions,
    installation.operator,
    installation.rights,
    installation.unreadable,
    places.storage_classes,
    places.volumes,
    places.node_count,
    places.zones,
    installation.agents,
    installation.clocks,
)
_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "red"}


def doctor(
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="A KafkaCluster that is to be applied; default: those of the namespace."
        ),
    ] = None,
    namespace: Namespace = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check versions, rights, StorageClasses, volumes, nodes, zones, agents and clocks before anything is applied. Changes nothing."""
    with sentences():
        wanted = [preview.read(file)] if file is not None else []
        kube = Kube.connect((wanted[0].metadata.namespace if wanted else None) or namespace)
        found = findings(reading.read(kube, wanted))
        if output in (Output.JSON, Output.YAML):
            typer.echo(structured([as_dict(each) for each in found], output))
        else:
            for each in found:
                terminal.console.print(line(each), soft_wrap=True)
    if any(each.level is Level.PROBLEM for each in found):
        raise typer.Exit(1)


def findings(facts: Facts) -> list[Finding]:
    """What all checks find, without repetitions."""
    return list(dict.fromkeys(each for check in CHECKS for each in check(facts)))


def as_dict(finding: Finding) -> dict[str, Any]:
    """For JSON and YAML."""
    return {
        "check": finding.check,
        "level": finding.level.value,
        "message": finding.message,
        "wayOut": finding.way_out,
    }


def line(finding: Finding) -> Text:
    """For the terminal."""
    text = Text(f"{finding.level.value:8}", style=_STYLES[finding.level])
    text.append(f" {finding.check}: {on_one_line(finding.message)}", style="default")
    if finding.way_out:
        text.append(f"\n         to resolve: {on_one_line(finding.way_out)}", style="default")
    return text
