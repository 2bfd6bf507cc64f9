"""Where and with what the rebalance job runs, and when what it proposes may be carried out."""

from typing import Annotated

from pydantic import Field

from spindle.api import quantity
from spindle.api.common import ApiModel, ResourceRequirements, Size, hint, longest, rule, rules

_FIELD = "[-0-9A-Za-z*/,]+"
CRON = f"^(@(hourly|daily|weekly|monthly)|{_FIELD}( {_FIELD}){{4}})$"


class Window(ApiModel):
    """A stretch of time that comes again and again."""

    start: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{CRON}')",
                    "start has the five fields of cron (minute, hour, day, month, weekday) or is @daily: write for "
                    "example '0 22 * * 1-5' for ten in the evening from Monday to Friday, UTC",
                ),
                maxLength=128,
            )
        ),
    ] = Field(description="When it begins, as cron writes it, in UTC: '0 22 * * 1-5'.")
    duration_minutes: int = Field(
        description="How long it lasts, in minutes.",
        ge=1,
        le=10080,
        json_schema_extra=hint("a window lasts between 1 minute and a week (10080): write for example 360"),
    )


class Executors(ApiModel):
    """Pods that share the work of one run."""

    count: int = Field(
        2,
        description="How many.",
        ge=1,
        le=64,
        json_schema_extra=hint(
            "a run has between 1 and 64 executors: write for example 2, or leave executors out to run in one pod"
        ),
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each. Left out, one core and 2Gi.",
    )


class Engine(ApiModel):
    """Where and with what a run of the rebalance job works."""

    image: Annotated[str, Field(json_schema_extra=longest(512))] | None = Field(
        None, description="Image of the job. Left out, the one that the operator was installed with."
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of the job's pod. Left out, half a core and 2Gi are set aside, and 4Gi are the most.",
    )
    executors: Executors | None = Field(
        None,
        description="Further pods that share the work, for histories that are too large for one. The job's ServiceAccount may then "
        "handle pods in this namespace. Left out, all is done in the job's pod.",
    )
    local_scratch: Size | None = Field(
        None,
        description="Space on the node's own disk for what a run puts aside (an emptyDir), a quantity: 10Gi. Left out, without a limit.",
    )
    deadline_minutes: int = Field(
        60,
        description="Minutes after which a run is ended as failed.",
        ge=1,
        le=1440,
        json_schema_extra=hint("a run may take between 1 minute and a day (1440): write for example 60"),
    )

    @property
    def scratch_bytes(self) -> int | None:
        """What may be put aside, in bytes; None for no limit."""
        return quantity.whole(self.local_scratch) if self.local_scratch else None
