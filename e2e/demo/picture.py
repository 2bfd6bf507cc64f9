"""The demo's picture: each broker and each disk as a bar, before and after."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from spindle_cli.disk_bars import bar, name_of

_WIDTH: Final = 26  # characters of a bar
_GAP: Final = "   "

Fills = dict[str, float]  # "broker 0  zone-a" or "  disk0" below it → share that is used


def fills(told: str) -> dict[str, Fills]:
    """Usage of each broker and each of its disks, from the output of ``spindle disks -o json``.

    Returns:
        Heading of each broker → its disks; the entry with an empty name is the broker as a whole.
    """
    return {f"broker {each['broker']}  {each['rack']}".rstrip(): _of(each) for each in json.loads(told)}


def _of(broker: Mapping[str, Any]) -> Fills:
    dirs = [each for each in broker.get("dirs", ()) if each["capacity"] and each["usable"] is not None]
    parts = [("", dirs), *((name_of(each["path"]), [each]) for each in dirs)]
    return {
        name: 1 - sum(d["usable"] for d in some) / sum(d["capacity"] for d in some)
        for name, some in parts
        if some
    }


def unused(told: str) -> int:
    """Bytes on all disks together that belong to no replica, from the same output."""
    dirs = [each for broker in json.loads(told) for each in broker.get("dirs", ()) if each["capacity"]]
    return sum(each["capacity"] - (each["usable"] or 0) - each["bytes"] for each in dirs)


def lines(before: str, after: str) -> Iterator[str]:
    """Both pictures side by side.

    Args:
        before, after: outputs of ``spindle disks -o json``.
    """
    then, now = fills(before), fills(after)
    column = max([0, *map(len, now), *(2 + len(name) for disks in now.values() for name in disks)])
    yield f"{'':{column}}{_GAP}{'before':<{_WIDTH + 5}}{_GAP}after"
    for head, disks in now.items():
        for name, share in disks.items():
            was = then.get(head, {}).get(name)
            yield f"{'  ' + name if name else head:<{column}}{_GAP}{_bar(was)}{_GAP}{_bar(share)}"
    yield ""
    yield f"{'all disks':<{column}}{_GAP}{_range(then):<{_WIDTH + 5}}{_GAP}{_range(now)}"


def _bar(share: float | None) -> str:
    return f"{'absent':<{_WIDTH + 5}}" if share is None else f"{bar(share, _WIDTH)} {share:4.0%}"


def _range(found: Mapping[str, Fills]) -> str:
    shares = [share for disks in found.values() for name, share in disks.items() if name]
    return f"{min(shares):.0%} to {max(shares):.0%} full" if shares else "not known"
