"""The verdicts of the probes of a disk."""

from enum import StrEnum
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
        return self in _BAD


_BAD: Final = {DiskVerdict.FAILED, DiskVerdict.MISSING, DiskVerdict.SWAPPED}
