"""What outlives the agent: when each segment was checked, and what was found. One text, with a checksum in its first line."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from spindle.scrub.doubts import Place, Trouble
from spindle.scrub.finds import Find, Kind
from spindle.scrub.schedule import Run, Runs

_HEAD: Final = "spindle-scrub-1"


@dataclass(frozen=True)
class Memory:
    """Of one log dir."""

    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    troubles: tuple[Trouble, ...] = ()
    suspects: tuple[Trouble, ...] = ()


def render(
    directory_id: str, runs: Runs, troubles: Sequence[Trouble], suspects: Sequence[Trouble] = ()
) -> bytes:
    """As it is written to the disk; times in whole seconds."""
    document = {
        "runs": {
            folder: [[run.first, run.end, int(run.at)] for run in mine] for folder, mine in runs.items()
        },
        "troubles": [_entry(trouble) for trouble in troubles],
        "suspects": [_entry(suspect) for suspect in suspects],
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    return f"{_HEAD} {directory_id} {zlib.crc32(body):08x}\n".encode() + body


def parse(data: bytes, directory_id: str) -> Memory:
    """What was written; nothing, if it is of another log dir, of another version, or not as it was written: then all is checked anew."""
    head, _, body = data.partition(b"\n")
    if head != f"{_HEAD} {directory_id} {zlib.crc32(body):08x}".encode():
        return Memory()
    try:
        return _memory(json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return Memory()  # a checksum anybody can make


def _memory(document: Mapping[str, Any]) -> Memory:
    return Memory(
        {
            folder: tuple(Run(int(first), int(end), float(at)) for first, end, at in mine)
            for folder, mine in document["runs"].items()
        },
        tuple(_trouble(entry) for entry in document["troubles"]),
        tuple(_trouble(entry) for entry in document.get("suspects", ())),  # earlier ones did not keep them
    )


def _entry(trouble: Trouble) -> list[Any]:
    place, finds = trouble.place, [astuple(find) for find in trouble.finds]
    return [place.folder, place.base, trouble.identity, finds, trouble.since]


def _trouble(entry: list[Any]) -> Trouble:
    folder, base, identity, finds, since = entry
    return Trouble(
        Place(str(folder), int(base)),
        tuple(tuple(int(part) for part in file) for file in identity),
        tuple(_find(find) for find in finds),
        float(since),
        0.0,
    )


def _find(entry: list[Any]) -> Find:
    kind, file, position, offset, message = entry
    return Find(Kind(kind), str(file), int(position), None if offset is None else int(offset), str(message))
