"""Adds, removes and recreates controllers: carries out what `next_step` decides on the record, the claims and the quorum.

The identity ConfigMap lists the controllers; other steps derive the objects of each controller (claim, certificate, configuration, pod)
from it. Decisions: docs/adr/0037 and 0038.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from spindle.api import names
from spindle.controllers.controller_disks import look_anew, lost, reconcile_controller_claims
from spindle.controllers.next_step import Member, next_step
from spindle.controllers.quorum_steps import (
    AddVoterStep,
    AdmitControllers,
    DeleteController,
    ReaddVoter,
    RecreateController,
    RemoveVoterStep,
)
from spindle.model import objects
from spindle.model.actions import Action, AddVoter, Delete, Patch, RemoveVoter
from spindle.model.cluster_identity import ConfiguredVoter, NodeIdentity, identity_map
from spindle.model.ids import uuid_from_entropy
from spindle.model.layout import METADATA_DISK
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import RestartRequest
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, some

_ACTION: Final = "ChangeControllers"

_Recorded = AdmitControllers | DeleteController | RecreateController | ReaddVoter


def reconcile_controllers(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, wanted: dict[int, RestartRequest]
) -> Mapping[int, Waiting]:
    """Take the next step towards the specified controllers.

    Args:
        state, builder, identity: of this pass.
        wanted: nodes that should restart; controllers that need a new pod are added.

    Returns:
        controllers that must not be taken down in this pass, and why: the change of the quorum assumes that they stay up.
    """
    _delete_removed(state, builder, identity)
    look_anew(state, wanted)
    reconcile_controller_claims(state, builder, identity)
    decision = next_step(
        state.kafka.quorum,
        [_member(state, identity, voter) for voter in identity.members],
        state.spec.controllers.replicas,
        carried=_carried(state, identity),
    )
    if decision is None:
        return {}
    if isinstance(decision, Waiting):
        quiet = decision.reason == "ControllersJoining"
        builder.wait(replace(Waiting.of(_ACTION, f"KafkaCluster/{state.name}", decision), quiet=quiet))
        return {}
    if isinstance(decision, AddVoterStep | RemoveVoterStep):
        builder.do(_quorum_change(state, identity, decision))
        return dict.fromkeys(state.controller_ids, _changing(decision.id))
    if not _writes(state, builder):
        _record(state, builder, identity, decision)
    return {}


def _quorum_change(
    state: ClusterState, identity: NodeIdentity, step: AddVoterStep | RemoveVoterStep
) -> Action:
    if isinstance(step, AddVoterStep):
        return AddVoter(
            cluster_id=identity.cluster_id,
            controller=step.id,
            directory_id=step.directory_id,
            host=names.node_host(state.name, state.namespace, step.id),
            reason="ControllerAdded",
            message=f"Adding controller {step.id} to the quorum: it has caught up.",
        )
    return RemoveVoter(
        cluster_id=identity.cluster_id,
        controller=step.id,
        directory_id=step.directory_id,
        reason="ControllerRemoved",
        message=f"Removing controller {step.id} from the quorum: {step.why}.",
    )


@dataclass(frozen=True)
class _Change:
    """The changed record, and the event that announces it."""

    identity: NodeIdentity
    reason: str
    message: str


def _record(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, step: _Recorded) -> None:
    """Record a step; the resourceVersion of the record that was read guards the write."""
    change = _changed(state, identity, step)
    record = state.config_maps[names.identity_map(state.name)]
    builder.do(
        Patch(
            kind="ConfigMap",
            name=objects.name(record),
            uid=objects.uid(record),
            body={"data": identity_map(state.name, state.namespace, change.identity)["data"]},
            resource_version=objects.version(record),
            reason=change.reason,
            message=change.message,
        )
    )


def _changed(state: ClusterState, identity: NodeIdentity, step: _Recorded) -> _Change:
    members = {voter.id: voter for voter in identity.members}
    match step:
        case AdmitControllers():
            members |= {i: ConfiguredVoter(i, _directory_for(state, identity, i)) for i in step.ids}
            ids = some([str(node_id) for node_id in step.ids])
            reason = "ControllersAdded"
            one = len(step.ids) == 1
            message = (
                f"Creating {'controller' if one else 'controllers'} {ids}; "
                f"{'it joins' if one else 'they join'} the quorum after catching up with the metadata log."
            )
        case DeleteController():
            del members[step.id]
            reason = "ControllerDeleted"
            message = f"Stopping controller {step.id}: it is no longer a voter. Its claim is kept."
        case RecreateController():
            members[step.id] = ConfiguredVoter(step.id, _fresh(state, step.id))
            reason = "ControllerRenewed"
            message = (
                f"Recreating controller {step.id} on a blank disk with a new directory id: it lost its disk."
            )
        case _:
            members[step.id] = ConfiguredVoter(step.id, step.directory_id)
            reason = "ControllerReadded"
            message = f"Recorded controller {step.id} again with the disk that it has, directory id {step.directory_id}."
    changed = replace(identity, controllers=tuple(members[i] for i in sorted(members)))
    return _Change(changed, reason, message)


def _directory_for(state: ClusterState, identity: NodeIdentity, node_id: int) -> str:
    """The directory id for a new controller: that of its former disk if the claim still exists, else a fresh one."""
    claim = state.claim(node_id, METADATA_DISK)
    carried = objects.annotation(claim, names.ANN_DIRECTORY_ID) if claim is not None else None
    if claim is not None and carried is not None and carried in identity.clearances:
        ours = objects.annotation(claim, names.ANN_CLUSTER_ID) == identity.cluster_id
        seen = objects.annotation(claim, names.ANN_FS_UUID) is not None
        # It may have left while its disk was being formatted: no other disk is ever formatted under that id.
        cleared = identity.clearances[carried].get("claim") == objects.name(claim)
        if ours and (seen or cleared):
            return carried
    return _fresh(state, node_id)


def _fresh(state: ClusterState, node_id: int) -> str:
    return uuid_from_entropy(state.snap.entropy, "controller", str(node_id))


def _member(state: ClusterState, identity: NodeIdentity, voter: ConfiguredVoter) -> Member:
    pod = state.pods.get(voter.id)
    # The record of a pod that went down stays until its successor is in sync; a controller that is no longer a voter never is.
    going = pod is not None and any(mark["uid"] == objects.uid(pod) for mark in state.unavailable_records)
    up = pod is not None and not objects.deleting(pod) and objects.kafka_runs(pod) and not going
    return Member(voter.id, voter.directory_id, up, lost(state, identity, voter))


def _carried(state: ClusterState, identity: NodeIdentity) -> dict[int, str]:
    """Directory ids that claims of controllers of this cluster carry."""
    found = {}
    for node_id in state.possible_controllers:
        claim = state.claim(node_id, METADATA_DISK)
        if claim is None or objects.annotation(claim, names.ANN_CLUSTER_ID) != identity.cluster_id:
            continue
        if directory_id := objects.annotation(claim, names.ANN_DIRECTORY_ID):
            found[node_id] = directory_id
    return found


def _delete_removed(state: ClusterState, builder: PlanBuilder, identity: NodeIdentity) -> None:
    """Stop the pods of removed controllers, then delete their ConfigMaps and Secrets; never while the quorum still lists them."""
    quorum = state.kafka.quorum
    if quorum is None or quorum.leader < 0:
        return
    staying = {voter.id for voter in quorum.voters} | {voter.id for voter in identity.members}
    for node_id in state.possible_controllers:
        if node_id in staying:
            continue
        pod = state.pods.get(node_id)
        if pod is not None:
            if objects.owned_by(pod, state.cluster) and not objects.deleting(pod):
                message = f"Stopping {objects.name(pod)}: it is no longer a controller."
                builder.do(_delete("Pod", objects.name(pod), objects.uid(pod), message))
            continue
        config = state.config_maps.get(names.config_map(state.name, node_id))
        if config is not None and objects.owned_by(config, state.cluster):
            builder.do(_delete("ConfigMap", objects.name(config), objects.uid(config)))
        secret = state.secrets.get(names.tls_secret(state.name, node_id))
        if secret is not None and objects.owned_by({"metadata": secret.metadata}, state.cluster):
            builder.do(_delete("Secret", str(secret.metadata["name"]), str(secret.metadata["uid"])))


def _delete(kind: str, name: str, uid: str, message: str = "") -> Delete:
    return Delete(
        kind=kind, name=name, uid=uid, reason="ControllerStopped" if message else "", message=message
    )


def _writes(state: ClusterState, builder: PlanBuilder) -> bool:
    """Whether this pass already changes the record: a second change would be based on outdated content."""
    record = names.identity_map(state.name)
    return any(isinstance(a, Patch) and (a.kind, a.name) == ("ConfigMap", record) for a in builder.actions)


def _changing(node_id: int) -> Waiting:
    return Waiting.refused(
        rule=2,
        reason="QuorumChanging",
        message=f"Controller {node_id} is joining or leaving the quorum; no controller restarts until that is done.",
        unblocked_by="Nothing to do: Spindle continues when the change of the quorum is complete.",
        objects=(str(node_id),),
    )
