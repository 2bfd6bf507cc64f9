"""KafkaCluster: what the user wants, and what is."""

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
from spindle.api.common import (
    ApiModel,
    ObjectMeta,
    list_map,
    longest,
    rule,
    rules,
)
from spindle.api.listeners import Listener, Listeners, ListenerStatus
from spindle.api.policy import (
    DiskPolicy,
    FreeThresholds,
    LastResortActions,
    Metrics,
    Racks,
    Rebalance,
    RollingPolicy,
    Scheduling,
    Thresholds,
)
from spindle.api.pools import BrokerPool, Config, Controllers, PoolDisks, Storage
from spindle.api.security import Security
from spindle.cluster.names import API_VERSION

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


MAX_POOLS = 12  # more, and the API server finds the quantities' rules too dear


MAX_BROKERS = 8999
# One pass works out all of a cluster's disks, and one operator looks after many clusters.
MAX_CLUSTER_DISKS = 5000


class KafkaClusterSpec(ApiModel):
    """What the cluster should be."""

    version: Annotated[
        str,
        Field(
            json_schema_extra=rules(
                rule(
                    "self.matches('^[0-9]{1,2}[.][0-9]{1,3}[.][0-9]{1,3}$')",
                    "version is a release of Apache Kafka with three numbers: write for example 4.3.1",
                    say='"\'" + self + "\' is no version of Apache Kafka: write the three numbers of a release, for example 4.3.1"',
                ),
                maxLength=32,
            )
        ),
    ] = Field(description="Release of Apache Kafka: 4.3.1.")
    image: Annotated[str, Field(json_schema_extra=longest(512))] | None = Field(
        None,
        description="Image of Kafka, laid out like the official one, from a repository that the chart of Spindle allows. Left out, apache/kafka:<version>.",
    )
    controllers: Controllers = Field(description="The controllers, which keep the cluster's metadata.")
    broker_pools: list[BrokerPool] = Field(
        description="The brokers, in pools of one kind each.",
        json_schema_extra=list_map(
            "name",
            most=MAX_POOLS,
            **rules(
                rule(
                    "self.size() >= 1", "a cluster needs brokers: write at least one pool under brokerPools"
                ),
                rule(
                    f"self.map(p, p.replicas).sum() <= {MAX_BROKERS}",
                    f"all pools together may have {MAX_BROKERS} brokers: lower replicas, or make a second KafkaCluster",
                ),
                rule(
                    f"self.map(p, p.replicas * p.disks.count).sum() <= {MAX_CLUSTER_DISKS}",
                    f"the brokers of all pools together may have {MAX_CLUSTER_DISKS} disks: lower replicas or disks.count, or make a second KafkaCluster",
                ),
            ),
        ),
    )
    racks: Racks = Field(default_factory=Racks, description="What a rack is.")
    listeners: Listeners = Field(
        default_factory=list,
        description="Further doors for clients. The listener client, on port 9092, inside Kubernetes and with certificates, is "
        "always there.",
    )
    security: Security = Field(default_factory=Security, description="Certificates and their authority.")
    config: Config = Field(
        default_factory=dict,
        description="Kafka's broker configuration for all brokers. Values are text: quote numbers and true or false.",
    )
    scheduling: Scheduling = Field(default_factory=Scheduling, description="Where pods may run.")
    disks: DiskPolicy = Field(default_factory=DiskPolicy, description="How disks are watched.")
    rebalance: Rebalance = Field(
        default_factory=Rebalance,
        description="When and how replicas are moved for balance.",
    )
    rolling: RollingPolicy = Field(default_factory=RollingPolicy, description="How brokers are restarted.")
    metrics: Metrics = Field(default_factory=Metrics, description="What can be measured.")
    paused: bool = Field(
        False,
        description="Hold everything: Spindle looks and reports but changes nothing until this is false again.",
    )
    delete_claims: bool = Field(
        False,
        description="Delete the claims, and so the data, when the KafkaCluster is deleted; and those of a broker when it has left, "
        "which is empty by then. Otherwise they stay, and a KafkaCluster of the same name finds its data again.",
    )


class KafkaCluster(ApiModel):
    """A Kafka cluster: its brokers, their disks and racks."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
                "metadata.name begins with a small letter, goes on with small letters, digits and dashes, and has at most "
                "40 characters, because pods, services and claims are named after it: write for example orders or logs-eu",
            ),
        )
    )

    api_version: str = API_VERSION
    kind: str = "KafkaCluster"
    metadata: ObjectMeta = Field(default_factory=ObjectMeta)
    spec: KafkaClusterSpec = Field(description="What the cluster should be.")
    status: KafkaClusterStatus | None = Field(None, description="What the cluster is, written by Spindle.")
