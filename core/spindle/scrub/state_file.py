"""State that survives a restart of the agent: when each segment was checked, and the findings. A text with a checksum in its first line."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from spindle.api.enums import SegmentErrorKind
from spindle.scrub.confirmation import SegmentPlace, SegmentProblem
from spindle.scrub.schedule import Run, Runs
from spindle.scrub.segment_errors import SegmentError

_HEAD: Final = "spindle-scrub-1"


@dataclass(frozen=True)
class ScrubState:
    """State of one log dir."""

    runs: Mapping[str, tuple[Run, ...]] = field(default_factory=dict)
    troubles: tuple[SegmentProblem, ...] = ()
    suspects: tuple[SegmentProblem, ...] = ()


def render(
    directory_id: str, runs: Runs, troubles: Sequence[SegmentProblem], suspects: Sequence[SegmentProblem] = ()
) -> bytes:
    """The state as text for the disk; times in whole seconds."""
    document = {
        "runs": {
            folder: [[run.first, run.end, int(run.at)] for run in mine] for folder, mine in runs.items()
        },
        "troubles": [_entry(trouble) for trouble in troubles],
        "suspects": [_entry(suspect) for suspect in suspects],
    }
    body = json.dumps(document, separators=(",", ":")).encode()
    return f"{_HEAD} {directory_id} {zlib.crc32(body):08x}\n".encode() + body


def parse(data: bytes, directory_id: str) -> ScrubState:
    """Parse the state; empty if it belongs to another log dir, has another version, or is corrupt: then everything is checked again."""
    head, _, body = data.partition(b"\n")
    if head != f"{_HEAD} {directory_id} {zlib.crc32(body):08x}".encode():
        return ScrubState()
    try:
        return _memory(json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return ScrubState()  # a checksum anybody can make


def _memory(document: Mapping[str, Any]) -> ScrubState:
    return ScrubState(
        {
            folder: tuple(Run(int(first), int(end), float(at)) for first, end, at in mine)
            for folder, mine in document["runs"].items()
        },
        tuple(_trouble(entry) for entry in document["troubles"]),
        tuple(
            _trouble(entry) for entry in document.get("suspects", ())
        ),  # earlier versions did not store them
    )


def _entry(trouble: SegmentProblem) -> list[Any]:
    place, finds = trouble.place, [astuple(find) for find in trouble.finds]
    return [place.folder, place.base, trouble.identity, finds, trouble.since]


def _trouble(entry: list[Any]) -> SegmentProblem:
    folder, base, identity, finds, since = entry
    return SegmentProblem(
        SegmentPlace(str(folder), int(base)),
        tuple(tuple(int(part) for part in file) for file in identity),
        tuple(_find(find) for find in finds),
        float(since),
        0.0,
    )


def _find(entry: list[Any]) -> SegmentError:
    kind, file, position, offset, message = entry
    return SegmentError(
        SegmentErrorKind(kind),
        str(file),
        int(position),
        None if offset is None else int(offset),
        str(message),
    )
