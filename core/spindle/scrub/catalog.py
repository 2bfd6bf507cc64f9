"""The segments of a log dir that can be checked, from the names of its directories and files."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_FOLDER: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,10})")
_LOG: Final = re.compile(r"(?P<base>\d{20})\.log")
_METADATA: Final = "__cluster_metadata"  # its log ends with snapshots, and belongs to the controllers


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
    """Topic and partition of a directory in a log dir.

    None for a directory that is not a partition's log, or that is being moved or deleted: Kafka appends a dot, an id and ``-future``,
    ``-delete`` or ``-stray`` to its name, which then does not end with a number.
    """
    match = _FOLDER.fullmatch(folder)
    if match is None or match["topic"] == _METADATA:
        return None
    return match["topic"], int(match["partition"])


def file_name(base: int, extension: str) -> str:
    """Name of a file of a segment."""
    return f"{base:020d}.{extension}"


def inactive(files: Iterable[str]) -> tuple[Segment, ...]:
    """The segments in a partition's directory to which Kafka no longer appends: all but the last one.

    Files with other names (``.deleted``, ``.cleaned``, ``.swap``) are temporary files of Kafka.
    """
    bases = sorted(int(match["base"]) for name in files if (match := _LOG.fullmatch(name)))
    return tuple(Segment(base, end) for base, end in pairwise(bases))
