"""Rights that reach beyond what is a tenant's own: what an administrator has to have allowed, and what nobody gets with them."""

from collections.abc import Iterable
from typing import Final

from spindle.cluster.rights import Right

OWN: Final = "__spindle_"  # how the names of Spindle's own topics begin
# So do those of Kafka itself. Who may delete __consumer_offsets takes every group's place in every topic.
_INTERNAL: Final = "__"
_WRITING: Final = frozenset({"All", "Write", "Create", "Delete", "Alter", "AlterConfigs"})
# Who may alter the cluster may give themselves any ACL; its actions are those of brokers. Who may create in it may create any topic, Spindle's before Spindle
# does, also where an ACL on these denies it: Kafka asks for either of the two rights (KafkaApis and ControllerApis, CreateTopics).
_OF_CLUSTER: Final = frozenset({"All", "Alter", "AlterConfigs", "ClusterAction", "Create"})
# Denied to users whose patterns cover Spindle's own topics: what stands there steers the rebalancing.
KEPT_OUT: Final = frozenset(
    Right("topic", OWN, "prefixed", operation, "*") for operation in _WRITING - {"All"}
)


def wide(right: Right) -> bool:
    """Whether a right needs the label that only an administrator may set."""
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
    """Whether some pattern that is about other topics lets its user write to Spindle's own."""
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
