"""The values of fields that Spindle itself writes, as the CRDs list them."""

from enum import IntEnum, StrEnum
from typing import Final


class DiskVerdict(StrEnum):
    """Verdict of the probes of a disk."""

    HEALTHY = "Healthy"
    SUSPECT = "Suspect"  # abnormal; no action yet
    SLOW = "Slow"
    FAILED = "Failed"
    MISSING = "Missing"  # nothing is mounted there
    SWAPPED = "Swapped"  # another file system is mounted there

    @property
    def bad(self) -> bool:
        """Whether the disk cannot serve its replicas."""
        return self in BAD_VERDICTS


BAD_VERDICTS: Final = frozenset({DiskVerdict.FAILED, DiskVerdict.MISSING, DiskVerdict.SWAPPED})


class DiskContent(StrEnum):
    """What is on a disk, compared with its record."""

    OURS = "ours"
    BLANK = "blank"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class DiskState(StrEnum):
    """State of a disk (``status.disks[].state`` of a KafkaBroker)."""

    PROVISIONING = "Provisioning"
    ACTIVE = "Active"
    CORDONED = "Cordoned"
    FAILED = "Failed"
    EVACUATING = "Evacuating"
    EVACUATED = "Evacuated"
    REPLACING = "Replacing"
    BACKFILLING = "Backfilling"
    DRAINING = "Draining"
    DRAINED = "Drained"
    REMOVED = "Removed"


class Pressure(IntEnum):
    """Load of a disk; of several disks the highest counts."""

    CALM = 0
    BUSY = 1
    STRAINED = 2

    @property
    def label(self) -> str:
        """The name in the status: ``Busy``."""
        return self.name.capitalize()


class DirMoveState(StrEnum):
    """State of a move between two log dirs of a broker."""

    QUEUED = "Queued"
    COPYING = "Copying"
    DONE = "Done"
    FAILED = "Failed"


class SegmentErrorKind(StrEnum):
    """Kinds of corruption of a segment, as named in the status and in metrics."""

    CRC = "Crc"  # a batch's checksum does not match its bytes
    MAGIC = "Magic"  # not a format of batches that Kafka ever had
    LENGTH = "Length"  # a batch's length, or its number of records, is invalid
    ZEROED = "Zeroed"  # zeros where a batch should start
    TRUNCATED = "Truncated"  # the file ends inside a batch
    OFFSET = "Offset"  # offsets are not ascending, or are outside the segment
    EPOCH = "Epoch"  # leader epochs are not ascending
    INDEX = "Index"  # an index is missing, or does not match the log
    UNREADABLE = "Unreadable"  # the disk returns an error instead of the bytes


class StartKind(StrEnum):
    """How a broker was stopped before its start, as far as its log dirs show that."""

    CLEAN = "Clean"
    DIRTY = "Dirty"
    EMPTY = "Empty"  # there was nothing to load


class ProposalPhase(StrEnum):
    """Phases of a proposal."""

    PROPOSED = "Proposed"
    APPROVED = "Approved"
    EXECUTING = "Executing"
    DONE = "Done"
    STOPPED = "Stopped"
    EXPIRED = "Expired"
    SUPERSEDED = "Superseded"
    FAILED = "Failed"

    @property
    def over(self) -> bool:
        """Whether the proposal is finished."""
        return self not in (ProposalPhase.PROPOSED, ProposalPhase.APPROVED, ProposalPhase.EXECUTING)
