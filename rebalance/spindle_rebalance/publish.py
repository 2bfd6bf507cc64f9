"""Writes the proposal and the report to Kubernetes by server-side apply. The proposal's status belongs to the operator."""

import base64
import gzip
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from spindle.api import names
from spindle.api.rebalance import KafkaRebalance
from spindle.balance.propose import NewProposal
from spindle.model.metadata import labels, owner_reference
from spindle.model.objects import owned_by

log = logging.getLogger(__name__)

ANN_REPORT: Final = (
    f"{names.GROUP}/report"  # annotation of a KafkaRebalance: the ConfigMap with the report of its run
)

_MOST: Final = 900_000  # bytes of a report: the limit of a ConfigMap is 1 MiB including base64
_OWNER: Final = ("apiVersion", "kind", "name", "uid")
_OVER: Final = frozenset({"Done", "Stopped", "Expired", "Superseded", "Failed"})


class Kubernetes(Protocol):
    """The Kubernetes requests needed here."""

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        """A KafkaCluster."""

    def rebalance(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One KafkaRebalance."""

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        """Write a KafkaRebalance."""

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One ConfigMap."""

    def create_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        """Create a ConfigMap."""

    def apply_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        """Write a ConfigMap; its UID and resourceVersion are preconditions."""


def publish(kube: Kubernetes, namespace: str, proposal: NewProposal, report: str) -> str:
    """Write a proposal, unless it already exists.

    Args:
        kube: connection to Kubernetes.
        namespace: namespace of the KafkaCluster.
        proposal: the proposal.
        report: name of the ConfigMap that holds the report; empty if there is none.

    Returns:
        The result as a sentence.
    """
    found = kube.rebalance(namespace, proposal.name)
    if found is not None:
        phase = (found.get("status") or {}).get("phase") or "Proposed"
        if phase in _OVER:
            return f"KafkaRebalance {proposal.name} was made from the same state and is {phase}; delete it to get a new proposal"
        return f"KafkaRebalance {proposal.name} already exists for the same state and is {phase}"
    kube.apply_rebalance(namespace, body_of(kube.cluster(namespace, proposal.spec.cluster), proposal, report))
    return f"KafkaRebalance {proposal.name} was created"


def body_of(cluster: Mapping[str, Any], proposal: NewProposal, report: str) -> dict[str, Any]:
    """The object without the users' fields: neither approval nor stop."""
    made = KafkaRebalance(spec=proposal.spec).to_dict()
    spec = {key: value for key, value in made["spec"].items() if key not in ("approved", "stop")}
    meta = _metadata(cluster, proposal.name)
    if report:
        meta["annotations"] = {ANN_REPORT: report}
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": meta, "spec": spec}


def publish_report(kube: Kubernetes, namespace: str, cluster: str, name: str, page: str) -> bool:
    """Write a compressed report to a ConfigMap; one that does not belong to the KafkaCluster is left unchanged.

    For the CronJob the operator creates it empty; a manual run may name another one.

    Returns:
        Whether the report was written.
    """
    packed = gzip.compress(page.encode(), mtime=0)
    text = base64.b64encode(packed).decode()
    if len(text) > _MOST:
        log.warning(
            "%s/%s: the report (%d bytes) is too large for a ConfigMap; write it to a file with --report",
            *(namespace, cluster, len(packed)),
        )
        return False
    of, there = kube.cluster(namespace, cluster), kube.config_map(namespace, name)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {names.REPORT_KEY: text}}
    if there is None:
        kube.create_config_map(namespace, {**body, "metadata": _metadata(of, name)})
        return True
    if not owned_by(there, of):
        log.warning(
            "%s/%s: NameConflict: ConfigMap %s exists and does not belong to this KafkaCluster; it is left unchanged, and the report is not stored. "
            "Delete the ConfigMap if nobody needs it, or write the report to a file with --report",
            *(namespace, cluster, name),
        )
        return False
    # Only if it is unchanged since it was read: it may have been replaced. Labels and owner are the operator's: if they were applied here,
    # too, the operator would restore its own after every run, and report another client.
    seen = {key: there["metadata"][key] for key in ("uid", "resourceVersion")}
    kube.apply_config_map(namespace, {**body, "metadata": {"name": name, "namespace": namespace, **seen}})
    return True


def _metadata(cluster: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Metadata of an object that is garbage-collected with its KafkaCluster, without blocking its deletion."""
    meta = cluster["metadata"]
    owner = {key: value for key, value in owner_reference(cluster).items() if key in _OWNER}
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels(meta["name"]),
        "ownerReferences": [owner],
    }
