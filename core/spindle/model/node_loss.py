"""When a node counts as permanently lost, and its local volumes with it.

See "no node declared lost without evidence and consent" (`docs/safety.md`, rule 14). A node that does not answer may be back in a minute, and Kafka may
still run on it. So silence proves nothing, however long it lasts: someone must have declared the loss in Kubernetes, by deleting the Node or by
the out-of-service taint (KEP-2268). Even then Spindle accepts the loss of the data on its disks only when the user agrees, or after a time that was
configured for it beforehand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spindle.model.nodes import items, matches_selector, section

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

KubeObject = Mapping[str, Any]


class NodeLossEvidence(StrEnum):
    """Evidence that a node is permanently lost."""

    DELETED = "Deleted"
    OUT_OF_SERVICE = "OutOfService"


@dataclass(frozen=True, kw_only=True)
class NodeLossClaim:
    """The claim that a broker's node is lost, with its evidence.

    Attributes:
        node: the recorded node.
        evidence: None if nothing indicates that it is lost.
        answers: whether the node still answers although it is declared lost: its kubelet, or Kafka on it.
        statement: the node that the user declared permanently lost; None if none.
        waited: seconds since the evidence was first observed.
        grace: seconds after which the evidence alone is sufficient; None for never.
    """

    node: str
    evidence: NodeLossEvidence | None
    answers: bool = False
    statement: str | None = None
    waited: float = 0.0
    grace: float | None = None

    @property
    def by_person(self) -> bool:
        """Whether the user agrees; a declaration about another node does not count for this one."""
        return self.statement == self.node

    @property
    def agreed(self) -> bool:
        """Whether the node counts as permanently lost, so that Spindle may accept the loss of the data on its disks."""
        if self.evidence is None or self.answers:
            return False
        return self.by_person or (self.grace is not None and self.waited >= self.grace)


def find_evidence(node: str | None, nodes: Mapping[str, KubeObject] | None) -> NodeLossEvidence | None:
    """The evidence that a node is permanently lost; None if there is none.

    Args:
        node: its name; None if it is not known.
        nodes: all nodes by name; None if they could not be listed. An empty list is not evidence: "unknown is not absent" (`docs/safety.md`,
            rule 8).
    """
    if not node or not nodes:
        return None
    found = nodes.get(node)
    if found is None:
        return NodeLossEvidence.DELETED
    taints = items(section(found, "spec").get("taints"))
    return NodeLossEvidence.OUT_OF_SERVICE if any(t.get("key") == OUT_OF_SERVICE for t in taints) else None


def is_ready(node: KubeObject | None) -> bool:
    """Whether a node's kubelet is known to be alive (condition Ready is True)."""
    conditions = items(section(node, "status").get("conditions"))
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def is_left_behind(volume: KubeObject, gone: str, nodes: Mapping[str, KubeObject]) -> bool:
    """Whether a volume is reachable only from the lost node: a local volume. Network volumes remain reachable from other nodes."""
    required = section(volume, "spec", "nodeAffinity").get("required")
    if not required:
        return False
    return not any(matches_selector(node, required) for name, node in nodes.items() if name != gone)
