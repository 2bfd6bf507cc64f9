"""The key for which an agent requests a certificate, and the agent's rights in Kafka."""

from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.model.rights import Right

CLUSTER: Final = "kafka-cluster"
# What the agent's requests need, from Kafka's KafkaApis and ControllerApis: AlterReplicaLogDirs needs Alter on the cluster (which implies
# Describe, for DescribeLogDirs), reading the broker's throttle needs DescribeConfigs on it, Metadata needs Describe on each topic. A client that
# may write to any topic may write idempotently (KIP-679). The agent does not get AlterConfigs, with which a broker can be made to read files of
# its pod: the operator sets the throttle (`spindle.moves.between_dirs`).
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
    """A verified signing request: it is signed by its own key and has the name of its node.

    Attributes:
        pem: the request itself.
        key: SHA-256 of its public key (SubjectPublicKeyInfo, DER), hex.
    """

    pem: str
    key: str


def is_agent(user: str) -> bool:
    """Whether a principal belongs to an agent, of this version or of an earlier one. No KafkaUser may have such a name."""
    return user == names.PRINCIPAL_AGENT or user.startswith(
        (f"{names.PRINCIPAL_AGENT}.", f"{names.PRINCIPAL_AGENT}-")
    )
