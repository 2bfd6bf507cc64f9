"""What is in the slot of a disk that is out of use: a new disk, the old one, or a foreign one.

See "no disk mistaken for another" (`docs/safety.md`, rule 7).
"""

from dataclasses import dataclass
from enum import StrEnum

from spindle.model.waiting import Waiting

NO_UUID = "none"  # recorded for a file system that has no UUID


class SlotContent(StrEnum):
    """The content of a slot."""

    EMPTY = "empty"  # nothing, or a disk that does not answer
    NEW = "new"  # blank, and certainly not the previous disk
    OLD = "old"  # the previous disk, wiped or not
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlotObservation:
    """The observed state of a slot.

    Attributes:
        content: ``ours``, ``blank``, ``foreign`` or ``unknown``; None if it was not inspected.
        well: whether the disk there answers and is writable.
        fs_uuid: of the file system there.
        pv_uid: of the volume that the slot's claim is bound to now.
        message: the agent's message on it.
    """

    content: str | None
    well: bool
    fs_uuid: str | None = None
    pv_uid: str | None = None
    message: str = ""


def classify_slot(seen: SlotObservation, fs_uuid: str | None, pv_uid: str | None) -> SlotContent:
    """Classify the slot of an evacuated disk.

    Args:
        seen: what is there now.
        fs_uuid, pv_uid: of the previous disk, as recorded.
    """
    if pv_uid is not None and seen.pv_uid is not None and seen.pv_uid != pv_uid:
        return SlotContent.NEW  # another volume: preflight verifies that it is blank
    if seen.content is None:
        return SlotContent.UNKNOWN
    if not seen.well:
        return SlotContent.EMPTY
    if seen.content == "blank":
        another = (seen.fs_uuid or NO_UUID) != (fs_uuid or NO_UUID)
        return SlotContent.NEW if another else SlotContent.OLD
    if seen.content == "ours":
        return SlotContent.OLD
    return SlotContent.FOREIGN if seen.content == "foreign" else SlotContent.UNKNOWN


def unexpected_disk(broker: int, disk: str, slot: SlotContent, message: str) -> Waiting | None:
    """Why the disk in the slot is not used as a replacement; None if there is nothing to report."""
    if slot is SlotContent.OLD:
        return Waiting.refused(
            rule=7,
            reason="RetiredDiskReinserted",
            message=f"The slot of {disk} of broker {broker} contains the disk that was evacuated. Spindle does not use it.",
            unblocked_by="Insert a new disk; or, if this disk is healthy and its data is not needed, create a new file system on it.",
        )
    if slot is SlotContent.FOREIGN:
        said = message.rstrip(".") or "it contains unrelated data"
        return Waiting.refused(
            rule=7,
            reason="UnexpectedDisk",
            message=f"The slot of {disk} of broker {broker} contains a disk that does not belong there: {said}. Spindle does not use it.",
            unblocked_by="Insert a new disk; or, if the data on this one is not needed, create a new file system on it.",
        )
    return None
