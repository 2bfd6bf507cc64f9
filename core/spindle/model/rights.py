"""A user's ACLs, credentials and quotas in Kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Right:
    """One allowing ACL of a user.

    Attributes:
        resource: ``topic``, ``group``, ``transactionalId`` or ``cluster``.
        name: name of the resource; ``kafka-cluster`` for the cluster.
        pattern: ``literal`` or ``prefixed``.
        operation: in the API's notation: ``Read`` and so on.
    """

    resource: str
    name: str
    pattern: str
    operation: str
    host: str


@dataclass(frozen=True)
class UserView:
    """What Kafka has stored for a user.

    Attributes:
        rights: its allowing ACLs, whoever added them.
        scram: whether it has a password for SCRAM-SHA-512.
        quotas: its own quotas, by Kafka's names.
        kept_out: whether an ACL denies it to write to Spindle's own topics (`spindle.users.wide.KEPT_OUT`).
        denied: whether an ACL denies it everything (`spindle.users.principals.EVERYTHING`).
    """

    rights: frozenset[Right] = frozenset()
    scram: bool = False
    quotas: Mapping[str, float] = field(default_factory=dict)
    denied: bool = False
    kept_out: bool = False
