"""Scrubbing: how inactive segments are checked for corruption, and what was found."""

from typing import Annotated, Final

from pydantic import Field

from spindle.api.common import ApiModel, Bytes, Count, Sentence, Time, TopicName, atomic, hint
from spindle.api.enums import SegmentErrorKind

FILES: Final = ("log", "index", "timeindex")
MOST_CORRUPT: Final = 20
MOST_ASKED: Final = 100


class ScrubPace(ApiModel):
    """Rate of scrubbing."""

    bytes_per_second: int = Field(
        10_000_000,
        description="Bytes per second that the agent reads from each disk for scrubbing while the disk is otherwise idle.",
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
    """What the agent scrubs, and how fast."""

    first: list[ReplicaName] = Field(
        default_factory=list,
        description="Replicas to check before all others because another broker's replica is corrupt. status.observed.disks[].scrub.sound "
        "lists those that are intact.",
        json_schema_extra=atomic(most=MOST_ASKED),
    )


class Scrub(ScrubPace):
    """Scrubbing: how inactive segments are checked for corruption."""

    enabled: bool = Field(
        True,
        description="Enable scrubbing: the agents read every inactive segment of every replica and verify checksums, headers and indexes.",
    )
    repair: bool = Field(
        False,
        description="Drop a replica with a corrupt segment and re-replicate it from the others, where the safety rules allow it. Otherwise "
        "corruption is only reported.",
    )


class CorruptSegment(ApiModel):
    """A segment with corruption that a second read confirmed."""

    topic: TopicName = Field(description="Topic of the replica.")
    partition: Count = Field(description="Partition of the replica.")
    segment: int = Field(
        description="Base offset of the segment, which names its files.",
        json_schema_extra={"format": "int64"},
    )
    kind: Annotated[str, Field(json_schema_extra={"enum": list(SegmentErrorKind)})] = Field(
        description="Kind of corruption: Crc (checksum), Magic, Length (header of a batch), Zeroed, Truncated, Offset, Epoch (order of "
        "offsets and of leader epochs), Index (offset index or time index), Unreadable (the disk returns no data)."
    )
    file: Annotated[str, Field(json_schema_extra={"enum": list(FILES)})] = Field(
        description="Affected file of the segment: log, index, timeindex."
    )
    position: Bytes = Field(description="Position in the file, in bytes, where the corruption begins.")
    offset: int | None = Field(
        None,
        description="First offset of the batch, if it is known.",
        json_schema_extra={"format": "int64"},
    )
    message: Sentence | None = Field(None, description="Description of the corruption.")
    finds: Count | None = Field(
        None, description="Number of findings in the segment; this entry is the first."
    )
    since: Time | None = Field(None, description="When it was first found.")


class ScrubProgress(ApiModel):
    """Progress of scrubbing a disk."""

    percent: Count | None = Field(
        None,
        description="Share of the bytes to check that was checked within everyDays, in whole per cent.",
    )
    oldest: Time | None = Field(
        None,
        description="Last check (or last write, if it was never checked) of the segment that was not checked for the longest time, rounded to "
        "the hour.",
    )
    corrupt: Count | None = Field(None, description="Number of corrupt segments.")
    sound: list[ReplicaName] = Field(
        default_factory=list,
        description="Replicas of spec.scrub.first on this disk whose inactive segments were all checked within everyDays without a single "
        "finding.",
        json_schema_extra=atomic(most=MOST_ASKED),
    )
