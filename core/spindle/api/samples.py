"""What the agents publish for the job that makes plans."""

from typing import Final

from pydantic import Field

from spindle.api import quantity
from spindle.api.common import ApiModel, Size, hint

HOUR_MS: Final = 3_600_000


class Samples(ApiModel):
    """Whether and how the agents publish what they see, to a topic of the cluster itself."""

    enabled: bool | None = Field(
        None,
        description="Publish samples. Left out: if rebalance.schedule is set, for then there is somebody who reads them.",
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
        description="Hours for which samples are kept; 672 are four weeks.",
        ge=24,
        le=17520,
        json_schema_extra=hint(
            "samples are kept for 24 hours (forecasts need a day) to two years (17520): write for example 672"
        ),
    )
    retention_bytes: Size = Field(
        "10Gi",
        description="Most bytes of samples that one copy of the topic holds, a quantity: 10Gi. The oldest go first.",
    )

    @property
    def bytes(self) -> int:
        """``retentionBytes`` as a number."""
        return quantity.whole(self.retention_bytes)
