"""ACLs that reach beyond a tenant's own resources: they need an administrator's label, and never allow writes to Spindle's internal topics."""

from collections.abc import Iterable
from typing import Final

from spindle.model.rights import Right

OWN: Final = "__spindle_"  # prefix of Spindle's internal topics
# Kafka's internal topics have the same prefix. A user who may delete __consumer_offsets can delete the offsets of all groups.
_INTERNAL: Final = "__"
_WRITING: Final = frozenset({"All", "Write", "Create", "Delete", "Alter", "AlterConfigs"})
# A user who may ALTER the cluster can add any ACL; CLUSTER_ACTION is for brokers. A user who may CREATE or DELETE in the cluster can create any topic,
# even Spindle's before Spindle does, or delete any, and despite a DENY on the topic: Kafka requires only one of the two permissions (ControllerApis,
# CreateTopics and DeleteTopics).
_OF_CLUSTER: Final = frozenset({"All", "Alter", "AlterConfigs", "ClusterAction", "Create", "Delete"})
# Denied to users whose patterns match Spindle's internal topics, because their records control rebalancing.
KEPT_OUT: Final = frozenset(
    Right("topic", OWN, "prefixed", operation, "*") for operation in _WRITING - {"All"}
)


def wide(right: Right) -> bool:
    """Whether an ACL needs the label that only an administrator may set."""
    if right.resource == "cluster":
        return right.operation in _OF_CLUSTER
    if right.resource != "topic":
        return False
    everything = right.name == "*" and right.pattern == "literal"
    internal = right.name.startswith(_INTERNAL) or (
        right.pattern == "prefixed" and _INTERNAL.startswith(right.name)
    )
    return everything or (internal and right.operation in _WRITING)


def covers_own(rights: Iterable[Right]) -> bool:
    """Whether a pattern for other topics also allows its user to write to Spindle's internal topics."""
    return any(
        right.resource == "topic"
        and right.operation in _WRITING
        and (
            (right.pattern == "literal" and right.name == "*")
            or (right.pattern == "prefixed" and _wider(right.name))
        )
        for right in rights
    )


def _wider(prefix: str) -> bool:
    return OWN.startswith(prefix) and prefix != OWN
