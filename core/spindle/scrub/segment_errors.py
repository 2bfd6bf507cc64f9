"""Kinds of corruption of a segment."""

from dataclasses import dataclass

from spindle.api.enums import SegmentErrorKind

LOG = "log"
OFFSETS = "index"
TIMES = "timeindex"


@dataclass(frozen=True)
class SegmentError:
    """One finding.

    Attributes:
        file: extension of the segment's file: ``log``, ``index`` or ``timeindex``.
        position: position in that file at which it starts.
        offset: first offset of the batch if it is known, else None.
        message: a clause for the user.
    """

    kind: SegmentErrorKind
    file: str
    position: int
    offset: int | None
    message: str
