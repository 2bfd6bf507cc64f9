"""Asks at the terminal before a command accepts something that cannot be undone."""

import typer

from spindle.api.printable import printable
from spindle_cli.kube import KubeError
from spindle_cli.options import INTERRUPTED
from spindle_cli.screen import say


def consent(question: str, *, given: object) -> None:
    """Continue only if the user agrees.

    Args:
        given: what the command line agreed to; nothing is asked then.

    Raises:
        KubeError: nobody can answer.
        typer.Exit: the user does not agree, or interrupts.
    """
    if given:
        return
    try:
        answer = typer.confirm(printable(question))
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from error
        raise KubeError(
            "not confirmed. Answer y, or agree on the command line: the command's --help names the option"
        ) from error
    if not answer:
        say("Nothing was changed.")
        raise typer.Exit(1)
