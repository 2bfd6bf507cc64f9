"""Usage levels of a disk: their order, what Spindle does at each, the thresholds, and the switches of the last-resort actions."""

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final

from pydantic import ConfigDict, Field

from spindle.api.common import Amount, ApiModel, hint, rule, rules


class UsageLevel(IntEnum):
    """The usage levels, from the lowest to the highest; each one includes the actions of those below it."""

    NORMAL = 0
    WARN = 1
    MOVE = 2
    CORDON = 3
    REJECT_MOVES = 4
    DROP_REPLICAS = 5
    REDUCE_RETENTION = 6
    DELETE_RECORDS = 7
    THROTTLE_PRODUCERS = 8
    BLOCK_PRODUCERS = 9

    @property
    def label(self) -> str:
        """The name in the status: ``DeleteRecords``."""
        return "".join(word.capitalize() for word in self.name.split("_"))


# What Spindle does at a level, for messages.
EFFECTS: Final = {
    UsageLevel.NORMAL: "There is enough free space.",
    UsageLevel.WARN: "No action is taken yet.",
    UsageLevel.MOVE: "Replicas are moved to disks with more free space.",
    UsageLevel.CORDON: "No new replica is placed on the disk, and replicas are moved away.",
    UsageLevel.REJECT_MOVES: "Moves to the disk are rejected.",
    UsageLevel.DROP_REPLICAS: "A replica is dropped where enough others are in sync.",
    UsageLevel.REDUCE_RETENTION: "The retention of the topics that fill the disk is halved.",
    UsageLevel.DELETE_RECORDS: "The oldest records on the disk are deleted.",
    UsageLevel.THROTTLE_PRODUCERS: "Producers without a quota of their own are throttled.",
    UsageLevel.BLOCK_PRODUCERS: "Producers of the topics on the disk are blocked.",
}


@dataclass(frozen=True)
class LastResort:
    """How an action that must be enabled in `LastResortActions` is reported.

    Attributes:
        reason: of the waiting entry that stands while its settings apply, or of the event of a deletion.
        means: that reason's meaning, for the reference page.
        restored: whether the former values are restored when the disk has free space again.
    """

    reason: str
    means: str
    restored: bool = True


# The levels whose action must be enabled. The field that enables it is named after the level.
LAST_RESORTS: Final = {
    UsageLevel.REDUCE_RETENTION: LastResort(
        "RetentionReduced", "the retention of topics that fill a disk is halved"
    ),
    UsageLevel.DELETE_RECORDS: LastResort(
        "RecordsDeleted",
        "the oldest records of partitions on a disk that is nearly full were deleted",
        restored=False,
    ),
    UsageLevel.THROTTLE_PRODUCERS: LastResort(
        "ProducersThrottled", "users without their own quota are throttled"
    ),
    UsageLevel.BLOCK_PRODUCERS: LastResort(
        "ProducersBlocked", "producers of topics on a disk get MESSAGE_TOO_LARGE"
    ),
}


_PERCENT = "thresholds are percentages of the disk between 1 and 99: write for example 85"


def _less(one: str, other: str) -> dict[str, str]:
    """A rule that the first of two amounts must be less than the second, if both are set and valid."""
    return rule(
        f"!has(self.{one}) || !has(self.{other}) || !isQuantity(self.{one}) || !isQuantity(self.{other}) || "
        f"quantity(self.{one}).isLessThan(quantity(self.{other}))",
        f"a higher level must have less free space: {one} must be less than {other}",
        field=f".{one}",
    )


class FreeThresholds(ApiModel):
    """Free space on a disk below which Spindle acts. For fields that are unset, only the percentage applies."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            *(
                _less(later, sooner)
                for sooner, later in pairwise(("warn", "move", "cordon", "rejectMoves", "blockProducers"))
            )
        )
    )

    warn: Amount | None = Field(None, description="Warn when less is free, a quantity: 300Gi.")
    move: Amount | None = Field(None, description="Move replicas away when less is free.")
    cordon: Amount | None = Field(None, description="Cordon the disk when less is free.")
    reject_moves: Amount | None = Field(None, description="Reject moves that would leave less free.")
    block_producers: Amount | None = Field(
        None, description="Block producers when less is free, if that is enabled in lastResortActions."
    )


class Thresholds(ApiModel):
    """Usage thresholds of a disk, as a percentage and as free bytes. The stricter one applies."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.warn < self.move && self.move < self.cordon && self.cordon < self.rejectMoves && self.rejectMoves < self.blockProducers",
                "thresholds must increase: warn < move < cordon < rejectMoves < blockProducers, like the defaults 70, 80, 85, 90, 95",
            ),
            rule(
                "self.hysteresis < self.warn",
                "hysteresis is how far usage must fall below a threshold before its action is undone: write less than warn, for example "
                "5",
                field=".hysteresis",
            ),
        )
    )

    warn: int = Field(
        70,
        description="Warn at this usage, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    move: int = Field(
        80,
        description="Move replicas away at this usage, first to other disks of the broker, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    cordon: int = Field(
        85,
        description="Cordon the disk at this usage (no new replica is placed on it), in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    reject_moves: int = Field(
        90,
        description="Reject moves that would take usage above this, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    block_producers: int = Field(
        95,
        description="Block producers at this usage, if that is enabled in lastResortActions, in per cent of the disk.",
        ge=1,
        le=99,
        json_schema_extra=hint(_PERCENT),
    )
    hysteresis: int = Field(
        5,
        description="How far usage must fall below a threshold before its action is undone, in percentage points.",
        ge=1,
        le=20,
        json_schema_extra=hint(
            "hysteresis is how far usage must fall below a threshold before its action is undone, between 1 and 20 percentage "
            "points: write for example 5"
        ),
    )
    free: FreeThresholds = Field(
        default_factory=FreeThresholds,
        description="The same thresholds as free bytes. Whichever is reached first applies.",
    )


class LastResortActions(ApiModel):
    """Actions on a nearly full disk that affect users' data or clients. Each must be enabled."""

    reduce_retention: bool = Field(
        False,
        description="Halve the retention (time and size) of the topics that fill the disk, while usage is at this level. Older records are "
        "lost.",
    )
    delete_records: bool = Field(
        False,
        description="Delete the oldest records of the partitions on the disk until usage is below the threshold. They are lost. Topics with "
        "cleanup.policy=compact only are not changed.",
    )
    throttle_producers: bool = Field(
        False,
        description="Throttle all users that have no quota of their own, on every broker, while usage of a disk is at this level.",
    )
    block_producers: bool = Field(
        False,
        description="Block producers of the topics that have a replica on the disk: they get MESSAGE_TOO_LARGE until there is space again. "
        "The disk stays in use.",
    )
