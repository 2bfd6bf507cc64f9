"""What Kafka says of one user."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, order=True)
class Right:
    """One allowing ACL of a user.

    Attributes:
        resource: ``topic``, ``group``, ``transactionalId`` or ``cluster``.
        name: of the resource; ``kafka-cluster`` for the cluster.
        pattern: ``literal`` or ``prefixed``.
        operation: as the API has it: ``Read`` and so on.
    """

    resource: str
    name: str
    pattern: str
    operation: str
    host: str


@dataclass(frozen=True)
class UserView:
    """What Kafka says of a user.

    Attributes:
        rights: what it is allowed to do, whoever gave it that.
        scram: whether it has a password for SCRAM-SHA-512.
        quotas: of its own, by Kafka's names.
        kept_out: whether Kafka denies it to write to Spindle's own topics (`spindle.users.wide.KEPT_OUT`).
        denied: whether Kafka denies it everything (`spindle.users.principals.EVERYTHING`).
    """

    rights: frozenset[Right] = frozenset()
    scram: bool = False
    quotas: Mapping[str, float] = field(default_factory=dict)
    denied: bool = False
    kept_out: bool = False
