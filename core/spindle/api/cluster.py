"""KafkaCluster: the desired and the observed state of a Kafka cluster."""

from typing import Annotated

from pydantic import ConfigDict, Field

from spindle.api.cluster_status import (
    DiskTally,
    KafkaClusterStatus,
    RackStatus,
    TakingDown,
    Tally,
    WaitingEntry,
)
from spindle.api.common import ApiModel, ObjectMeta, list_map, longest, rule, rules
from spindle.api.kafka_logging import Logging
from spindle.api.listeners import Listener, Listeners, ListenerStatus
from spindle.api.metrics import Metrics
from spindle.api.names import API_VERSION
from spindle.api.pod_template import TemplateMetadata
from spindle.api.policy import (
    RACK_AWARE,
    REPLICA_SELECTOR,
    DiskPolicy,
    Racks,
    Rebalance,
    RollingPolicy,
    Scheduling,
)
from spindle.api.pools import MAX_DISKS, BrokerPool, Config, Controllers, PoolDisks, Storage
from spindle.api.security import Security
from spindle.api.thresholds import FreeThresholds, LastResortActions, Thresholds

__all__ = [
    "BrokerPool",
    "Controllers",
    "DiskPolicy",
    "DiskTally",
    "FreeThresholds",
    "KafkaCluster",
    "KafkaClusterSpec",
    "KafkaClusterStatus",
    "LastResortActions",
    "Listener",
    "ListenerStatus",
    "PoolDisks",
    "RackStatus",
    "Racks",
    "Scheduling",
    "Security",
    "Storage",
    "TakingDown",
    "Tally",
    "Thresholds",
    "WaitingEntry",
]


MAX_POOLS = 12  # with more, the CEL rules on quantities exceed the API server's cost limit


MAX_BROKERS = 8999
# One reconcile pass computes all disks of a cluster, and one operator manages many clusters: the installation allows fewer (`Allowed.disks`).
MAX_CLUSTER_DISKS = 20000


# A CEL expression: how many disks a broker of a pool can have.
_MOST_DISKS = f"p.disks.all ? (has(p.disks.maxCount) ? p.disks.maxCount : {MAX_DISKS}) : has(p.disks.count) ? p.disks.count : 0"


def _chooses_otherwise(config: str) -> str:
    """A CEL expression: whether a configuration sets another class than the one of racks.followerFetching."""
    return f"has({config}) && {REPLICA_SELECTOR!r} in {config} && {config}[{REPLICA_SELECTOR!r}] != {RACK_AWARE!r}"


# A CEL expression: whether two listeners, of which the first has a nodePortBase, need different node ports.
_APART = (
    "a.name == b.name || !has(b.nodePortBase) || b.nodePortBase < a.nodePortBase || "
    "b.nodePortBase - a.nodePortBase >= self.brokerPools.map(p, p.replicas).sum()"
)


