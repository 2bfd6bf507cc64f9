"""The pods: made when all that they need is there, and said to be outdated when they no longer are what the spec says."""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.healing import maintenance
from spindle.manifests.identity import NodeIdentity
from spindle.manifests.inputs import ClusterInputs, NodeInputs
from spindle.manifests.pods import broker_pod, config_hash, controller_pod, pod_labels, spec_hash
from spindle.reconcile import objects
from spindle.reconcile.actions import Create, Delete, Patch
from spindle.reconcile.certificates import node_stale, restarts_for
from spindle.reconcile.inputs import cluster_inputs, controller_inputs, next_inputs
from spindle.reconcile.node_loss import node_is_lost
from spindle.reconcile.plan_builder import PlanBuilder, Wait
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.changed import what_changed
from spindle.reconcile.steps.eviction import RestartRequest
from spindle.reconcile.steps.stalled_rollout import crash_loops
from spindle.reconcile.steps.unavailable import evicted_for_drain

SCALED_IN: Final = "ScaledIn"
STOPPED: Final = "Stopped"
_ACTION: Final = "CreatePod"


def reconcile_pods(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity
) -> dict[int, RestartRequest]:
    """Make missing pods; returns the pods that should go down, and why."""
    shared = cluster_inputs(state, identity)
    wanted: dict[int, RestartRequest] = {}
    for node_id in state.controller_ids:
        _settle(state, builder, shared, controller_inputs(state, node_id), node_id, wanted)
    for node_id, broker in state.brokers.items():
        if broker["spec"].get("leaving"):
            _reconcile_stopped(state, builder, node_id, wanted, leaves(broker))
        elif maintenance.stopped(broker):
            by_hand = RestartRequest(STOPPED, "spec.stopped of its KafkaBroker is true")
            _reconcile_stopped(state, builder, node_id, wanted, by_hand)
        elif not node_is_lost(state, node_id):  # nothing is left for it to start with
            _settle(state, builder, shared, next_inputs(state, broker), node_id, wanted)
    _strangers(state, builder)
    return wanted


def _settle(
    state: ClusterState,
    builder: PlanBuilder,
    shared: ClusterInputs,
    inputs: NodeInputs | None,
    node_id: int,
    wanted: dict[int, RestartRequest],
) -> None:
    pod = state.pods.get(node_id)
    if inputs is None:
        return
    if pod is None:
        _make(state, builder, shared, inputs)
    elif objects.is_over(pod):
        _clear_away(builder, pod)
    elif not objects.deleting(pod):
        if objects.annotation(pod, names.ANN_SPEC_HASH) != spec_hash(shared, inputs):
            wanted[node_id] = RestartRequest("SpecChanged", what_changed(pod, shared, inputs))
        elif _starts_in_vain(state, pod, inputs):
            wanted[node_id] = RestartRequest(
                "SpecChanged", "its configuration changed, and Kafka does not start with it"
            )
        elif restarts_for(state, node_id):
            wanted[node_id] = RestartRequest(
                "CertificateRenewed", "its certificate, or whom it trusts, is another one now"
            )
        else:
            _name_release(builder, pod, shared)
        free = _may_leave_budget(state, pod) or evicted_for_drain(state, node_id)
        _mend_labels(builder, pod, pod_labels(shared, inputs), free=free)


def _starts_in_vain(state: ClusterState, pod: SnapshotObject, inputs: NodeInputs) -> bool:
    """Whether Kafka does not run in a pod, again and again or still, that was made with another file than there would be now.

    The restart of a container reads the file of its pod's beginning, so a value that keeps Kafka from starting stays until the pod is
    made anew, also one that a running Kafka would take. Who is only down for a moment comes back with the file that it had.
    """
    made_with = objects.annotation(pod, names.ANN_CONFIG)
    if objects.kafka_runs(pod) or made_with in (None, config_hash(inputs)):
        return False
    return not objects.kafka_ever_ran(pod) or crash_loops(state, pod)


def _build(shared: ClusterInputs, inputs: NodeInputs) -> SnapshotObject:
    make = controller_pod if inputs.node_id >= names.FIRST_CONTROLLER_ID else broker_pod
    return make(shared, inputs)


