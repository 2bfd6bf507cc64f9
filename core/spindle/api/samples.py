"""Samples that the agents publish for the rebalance job."""

from typing import Final

from pydantic import Field

from spindle.api import quantity
from spindle.api.common import ApiModel, Size, hint

HOUR_MS: Final = 3_600_000


class Samples(ApiModel):
    """Whether and how the agents publish samples to a topic of the cluster itself."""

    enabled: bool | None = Field(
        None,
        description="Publish samples. If unset, they are published if rebalance.schedule is set, because the rebalance job then reads them.",
    )
    interval_seconds: int = Field(
        300,
        description="Seconds between two samples of a broker.",
        ge=30,
        le=3600,
        json_schema_extra=hint("samples are taken every 30 to 3600 seconds: write for example 300"),
    )
    retention_hours: int = Field(
        672,
        description="Retention of samples in hours; 672 are four weeks.",
        ge=24,
        le=17520,
        json_schema_extra=hint(
            "samples are retained for 24 hours (forecasts need a day) to two years (17520): write for example 672"
        ),
    )
    retention_bytes: Size = Field(
        "10Gi",
        description="Maximum size of one replica of the samples topic, a quantity: 10Gi. The oldest samples are deleted first.",
    )

    @property
    def bytes(self) -> int:
        """``retentionBytes`` in bytes."""
        return quantity.whole(self.retention_bytes)
