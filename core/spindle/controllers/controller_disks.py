"""The disks of controllers: whether the content of one is lost for good, and how its claim changes then."""

from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle.config.controller_placement import displaced_by
from spindle.disks.preflight_findings import NO_UUID, prepared, volume_unreadable
from spindle.disks.rules import Cleared, may_format_voter
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.claim_release import release
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity
from spindle.model.layout import METADATA_DISK
from spindle.model.node_loss import NodeLossEvidence, find_evidence
from spindle.model.plan_builder import PlanBuilder
from spindle.model.reports import inspected
from spindle.model.requests import RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds

_RETRY_SECONDS: Final = 60.0  # age of a pod from which it is recreated because its disk cannot be read
_WRONG_DISK: Final = "delete the pod"  # the start script's message about a wrong disk ends with this


def lost(state: ClusterState, identity: NodeIdentity, voter: ConfiguredVoter) -> str:
    """Why the data on a controller's disk is lost for good, as a clause; empty while that is not known.

    Either its disk is out of reach for good, or the disk in its place is blank although the controller ran on a disk before.
    """
    claim, pod = state.claim(voter.id, METADATA_DISK), state.pods.get(voter.id)
    if claim is None or objects.annotation(claim, names.ANN_DIRECTORY_ID) != voter.directory_id:
        return ""  # the claim is about to be created or to get the id on record
    if why := _out_of_reach(state, claim):
        return why
    volume, found = state.volume(claim), blank(state, voter.id)
    if volume is None or pod is None or found is None:
        return ""
    refusal = may_format_voter(
        voter.directory_id,
        objects.uid(volume),
        str(found.get("fsUuid") or NO_UUID),
        [Cleared(d, c.get("pvUid", ""), c.get("fsUuid")) for d, c in identity.clearances.items()],
        seen_running=objects.annotation(claim, names.ANN_FS_UUID) is not None,
    )
    return "" if refusal is None else "the disk in its place is blank"


def blank(state: ClusterState, node_id: int) -> Mapping[str, object] | None:
    """The inspection result of a controller's disk in its current pod, if the disk is blank and waits for its format."""
    pod = state.pods.get(node_id)
    if pod is None or objects.deleting(pod) or prepared(pod):
        return None
    found = inspected(pod).get(METADATA_DISK)
    return found if found is not None and found.get("state") == disk_facts.BLANK else None


def look_anew(state: ClusterState, wanted: dict[int, RestartRequest]) -> None:
    """Request new pods for controllers that can no longer access their disk: only a new pod mounts and inspects a replacement.

    At once if Kafka ran in the pod before, as the disk was accessible then; else a minute after the pod was created.
    """
    for node_id in state.controller_ids:
        pod, claim = state.pods.get(node_id), state.claim(node_id, METADATA_DISK)
        if pod is None or claim is None or objects.deleting(pod) or node_id in wanted:
            continue
        if objects.kafka_runs(pod):
            continue
        created = seconds(pod["metadata"].get("creationTimestamp"))
        if not objects.kafka_ever_ran(pod) and (created is None or state.now - created < _RETRY_SECONDS):
            continue
        message = str((objects.terminated(pod, names.CONTAINER_KAFKA) or {}).get("message"))
        if volume_unreadable(state, {"claim": objects.name(claim)}, pod) or _WRONG_DISK in message:
            wanted[node_id] = RestartRequest("DiskUnusable", "its disk cannot be read or is the wrong disk")


def reconcile_controller_claims(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Update the claims of controllers that were recreated under a new directory id.

    If the disk is known to be blank, its claim gets the new id, and the pod, which waits for the format, is recreated. If the disk is out of
    reach for good, the claim is deleted and a new one created. The former id stays recorded among the clearances, so that no file system
    ever gets it again. The claim of an observer is deleted as well if another controller occupies its node by now.
    """
    for voter in identity.members:
        claim = state.claim(voter.id, METADATA_DISK)
        if claim is None or objects.annotation(claim, names.ANN_CLUSTER_ID) != identity.cluster_id:
            continue
        if objects.deleting(claim):
            continue
        if objects.annotation(claim, names.ANN_DIRECTORY_ID) == voter.directory_id:
            if why := displaced_by(state, voter.id):
                _delete_claim(state, builder, identity, claim, why)
            continue
        unused = objects.annotation(claim, names.ANN_FS_UUID) is None and voter.id not in state.pods
        if why := _out_of_reach(state, claim) or displaced_by(state, voter.id):
            _delete_claim(state, builder, identity, claim, why)
        elif unused or blank(state, voter.id) is not None:
            annotations = {names.ANN_DIRECTORY_ID: voter.directory_id, names.ANN_FS_UUID: None}
            builder.do(
                Patch(
                    kind="PersistentVolumeClaim",
                    name=objects.name(claim),
                    uid=objects.uid(claim),
                    body={"metadata": {"annotations": annotations}},
                )
            )


def _out_of_reach(state: ClusterState, claim: SnapshotObject) -> str:
    """Why a claim's disk is out of reach for good, as a clause; empty while it may come back.

    See "no node declared lost without evidence and consent" (`docs/safety.md`, rule 14).
    """
    if state.snap.unknown & {"nodes", "persistentvolumes"} or not state.nodes:
        return ""
    volume = state.volume(claim)
    if volume is None:
        return "the volume of its claim no longer exists" if objects.lost(claim) else ""
    host = objects.pinned_to(volume)
    if host is None:
        return ""
    there = [
        name
        for name, node in state.nodes.items()
        if objects.labels(node).get("kubernetes.io/hostname", name) == host
    ]
    if not there:
        return f"node {host} with its disk was deleted"
    if all(find_evidence(name, state.nodes) is NodeLossEvidence.OUT_OF_SERVICE for name in there):
        return f"node {host} with its disk is out of service"
    return ""


def _delete_claim(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, claim: SnapshotObject, why: str
) -> None:
    """Delete the claim of a disk that is out of reach or not needed; its volume is retained.

    See "no log dir removed with replicas on it" (`docs/safety.md`, rule 5).
    """
    thing = f"PersistentVolumeClaim/{objects.name(claim)}"
    release(state, builder, identity, claim, thing, f"{why}, and its controller is recreated on another disk")