class KafkaClusterSpec(ApiModel):
    """Desired state of the cluster."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!self.racks.followerFetching || !({_chooses_otherwise('self.config')})",
                f"config sets {REPLICA_SELECTOR}, and racks.followerFetching needs Kafka's own class there: remove it from config, or remove "
                "racks.followerFetching",
                field=".config",
            ),
            rule(
                f"!self.racks.followerFetching || !self.brokerPools.exists(p, {_chooses_otherwise('p.config')})",
                f"the config of a pool sets {REPLICA_SELECTOR}, and racks.followerFetching needs Kafka's own class there: remove it from "
                "brokerPools[].config, or remove racks.followerFetching",
                field=".brokerPools",
            ),
            rule(
                f"!has(self.listeners) || self.listeners.all(a, !has(a.nodePortBase) || self.listeners.all(b, {_APART}))",
                "the node ports of two listeners overlap, because each broker's is nodePortBase plus its node id: choose bases that are further apart "
                "than the highest node id of a broker, for example 31000 and 31100",
                field=".listeners",
            ),
        )
    )

    version: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[0-9]{1,2}[.][0-9]{1,3}[.][0-9]{1,3}$')",
                    "version is a release of Apache Kafka with three numbers: write for example 4.3.1",
                    say='"\'" + self + "\' is not a version of Apache Kafka: write the three numbers of a release, for example 4.3.1"',
                ),
                maxLength=32,
            )
        ),
    ] = Field(description="Release of Apache Kafka: 4.3.1.")
    image: Annotated[str, Field(json_schema_extra=longest(512))] | None = Field(
        None,
        description="Image of Kafka with the layout of the official image, from a repository that Spindle's Helm chart allows. Default: "
        "<repository>:<version> with the chart's kafka.image.repository, which is apache/kafka.",
    )
    controllers: Controllers = Field(description="The KRaft controllers, which store the cluster's metadata.")
    broker_pools: list[BrokerPool] = Field(
        description="The brokers, in pools. All brokers of a pool are configured alike.",
        json_schema_extra=list_map(
            "name",
            most=MAX_POOLS,
            **rules(
                rule(
                    "self.size() >= 1", "a cluster needs brokers: write at least one pool under brokerPools"
                ),
                rule(
                    f"self.map(p, p.replicas).sum() <= {MAX_BROKERS}",
                    f"all pools together may have {MAX_BROKERS} brokers: lower replicas, or create a second KafkaCluster",
                ),
                rule(
                    f"self.map(p, p.replicas * ({_MOST_DISKS})).sum() <= {MAX_CLUSTER_DISKS}",
                    f"the brokers of all pools together may have {MAX_CLUSTER_DISKS} disks, and with disks.all a broker may have maxCount of them ({MAX_DISKS} "
                    "if unset): lower replicas, disks.count or disks.maxCount, or create a second KafkaCluster",
                ),
            ),
        ),
    )
    racks: Racks = Field(
        default_factory=Racks,
        description="Which node label is the rack, and whether consumers fetch within it.",
    )
    listeners: Listeners = Field(
        default_factory=list,
        description="Additional listeners for clients. The listener client (port 9092, inside Kubernetes, mTLS) always exists.",
    )
    service_metadata: TemplateMetadata | None = Field(
        None,
        description="Labels and annotations of all Services; a listener's own annotations take precedence. Spindle's Helm chart defines which annotations are allowed.",
    )
    security: Security = Field(
        default_factory=Security, description="Certificates and the certificate authority."
    )
    config: Config = Field(
        default_factory=dict,
        description="Kafka broker configuration for all brokers. Values are strings: quote numbers, true and false.",
    )
    scheduling: Scheduling = Field(default_factory=Scheduling, description="Where pods may run.")
    disks: DiskPolicy = Field(
        default_factory=DiskPolicy, description="How disks are monitored, and thresholds for actions."
    )
    rebalance: Rebalance = Field(
        default_factory=Rebalance,
        description="When and how replicas are moved to balance the cluster.",
    )
    rolling: RollingPolicy = Field(default_factory=RollingPolicy, description="How brokers are restarted.")
    metrics: Metrics = Field(default_factory=Metrics, description="Prometheus metrics.")
    logging: Logging = Field(default_factory=Logging, description="Levels of Kafka's log.")
    paused: bool = Field(
        False,
        description="Pause Spindle: it observes and reports but changes nothing until this is false again.",
    )
    delete_claims: bool = Field(
        False,
        description="Delete the PersistentVolumeClaims, and with them the data, when the KafkaCluster is deleted, and those of a broker "
        "after scale-in (it is empty by then). Otherwise they stay, and a new KafkaCluster with the same name uses the data "
        "again.",
    )


class KafkaCluster(ApiModel):
    """A Kafka cluster: its brokers, their disks and racks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name starts with a lowercase letter, contains only lowercase letters, digits and dashes, ends with a letter "
                "or digit, and has at most 40 characters, because pods, services and claims are named after it: write for example "
                "orders or logs-eu",
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaCluster"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaClusterSpec = Field(description="Desired state of the cluster.")
    status: KafkaClusterStatus | None = Field(
        None, description="Observed state of the cluster, written by Spindle."
    )
