"""What an agent asks for, and what it may do in Kafka."""

from dataclasses import dataclass
from typing import Final

from spindle.cluster import names
from spindle.cluster.rights import Right

CLUSTER: Final = "kafka-cluster"
# What the agent's requests need, by Kafka's KafkaApis and ControllerApis: AlterReplicaLogDirs asks for Alter of the cluster (and
# DescribeLogDirs for Describe, which that includes), a look at the broker's throttle for DescribeConfigs of it, Metadata for
# Describe of each topic. Who may write to some topic may write idempotently (KIP-679). Not AlterConfigs, with which a broker can be
# made to read files of its pod: the operator sets the throttle (`spindle.moves.between_dirs`).
RIGHTS: Final = frozenset(
    Right(resource, name, "literal", operation, "*")
    for resource, name, operation in (
        ("cluster", CLUSTER, "Alter"),
        ("cluster", CLUSTER, "Describe"),
        ("cluster", CLUSTER, "DescribeConfigs"),
        ("topic", "*", "Describe"),
        ("topic", names.TOPIC_SAMPLES, "Write"),
    )
)


@dataclass(frozen=True)
class Request:
    """A signing request, as it was found to be: signed by its own key, and in its node's name.

    Attributes:
        pem: the request itself.
        key: SHA-256 of its public key (SubjectPublicKeyInfo, DER), hex.
    """

    pem: str
    key: str


def is_agent(user: str) -> bool:
    """Whether a principal is an agent's, of this version or of an earlier one. No KafkaUser may be called so."""
    return user == names.PRINCIPAL_AGENT or user.startswith(
        (f"{names.PRINCIPAL_AGENT}.", f"{names.PRINCIPAL_AGENT}-")
    )
