"""Checking what lies on the disks and is not read: how it is to be done, and what was found."""

from typing import Annotated, Final

from pydantic import Field

from spindle.api.common import ApiModel, Bytes, Count, Sentence, Time, TopicName, atomic, hint

KINDS: Final = ("Crc", "Magic", "Length", "Zeroed", "Truncated", "Offset", "Epoch", "Index", "Unreadable")
FILES: Final = ("log", "index", "timeindex")
MOST_CORRUPT: Final = 20
MOST_ASKED: Final = 100


class ScrubPace(ApiModel):
    """How fast an agent reads."""

    bytes_per_second: int = Field(
        10_000_000,
        description="Bytes per second that are read from each disk for it, when nobody else wants the disk.",
        ge=65536,
        json_schema_extra=hint(
            "scrub.bytesPerSecond is a number of bytes, at least 65536: write for example 10000000",
            format="int64",
        ),
    )
    every_days: int = Field(
        30,
        description="Days within which each segment is checked again.",
        ge=1,
        le=365,
        json_schema_extra=hint("segments are checked every 1 to 365 days: write for example 30"),
    )


class ReplicaName(ApiModel):
    """One replica of a broker."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")


class BrokerScrub(ScrubPace):
    """What the agent is to read, and how fast."""

    first: list[ReplicaName] = Field(
        default_factory=list,
        description="Replicas that are checked before all others, because another broker's is corrupt: whether they are sound is told in "
        "status.observed.disks[].scrub.sound.",
        json_schema_extra=atomic(most=MOST_ASKED),
    )


class Scrub(ScrubPace):
    """How segments that nobody writes to any more are checked for what disks do to them."""

    enabled: bool = Field(
        True,
        description="Check them: the agents read every segment of every replica, all but the active ones, and compare checksums, "
        "headers and indexes.",
    )
    repair: bool = Field(
        False,
        description="Drop a replica with a corrupt segment and make it anew from the others, where the rules allow it. Without this a "
        "person is told, and nothing is done.",
    )


class CorruptSegment(ApiModel):
    """A segment in which something was found, twice."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    segment: int = Field(
        description="Base offset of the segment, after which its files are named.",
        json_schema_extra={"format": "int64"},
    )
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})] = Field(
        description="What is wrong: Crc (a checksum), Magic, Length (a batch's header), Zeroed, Truncated, Offset, Epoch (the order of "
        "offsets and of leader epochs), Index (an index, or its time index), Unreadable (the disk does not give it)."
    )
    file: Annotated[str, Field(json_schema_extra={"enum": list(FILES)})] = Field(
        description="Which of the segment's files it is in: log, index, timeindex."
    )
    position: Bytes = Field(description="Byte of the file at which it begins.")
    offset: int | None = Field(
        None,
        description="First offset of the batch, as far as that can be told.",
        json_schema_extra={"format": "int64"},
    )
    message: Sentence | None = Field(None, description="What it is.")
    finds: Count | None = Field(
        None, description="How many things were found in the segment; this is the first."
    )
    since: Time | None = Field(None, description="When it was first seen.")


class ScrubProgress(ApiModel):
    """How far the checking of a disk is."""

    percent: Count | None = Field(
        None,
        description="How much of what is to be checked was checked within everyDays, in whole per cent of its bytes.",
    )
    oldest: Time | None = Field(
        None,
        description="Since when the segment that waits longest has been unchecked: its last check, or its last write. To the hour.",
    )
    corrupt: Count | None = Field(None, description="How many segments are corrupt.")
    sound: list[ReplicaName] = Field(
        default_factory=list,
        description="Those of spec.scrub.first on this disk of which every segment at rest was checked within everyDays, and in which "
        "nothing was found, not even once.",
        json_schema_extra=atomic(most=MOST_ASKED),
    )
