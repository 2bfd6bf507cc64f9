"""What of a log dir is there to be checked, from the names of its folders and files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_LOG: Final = re.compile(r"(?P<base>\d{20})\.log")
_METADATA: Final = "__cluster_metadata"  # its log ends with snapshots, and is the controllers'


@dataclass(frozen=True, slots=True)
class Segment:
    """An inactive segment.

    Attributes:
        base: its base offset.
        end: base offset of the next one.
    """

    base: int
    end: int


def partition_of(folder: str) -> tuple[str, int] | None:
    """Topic and partition that a folder of a log dir holds the log of.

    None for what is no partition's folder, and for copies on their way in or out: Kafka appends a dot, an id and ``-future``,
    ``-delete`` or ``-stray`` to the name of these, which does not end with a number then.
    """
    match = _FOLDER.fullmatch(folder)
    if match is None or match["topic"] == _METADATA:
        return None
    return match["topic"], int(match["partition"])


def file_name(base: int, extension: str) -> str:
    """Name of a segment's file."""
    return f"{base:020d}.{extension}"


def inactive(files: Iterable[str]) -> tuple[Segment, ...]:
    """The segments of a partition's folder that Kafka appends nothing to any more: all but the last one.

    Files of other names (``.deleted``, ``.cleaned``, ``.swap``) are Kafka's own comings and goings.
    """
    bases = sorted(int(match["base"]) for name in files if (match := _LOG.fullmatch(name)))
    return tuple(Segment(base, end) for base, end in pairwise(bases))
