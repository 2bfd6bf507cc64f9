"""When a node counts as gone for good, and its local volumes with it (rule 14).

A node that does not answer may be back in a minute, and a Kafka may still run on it. So silence proves nothing, however long it lasts:
somebody has to have said so to Kubernetes, by deleting the Node or by the taint that Kubernetes has for this (KEP-2268). And even then what
is on its disks is given up only when a person agrees, or when a time has passed that was set for it beforehand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spindle.placement.nodes import items, matches_selector, section

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

KubeObject = Mapping[str, Any]


class NodeLossEvidence(StrEnum):
    """What says that a node is gone for good."""

    DELETED = "Deleted"
    OUT_OF_SERVICE = "OutOfService"


@dataclass(frozen=True, kw_only=True)
class NodeLossClaim:
    """What is said about a broker's node.

    Attributes:
        node: the node on record.
        evidence: None if nothing says that it is gone.
        answers: whether something of it still answers although it is said to be gone: its kubelet, or Kafka on it.
        statement: the node that a person has said to be gone for good; None if nobody has.
        waited: seconds for which the evidence has been in.
        grace: seconds after which the evidence is enough; None for never.
    """

    node: str
    evidence: NodeLossEvidence | None
    answers: bool = False
    statement: str | None = None
    waited: float = 0.0
    grace: float | None = None

    @property
    def by_person(self) -> bool:
        """Whether a person agrees; a word about another node says nothing of this one."""
        return self.statement == self.node

    @property
    def agreed(self) -> bool:
        """Whether the node counts as gone for good, so that what is on its disks may be given up."""
        if self.evidence is None or self.answers:
            return False
        return self.by_person or (self.grace is not None and self.waited >= self.grace)


def find_evidence(node: str | None, nodes: Mapping[str, KubeObject] | None) -> NodeLossEvidence | None:
    """What says that a node is gone for good; None if nothing does.

    Args:
        node: its name; None if it is not known.
        nodes: all nodes by name; None if they could not be listed. No node at all is no answer (rule 8).
    """
    if not node or not nodes:
        return None
    found = nodes.get(node)
    if found is None:
        return NodeLossEvidence.DELETED
    taints = items(section(found, "spec").get("taints"))
    return NodeLossEvidence.OUT_OF_SERVICE if any(t.get("key") == OUT_OF_SERVICE for t in taints) else None


def is_ready(node: KubeObject | None) -> bool:
    """Whether a node's kubelet is known to live."""
    conditions = items(section(node, "status").get("conditions"))
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_left_behind(volume: KubeObject, gone: str, nodes: Mapping[str, KubeObject]) -> bool:
    """Whether a volume can be reached from no node but the one that is gone: a local one. Network volumes go on elsewhere."""
    required = section(volume, "spec", "nodeAffinity").get("required")
    if not required:
        return False
    return not any(matches_selector(node, required) for name, node in nodes.items() if name != gone)