def _make(state: ClusterState, builder: PlanBuilder, shared: ClusterInputs, inputs: NodeInputs) -> None:
    """Create a pod once its claims, its certificate and its configuration are there."""
    missing = [
        f"claim {disk.claim}"
        for disk in inputs.disks
        if disk.mode == "Active" and disk.claim not in state.claims
    ]
    leaving = [
        disk.claim
        for disk in inputs.disks
        if disk.mode == "Active" and disk.claim in state.claims and objects.deleting(state.claims[disk.claim])
    ]
    secret = state.secrets.get(names.tls_secret(state.name, inputs.node_id))
    if secret is None or secret.certificate is None or node_stale(state, inputs.node_id):
        missing.append("its certificate")
    if names.config_map(state.name, inputs.node_id) not in state.config_maps:
        missing.append("its configuration")
    name = names.pod_name(state.name, inputs.node_id)
    if leaving:
        builder.wait(
            Wait(
                _ACTION,
                f"Pod/{name}",
                "ClaimBeingDeleted",
                f"Claim {leaving[0]} is being deleted, so {name} is not made.",
                "The claim is gone; a new one is made then, and its disk formatted only if no data is lost by that.",
            )
        )
    elif missing:
        builder.wait(
            Wait(
                _ACTION,
                f"Pod/{name}",
                "DependenciesMissing",
                f"{name} waits for {', '.join(missing)}.",
                "Spindle makes them in its next passes.",
                quiet=True,
            )
        )
    else:
        builder.do(Create(object=_build(shared, inputs), reason="PodCreated", message=f"{name} was made."))


def leaves(broker: SnapshotObject) -> RestartRequest:
    """Why a broker is stopped for good."""
    pool = broker["spec"].get("pool")
    return RestartRequest(
        SCALED_IN, f"nothing stands on it any more, and pool {pool} is to have fewer brokers"
    )


def _reconcile_stopped(
    state: ClusterState,
    builder: PlanBuilder,
    node_id: int,
    wanted: dict[int, RestartRequest],
    why: RestartRequest,
) -> None:
    pod = state.pods.get(node_id)
    if pod is None:
        return
    if objects.is_over(pod):
        _clear_away(builder, pod)
    elif not objects.deleting(pod):
        wanted[node_id] = why


def _clear_away(builder: PlanBuilder, pod: SnapshotObject) -> None:
    """A pod whose containers have ended for good only occupies its name."""
    if not objects.deleting(pod):
        why = str((pod.get("status") or {}).get("reason") or (pod.get("status") or {}).get("phase"))
        builder.do(
            Delete(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                reason="PodEnded",
                message=f"{objects.name(pod)} had ended ({why}) and is made anew.",
            )
        )


def _may_leave_budget(state: ClusterState, pod: SnapshotObject) -> bool:
    """Whether a pod is being taken down, or is one in which Kafka does not run, so that it can be made anew at any time."""
    return not objects.kafka_runs(pod) or any(
        mark["uid"] == objects.uid(pod) for mark in state.unavailable_records
    )


def _mend_labels(builder: PlanBuilder, pod: SnapshotObject, right: Mapping[str, str], *, free: bool) -> None:
    """Put back labels that were edited by hand: services and budgets find the pod by them.

    ``free``: it may have left its budget, so that it can be evicted.
    """
    wrong = {key: value for key, value in right.items() if objects.labels(pod).get(key) != value}
    if free:
        wrong.pop(names.LABEL_BUDGET, None)
    if wrong:
        builder.do(
            Patch(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                body={"metadata": {"labels": wrong}},
                reason="LabelsRestored",
                message=f"Labels of {objects.name(pod)} were put back: {', '.join(sorted(wrong))}.",
            )
        )


def _name_release(builder: PlanBuilder, pod: SnapshotObject, shared: ClusterInputs) -> None:
    """Note the release on a pod that is what it would be made as today: with an image of one's own, spec.version alone remakes nothing."""
    if objects.annotation(pod, names.ANN_VERSION) != shared.version:
        body = {"metadata": {"annotations": {names.ANN_VERSION: shared.version}}}
        builder.do(Patch(kind="Pod", name=objects.name(pod), uid=objects.uid(pod), body=body))


def _strangers(state: ClusterState, builder: PlanBuilder) -> None:
    """Pods with one of our names that no KafkaBroker stands behind; of controllers that left, others take care."""
    found = [
        objects.name(pod)
        for node_id, pod in state.pods.items()
        if node_id < names.FIRST_CONTROLLER_ID or not objects.owned_by(pod, state.cluster)
    ]
    found += sorted(taken.name for taken in state.taken.values() if taken.kind == "Pod")
    for name in found:
        node_id = objects.node_id_of(state.name, name)
        if node_id is not None and node_id not in state.brokers and node_id not in state.controller_ids:
            builder.wait(
                Wait(
                    "DeletePod",
                    f"Pod/{name}",
                    "OrphanedPod",
                    f"{name} looks like a pod of this cluster, but there is no KafkaBroker for it. It is left alone.",
                    "Delete the pod if nobody needs it.",
                )
            )
