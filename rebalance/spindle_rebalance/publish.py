"""What a run leaves in Kubernetes: the proposal, and the report. Each by server-side apply; the state stays the operator's."""

import base64
import gzip
import logging
from collections.abc import Mapping
from typing import Any, Final, Protocol

from spindle.api.rebalance import KafkaRebalance
from spindle.balance.propose import NewProposal
from spindle.cluster import names
from spindle.manifests.common import labels, owner_reference
from spindle.reconcile.objects import owned_by

log = logging.getLogger(__name__)

ANN_REPORT: Final = f"{names.GROUP}/report"  # of a KafkaRebalance: the ConfigMap with the report of its run

_MOST: Final = 900_000  # bytes of a report: a ConfigMap takes 1 MiB, base64 and all
_OWNER: Final = ("apiVersion", "kind", "name", "uid")
_OVER: Final = frozenset({"Done", "Stopped", "Expired", "Superseded", "Failed"})


class Kubernetes(Protocol):
    """What is asked of Kubernetes."""

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        """A KafkaCluster."""

    def rebalance(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One KafkaRebalance."""

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        """Write a KafkaRebalance."""

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        """One ConfigMap."""

    def create_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        """Make a ConfigMap that is not there."""

    def apply_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        """Write a ConfigMap over the one that its metadata names by UID and resourceVersion."""


def publish(kube: Kubernetes, namespace: str, proposal: NewProposal, report: str) -> str:
    """Write a proposal that is not there yet.

    Args:
        kube: where to.
        namespace: of the KafkaCluster.
        proposal: what to write.
        report: name of the ConfigMap that holds the report; empty if there is none.

    Returns:
        what became of it, as a sentence.
    """
    found = kube.rebalance(namespace, proposal.name)
    if found is not None:
        phase = (found.get("status") or {}).get("phase") or "Proposed"
        if phase in _OVER:
            return f"KafkaRebalance {proposal.name} was made from the same state and is {phase}; delete it to have it proposed again"
        return f"KafkaRebalance {proposal.name} was made from the same state and is {phase} already"
    kube.apply_rebalance(namespace, body_of(kube.cluster(namespace, proposal.spec.cluster), proposal, report))
    return f"KafkaRebalance {proposal.name} was made"


def body_of(cluster: Mapping[str, Any], proposal: NewProposal, report: str) -> dict[str, Any]:
    """The object, with nothing in it that is somebody else's: neither approval nor stop."""
    made = KafkaRebalance(spec=proposal.spec).to_dict()
    spec = {key: value for key, value in made["spec"].items() if key not in ("approved", "stop")}
    meta = _metadata(cluster, proposal.name)
    if report:
        meta["annotations"] = {ANN_REPORT: report}
    return {"apiVersion": made["apiVersion"], "kind": made["kind"], "metadata": meta, "spec": spec}


def publish_report(kube: Kubernetes, namespace: str, cluster: str, name: str, page: str) -> bool:
    """Write a report into a ConfigMap, compressed; one that is not the KafkaCluster's is left alone.

    In a cluster the operator has made it, empty; whoever runs the job by hand may name another one.

    Returns:
        whether it stands there.
    """
    packed = gzip.compress(page.encode(), mtime=0)
    text = base64.b64encode(packed).decode()
    if len(text) > _MOST:
        log.warning(
            "%s/%s: the report of %d bytes does not fit into a ConfigMap; write it elsewhere with --report",
            *(namespace, cluster, len(packed)),
        )
        return False
    of, there = kube.cluster(namespace, cluster), kube.config_map(namespace, name)
    metadata = _metadata(of, name)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "binaryData": {names.REPORT_KEY: text},
    }
    if there is None:
        kube.create_config_map(namespace, body)
        return True
    if not owned_by(there, of):
        log.warning(
            "%s/%s: NameConflict: there is a ConfigMap %s that is not of this KafkaCluster; it is left alone, and the report is not kept. "
            "Delete it if nobody needs it, or write the report elsewhere with --report",
            *(namespace, cluster, name),
        )
        return False
    # Only over the one that was looked at: it may be another one by now.
    seen = {key: there["metadata"][key] for key in ("uid", "resourceVersion")}
    kube.apply_config_map(namespace, {**body, "metadata": {**metadata, **seen}})
    return True


def _metadata(cluster: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Of an object that goes when its KafkaCluster goes; nobody has to wait for that."""
    meta = cluster["metadata"]
    owner = {key: value for key, value in owner_reference(cluster).items() if key in _OWNER}
    return {
        "name": name,
        "namespace": meta["namespace"],
        "labels": labels(meta["name"]),
        "ownerReferences": [owner],
    }
