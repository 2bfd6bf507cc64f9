"""The rebalance job: its image, resources and rollup, and the windows in which moves may start."""

from typing import Annotated

from pydantic import ConfigDict, Field

from spindle.api import names, quantity
from spindle.api.common import ApiModel, Name, ResourceRequirements, Size, hint, longest, rule, rules
from spindle.api.pod_template import PodTemplate

_FIELD = "[-0-9A-Za-z*/,]+"
CRON = f"^(@(hourly|daily|weekly|monthly)|{_FIELD}( {_FIELD}){{4}})$"


class Window(ApiModel):
    """A recurring time window."""

    start: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.matches('{CRON}')",
                    "start has the five cron fields (minute, hour, day, month, weekday) or is @daily: write for example '0 22 * * 1-5' for "
                    "22:00 UTC from Monday to Friday",
                ),
                maxLength=128,
            )
        ),
    ] = Field(description="Start of the window as a cron expression in UTC: '0 22 * * 1-5'.")
    duration_minutes: int = Field(
        description="Length of the window in minutes.",
        ge=1,
        le=10080,
        json_schema_extra=hint("a window lasts between 1 minute and a week (10080): write for example 360"),
    )


class Executors(ApiModel):
    """Executor pods of one run."""

    count: int = Field(
        2,
        description="Number of executors.",
        ge=1,
        le=64,
        json_schema_extra=hint(
            "a run has between 1 and 64 executors: write for example 2, or omit executors to run in one pod"
        ),
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of each executor. If unset, one core and 2Gi.",
    )


class Engine(ApiModel):
    """Image, resources and limits of the rebalance job."""

    image: Annotated[str, Field(json_schema_extra=longest(512))] | None = Field(
        None,
        description="Image of the job. If unset, rebalance.image of Spindle's Helm chart; without either, no job runs.",
    )
    resources: ResourceRequirements = Field(
        default_factory=ResourceRequirements,
        description="CPU and memory of the job's pod. If unset, it requests half a core and 2Gi, with a limit of 4Gi.",
    )
    executors: Executors | None = Field(
        None,
        description="Additional executor pods, for histories that are too large for one pod. The job's ServiceAccount is then allowed to "
        "manage pods in this namespace. If unset, the job's pod does all the work.",
    )
    local_scratch: Size | None = Field(
        None,
        description="Limit of scratch space on the node's disk for temporary files of a run (an emptyDir), a quantity: 10Gi. If unset, no "
        "limit.",
    )
    deadline_minutes: int = Field(
        60,
        description="Minutes after which a run is stopped and counts as failed.",
        ge=1,
        le=1440,
        json_schema_extra=hint("a run may take between 1 minute and a day (1440): write for example 60"),
    )

    pod_template: PodTemplate | None = Field(
        None, description="What is added to the pods of the job, and, but for containers, to its executors."
    )

    @property
    def scratch_bytes(self) -> int | None:
        """Limit of the scratch space in bytes; None for no limit."""
        return quantity.whole(self.local_scratch) if self.local_scratch else None


_FILES = f"file://{names.ROLLUP_DIR}"
_SETTING = "^[A-Za-z][-A-Za-z0-9_.]*$"


class Rollup(ApiModel):
    """Where hourly features are kept for longer than samples."""

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
        description="Base directory of the hourly files, with a subdirectory for each namespace, cluster and Kafka cluster id: "
        f"any URL that Hadoop can write to and for which the job's image has the classes, or {_FILES} on a claim."
    )
    claim_name: Name | None = Field(
        None,
        description=f"A PersistentVolumeClaim in the same namespace that is mounted at {names.ROLLUP_DIR}. With executors its access mode "
        "must be ReadWriteMany. Its owner must label it spindle.dev/usable-by: <KafkaCluster>.",
    )
    secret_name: Name | None = Field(
        None,
        description="A Secret in the same namespace whose keys become environment variables of the job and its executors: credentials for "
        "the file system, for example AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Its owner must label it "
        "spindle.dev/usable-by: <KafkaCluster>.",
    )
    settings: Annotated[
        dict[str, Annotated[str, Field(json_schema_extra=longest(1024))]],
        Field(
            json_schema_extra=rules(
                rule(
                    f"self.all(k, k.matches('{_SETTING}'))",
                    "keys are names of Hadoop settings: write for example fs.s3a.endpoint",
                ),
                maxProperties=32,
            )
        ),
    ] = Field(
        default_factory=dict,
        description="Hadoop settings for the file system: endpoints, credentials, sizes and retries of S3, Azure, Google Cloud Storage and HDFS, and "
        "what the chart's value allow.hadoopSettings names. They are readable in the job's pod: put credentials into secretName.",
    )
