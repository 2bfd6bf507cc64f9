"""``spindle disks``: usage of each broker and each disk, as text bars."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console

from spindle.api import names
from spindle_cli.errors import ClientError
from spindle_cli.kafka_client import Access, DirView, connect
from spindle_cli.output import Output, structured
from spindle_cli.overview import size

_FULL: Final = "█"
_PARTS: Final = " ▏▎▍▌▋▊▉"  # eighths
_EMPTY: Final = "·"


Found = Mapping[int, Sequence[DirView] | str]


def show(access: Access, width: int, console: Console, form: Output = Output.TABLE) -> bool:
    """Describe all log dirs and print them; True if every broker answered and every log dir is online.

    Args:
        width: characters of a full bar (100 % of a disk, or of a broker's disks together).
        form: for json and yaml, the result of `document` instead of bars; json on one line.
    """
    found: dict[int, list[DirView] | str] = {}
    with connect(access) as client:
        racks = client.racks()
        for broker in sorted(racks):
            try:
                found[broker] = client.dirs(broker)
            except ClientError as error:
                found[broker] = str(error)
    shown: Iterable[str]
    if form is Output.JSON:
        shown = [json.dumps(document(racks, found))]
    elif form is Output.YAML:
        shown = structured(document(racks, found), form).splitlines()
    else:
        shown = lines(racks, found, width)
    for line in shown:
        console.print(line, soft_wrap=True, markup=False)
    return all(not isinstance(dirs, str) and all(each.online for each in dirs) for dirs in found.values())


def document(racks: Mapping[int, str], found: Found) -> list[dict[str, Any]]:
    """One object per broker: ``broker``, ``rack``, and ``dirs`` as `DirView` has them, or ``error``."""
    return [
        {
            "broker": broker,
            "rack": racks.get(broker, ""),
            **({"error": dirs} if isinstance(dirs, str) else {"dirs": [asdict(each) for each in dirs]}),
        }
        for broker, dirs in found.items()
    ]


def lines(racks: Mapping[int, str], found: Found, width: int) -> Iterator[str]:
    """A line for each broker and one for each of its log dirs.

    Args:
        racks: broker → rack, empty where there are none.
        found: broker → its log dirs, or the error that the broker returned.
        width: characters of a bar.
    """
    heads = {b: f"broker {b}" + (f"  {racks[b]}" if racks.get(b) else "") for b in found}
    names_of = {
        each.path: name_of(each.path) for dirs in found.values() if not isinstance(dirs, str) for each in dirs
    }
    column = max([0, *map(len, heads.values()), *(2 + len(name) for name in names_of.values())])
    for broker, dirs in found.items():
        if isinstance(dirs, str):
            yield f"{heads[broker]:<{column}}  {dirs}"
            continue
        yield f"{heads[broker]:<{column}}  {_line(dirs, width)}"
        for each in dirs:
            yield f"  {names_of[each.path]:<{column - 2}}  {_line([each], width)}"


def bar(share: float, width: int) -> str:
    """A bar of ``width`` characters, exact to an eighth of a character; any share above 0 is visible.

    Args:
        share: 0 to 1.
    """
    eighths = min(8 * width, max(round(8 * width * share), int(share > 0)))
    whole, part = divmod(eighths, 8)
    drawn = _FULL * whole + (_PARTS[part] if part else "")
    return drawn + _EMPTY * (width - len(drawn))


def _line(dirs: Sequence[DirView], width: int) -> str:
    """Bar, percentage, bytes and replica count of some log dirs together."""
    online = [each for each in dirs if each.online]
    if not online:
        return f"{'offline':^{width}}"
    held = sum(each.bytes for each in online)
    logs = f"{sum(each.replicas for each in online):>4} replicas of {size(held)}"
    capacity = sum(each.capacity or 0 for each in online)
    if not capacity or any(each.capacity is None or each.usable is None for each in online):
        return f"{'size unknown':^{width}}  {logs}"
    used = capacity - sum(each.usable or 0 for each in online)
    return f"{bar(used / capacity, width)} {used / capacity:4.0%} of {size(capacity):>8} {logs}"


def name_of(path: str) -> str:
    """``disk0`` for a log dir of Spindle, else the full path."""
    return path.removeprefix(f"{names.DISKS_ROOT}/").removesuffix(f"/{names.LOG_SUBDIR}")
