"""Where and with what the rebalance job runs, what it keeps, and when what it proposes may be carried out."""

from typing import Annotated

from pydantic import ConfigDict, Field

from spindle.api import quantity
from spindle.api.common import ApiModel, Name, ResourceRequirements, Size, hint, longest, rule, rules
from spindle.cluster import names

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


_FILES = f"file://{names.ROLLUP_DIR}"
_SETTING = "^[A-Za-z][-A-Za-z0-9_.]*$"


class Rollup(ApiModel):
    """Where hours of features are kept for longer than samples are."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.path) || (self.path.matches('^{_FILES}(/|$)') == has(self.claimName))",
                f"a claim is mounted at {names.ROLLUP_DIR}: write path: {_FILES} together with claimName, and no claimName with "
                "any other file system",
            )
        )
    )

    path: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('^[a-z][a-z0-9+.-]*://.+$') && (!self.startsWith('file:') || self.matches('^{_FILES}(/|$)'))",
                    "path is a URL that Hadoop can write to: write for example s3a://bucket/spindle, or "
                    f"{_FILES} together with claimName",
                ),
                maxLength=1024,
            )
        ),
    ] = Field(
        description="Folder that the hours are written below, in folders of their own for namespace, cluster and Kafka's cluster id: "
        f"any URL that Hadoop can write to and the job's image has the classes for, or {_FILES} on a claim."
    )
    claim_name: Name | None = Field(
        None,
        description=f"A PersistentVolumeClaim of the same namespace that is mounted at {names.ROLLUP_DIR}. With executors it has to be one "
        "that several nodes can write to. Its owner has to have labelled it spindle.dev/usable-by: <KafkaCluster>.",
    )
    secret_name: Name | None = Field(
        None,
        description="A Secret of the same namespace whose keys become environment variables of the job and its executors: credentials "
        "for the file system, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Its owner has to have labelled it spindle.dev/usable-by: <KafkaCluster>.",
    )
    settings: Annotated[
        dict[str, Annotated[str, Field(json_schema_extra=longest(1024))]],
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.all(k, k.matches('{_SETTING}'))",
                    "keys are names of Hadoop's settings: write for example fs.s3a.endpoint",
                ),
                maxProperties=32,
            )
        ),
    ] = Field(
        default_factory=dict,
        description="Hadoop's settings for the file system. They can be read in the job's pod: credentials belong into secretName.",
    )
