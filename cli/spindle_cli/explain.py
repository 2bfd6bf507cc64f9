"""What a reason means, in a terminal."""

import re
from difflib import get_close_matches
from posixpath import normpath
from typing import Annotated, Any, Final

import typer

from spindle.reasons import all_reasons, find, page_of
from spindle.reasons.reason import Reason
from spindle_cli.output import Output, OutputOption, structured
from spindle_cli.screen import say

_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_URGENCY: Final = {
    "page": "page: data or availability is at risk until somebody acts",
    "ticket": "ticket: somebody has to act in working hours",
    "none": "none",
}


def explain(
    reason: Annotated[
        str,
        typer.Argument(help="As in status.waiting, a condition or an event, for example WouldBeUnderMinIsr."),
    ],
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain a reason: what it means, what unblocks it, whether it should alert somebody. Needs no cluster."""
    found = find(reason)
    if found is None:
        say(f"spindle: {_unknown(reason)}", err=True)
        raise typer.Exit(1)
    if output in (Output.JSON, Output.YAML):
        typer.echo(structured(as_data(found), output))
    else:
        say(explanation(found))


def as_data(reason: Reason) -> dict[str, Any]:
    """The entry for programs."""
    return {
        "reason": reason.name,
        "means": _plain(reason.means),
        "resolve": _plain(reason.resolve),
        "alert": reason.alert,
        "page": f"docs/{page_of(reason)}",
    }


def explanation(reason: Reason) -> str:
    """The entry of the reference page as plain text."""
    lines = [reason.name, "", f"  {_sentence(reason.means)}", ""]
    if reason.resolve.startswith("nothing"):
        lines += [f"  Nothing to do{_plain(reason.resolve.removeprefix('nothing'))}."]
    elif reason.resolve:
        lines += [f"  To resolve: {_plain(reason.resolve)}."]
    lines += [f"  Alert: {_URGENCY[reason.alert]}.", f"  More: docs/{page_of(reason)}"]
    return "\n".join(lines)


def _unknown(name: str) -> str:
    names = {each.name.lower(): each.name for each in all_reasons()}
    near = [names[each] for each in get_close_matches(name.lower(), names)]
    hint = f" Did you mean {', '.join(near)}?" if near else " docs/reference/reasons.md lists all."
    return f"there is no reason {name}.{hint}"


def _sentence(text: str) -> str:
    plain = _plain(text)
    return f"{plain[0].upper()}{plain[1:]}."


def _plain(markdown: str) -> str:
    """Without Markdown; a link keeps the path of its page."""
    return _LINK.sub(lambda link: f"{link[1]} ({_path(link[2])})", markdown).replace("`", "")


def _path(target: str) -> str:
    return target if "://" in target else normpath(f"docs/reference/{target}")
