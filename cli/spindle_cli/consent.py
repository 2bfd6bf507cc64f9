"""Asks at the terminal before a command accepts something that cannot be undone."""

import typer

from spindle.api.printable import printable
from spindle_cli.kube import KubeError


def agreed(question: str, *, given: object) -> bool:
    """Whether the user agrees.

    Args:
        given: what the command line agreed to; nothing is asked then.

    Raises:
        KubeError: nobody can answer.
    """
    if given:
        return True
    try:
        return typer.confirm(printable(question))
    except typer.Abort as error:
        raise KubeError(
            "not confirmed. Answer y, or agree on the command line: the command's --help names the option"
        ) from error
