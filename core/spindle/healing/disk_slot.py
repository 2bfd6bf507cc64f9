"""What lies in the slot of a disk that is out of use: a new disk, the old one again, or somebody else's (rule 7)."""

from dataclasses import dataclass
from enum import StrEnum

from spindle.cluster.waiting import Waiting

NO_UUID = "none"  # recorded for a file system that has no UUID


class SlotContent(StrEnum):
    """What lies in a slot."""

    EMPTY = "empty"  # nothing, or nothing that answers
    NEW = "new"  # blank, and surely another one than before
    OLD = "old"  # the disk that was there before, wiped or not
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class SlotObservation:
    """What is known of a slot.

    Attributes:
        content: ``ours``, ``blank``, ``foreign`` or ``unknown``; None if nobody looked.
        well: whether what is there answers, and can be written.
        fs_uuid: of the file system there.
        pv_uid: of the volume that the slot's claim is bound to now.
        message: what the agent says of it.
    """

    content: str | None
    well: bool
    fs_uuid: str | None = None
    pv_uid: str | None = None
    message: str = ""


def classify_slot(seen: SlotObservation, fs_uuid: str | None, pv_uid: str | None) -> SlotContent:
    """Judge a slot whose disk was evacuated.

    Args:
        seen: what is there.
        fs_uuid, pv_uid: of the disk that was there before, as recorded.
    """
    if pv_uid is not None and seen.pv_uid is not None and seen.pv_uid != pv_uid:
        return SlotContent.NEW  # another volume: preflight sees to it that it is blank
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
    """What to say of a disk that is not used for a replacement; None if there is nothing to say."""
    if slot is SlotContent.OLD:
        return Waiting.refused(
            rule=7,
            reason="RetiredDiskReinserted",
            message=f"In the slot of {disk} of broker {broker} is the disk that was evacuated. It is left alone.",
            unblocked_by="Put a new disk in; or, if this one is well and nobody needs what is on it, make a new file system on it.",
        )
    if slot is SlotContent.FOREIGN:
        said = message.rstrip(".") or "it carries somebody else's data"
        return Waiting.refused(
            rule=7,
            reason="UnexpectedDisk",
            message=f"In the slot of {disk} of broker {broker} is a disk that does not belong there: {said}. It is left alone.",
            unblocked_by="Put a new disk in; or, if nobody needs what is on this one, make a new file system on it.",
        )
    return None
