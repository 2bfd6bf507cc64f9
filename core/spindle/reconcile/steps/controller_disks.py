"""The disks of controllers: whether what was on one is gone for good, and what its claim is told then."""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.layout import METADATA_DISK
from spindle.disks import facts
from spindle.disks.rules import Cleared, may_format_voter
from spindle.healing.node_loss import NodeLossEvidence, find_evidence
from spindle.manifests.identity import ConfiguredVoter, NodeIdentity
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch
from spindle.reconcile.controller_placement import displaced_by
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.reports import inspected
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.disks import NO_UUID, prepared, volume_unreadable
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.steps.remove_disks import release
from spindle.reconcile.times import seconds

_AGAIN: Final = 60.0  # seconds between two looks at a disk that cannot be read
_PUT_OFF: Final = (
    "delete the pod"  # so ends what the script that starts Kafka says of a disk that does not belong there
)


def lost(state: ClusterState, identity: NodeIdentity, voter: ConfiguredVoter) -> str:
    """Why what a controller had on its disk is gone for good, as a clause; empty while that is not known.

    Either its disk is out of reach for good, or in its place stands a blank one, and the controller was on another one, or on this one,
    before.
    """
    claim, pod = state.claim(voter.id, METADATA_DISK), state.pods.get(voter.id)
    if claim is None or objects.annotation(claim, names.ANN_DIRECTORY_ID) != voter.directory_id:
        return ""  # it is about to be made, or told the id on record
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
    """What was found of a controller's disk in the pod that stands, if the disk is blank and waits for its format."""
    pod = state.pods.get(node_id)
    if pod is None or objects.deleting(pod) or prepared(pod):
        return None
    found = inspected(pod).get(METADATA_DISK)
    return found if found is not None and found.get("state") == facts.BLANK else None


def look_anew(state: ClusterState, wanted: dict[int, RestartRequest]) -> None:
    """Have pods of controllers made anew that do not get at their disk any more: only a new pod gets, and looks at, another one.

    At once where Kafka ran before, so where the disk was there; where it never ran, a while after the pod was made.
    """
    for node_id in state.controller_ids:
        pod, claim = state.pods.get(node_id), state.claim(node_id, METADATA_DISK)
        if pod is None or claim is None or objects.deleting(pod) or node_id in wanted:
            continue
        if objects.kafka_runs(pod):
            continue
        made = seconds(pod["metadata"].get("creationTimestamp"))
        if not objects.kafka_ever_ran(pod) and (made is None or state.now - made < _AGAIN):
            continue
        said = str((objects.terminated(pod, names.CONTAINER_KAFKA) or {}).get("message"))
        if volume_unreadable(state, {"claim": objects.name(claim)}, pod) or _PUT_OFF in said:
            wanted[node_id] = RestartRequest("DiskUnusable", "its disk cannot be read, or is another one")


def reconcile_controller_claims(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Let claims follow the record where a controller begins anew under another directory id.

    A claim whose disk is known to hold nothing is told the new id, and its pod, which waits for the format, is made anew for that. One whose
    disk is out of reach for good goes, and another one is made. The id before stays on record among the clearances, so it is never given to
    a file system again. So goes the claim of one that only reads along and whose node another controller has by now.
    """
    for voter in identity.members:
        claim = state.claim(voter.id, METADATA_DISK)
        if claim is None or objects.annotation(claim, names.ANN_CLUSTER_ID) != identity.cluster_id:
            continue
        if objects.deleting(claim):
            continue
        if objects.annotation(claim, names.ANN_DIRECTORY_ID) == voter.directory_id:
            if why := displaced_by(state, voter.id):
                _begin_anew(state, builder, identity, claim, why)
            continue
        unused = objects.annotation(claim, names.ANN_FS_UUID) is None and voter.id not in state.pods
        if why := _out_of_reach(state, claim) or displaced_by(state, voter.id):
            _begin_anew(state, builder, identity, claim, why)
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
    """Why nobody will reach a claim's disk any more (rule 14), as a clause; empty while it may be reached again."""
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
        return f"node {host}, where its disk is, was deleted"
    if all(find_evidence(name, state.nodes) is NodeLossEvidence.OUT_OF_SERVICE for name in there):
        return f"node {host}, where its disk is, is out of service"
    return ""


def _begin_anew(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, claim: SnapshotObject, why: str
) -> None:
    """Give up a disk that nobody reaches, or needs; its volume is kept (rule 5)."""
    thing = f"PersistentVolumeClaim/{objects.name(claim)}"
    release(state, builder, identity, claim, thing, f"{why}, and its controller begins anew on another one")
