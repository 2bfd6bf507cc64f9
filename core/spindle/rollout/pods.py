"""The pods: created when their dependencies exist, and marked for a restart when they no longer match the spec."""

from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle.config.broker_placement import is_misplaced
from spindle.config.inputs import cluster_inputs, controller_inputs, next_inputs
from spindle.manifests.pods import (
    broker_pod,
    config_hash,
    controller_pod,
    pod_labels,
    reads_loggers,
    reads_topics,
    spec_hash,
)
from spindle.model import maintenance, objects
from spindle.model.actions import Create, Patch
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.lost_brokers import node_is_lost
from spindle.model.node_inputs import ClusterInputs, NodeInputs
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import SCALED_IN, STOPPED, RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.unavailable import evicted_for_drain
from spindle.model.waiting import Waiting
from spindle.rollout.changed import what_changed
from spindle.rollout.stalled_rollout import crash_loops
from spindle.security.certificates import node_stale, restarts_for
from spindle.security.listener_certificates import not_reloaded

_ACTION: Final = "CreatePod"


def reconcile_pods(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity
) -> dict[int, RestartRequest]:
    """Create missing pods.

    Returns:
        Node id → why its pod should restart or stop.
    """
    shared = cluster_inputs(state, identity)
    wanted: dict[int, RestartRequest] = {}
    for node_id in state.controller_ids:
        _settle(state, builder, shared, controller_inputs(state, node_id), node_id, wanted)
    for node_id, broker in state.brokers.items():
        if broker["spec"].get("leaving"):
            _reconcile_stopped(state, builder, node_id, wanted, leaves(broker))
        elif maintenance.stopped(broker):
            by_hand = RestartRequest(STOPPED, "spec.maintenance.stopped of its KafkaBroker is true")
            _reconcile_stopped(state, builder, node_id, wanted, by_hand)
        elif not node_is_lost(state, node_id):  # without its node it has no disks to start with
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
                "SpecChanged", "Kafka does not start with its old configuration, which has changed since"
            )
        elif (unread := _unread(state, pod, inputs)) is not None:
            wanted[node_id] = RestartRequest(
                "SpecChanged",
                f"{unread}, and its pod was created by an earlier version of Spindle and cannot read them",
            )
        elif is_misplaced(state, node_id, pod):
            wanted[node_id] = RestartRequest(
                "SchedulingChanged",
                "it has no node yet, and the nodes that it may have are others by now",
            )
        elif (renewed := _renewed(state, node_id)) is not None:
            wanted[node_id] = RestartRequest("CertificateRenewed", renewed)
        else:
            _name_release(builder, pod, shared)
        free = _may_leave_budget(state, pod) or evicted_for_drain(state, node_id)
        _mend_labels(builder, pod, pod_labels(shared, inputs), free=free)


def _renewed(state: ClusterState, node_id: int) -> str | None:
    """Why a node has to be started for a certificate; None if it has not."""
    if restarts_for(state, node_id):
        return "its certificate or the authorities that it trusts changed"
    if listener := not_reloaded(state, node_id):
        return f"the certificate of listener {listener} changed, and it could not load it while it runs"
    return None


def _unread(state: ClusterState, pod: SnapshotObject, inputs: NodeInputs) -> str | None:
    """What of the spec a pod without its volume cannot read; None if there is nothing to read, or the pod has the volume."""
    if state.spec.metrics.topics and inputs.pool is not None and not reads_topics(pod):
        return "spec.metrics.topics names topics"
    if state.spec.logging.loggers and not reads_loggers(pod):
        return "spec.logging sets levels"
    return None


def _starts_in_vain(state: ClusterState, pod: SnapshotObject, inputs: NodeInputs) -> bool:
    """Whether Kafka crash-loops, or never started, in a pod that was created with an older ``server.properties``.

    A restarted container reads the file that its pod was created with. So a value that keeps Kafka from starting stays until the pod is
    recreated, even one that a running Kafka would accept as a dynamic config. A broker that is down only briefly comes back with its file.
    """
    made_with = objects.annotation(pod, names.ANN_CONFIG)
    if objects.kafka_runs(pod) or made_with in (None, config_hash(inputs)):
        return False
    return not objects.kafka_ever_ran(pod) or crash_loops(state, pod)


def _build(shared: ClusterInputs, inputs: NodeInputs) -> SnapshotObject:
    make = controller_pod if inputs.node_id >= names.FIRST_CONTROLLER_ID else broker_pod
    return make(shared, inputs)


def _make(state: ClusterState, builder: PlanBuilder, shared: ClusterInputs, inputs: NodeInputs) -> None:
    """Create a pod once its claims, its certificate and its ConfigMap exist."""
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
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "ClaimBeingDeleted",
                f"Claim {leaving[0]} is being deleted, so pod {name} is not created.",
                "Nothing to do: Spindle continues when the claim is gone. It then creates a new claim, and formats its disk only if that loses no data.",
            )
        )
    elif missing:
        builder.wait(
            Waiting(
                _ACTION,
                f"Pod/{name}",
                "DependenciesMissing",
                f"Pod {name} is not created yet: {', '.join(missing)} missing.",
                "Nothing to do: Spindle creates them in its next reconciliations.",
                quiet=True,
            )
        )
    else:
        builder.do(Create(object=_build(shared, inputs), reason="PodCreated", message=f"Created pod {name}."))


def leaves(broker: SnapshotObject) -> RestartRequest:
    """Why a broker is stopped for good."""
    pool = broker["spec"].get("pool")
    return RestartRequest(SCALED_IN, f"it holds no replicas any more, and pool {pool} is scaled in")


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
    """Delete a pod whose containers have ended for good: it only occupies its name."""
    status = pod.get("status") or {}
    why = status.get("reason") or status.get("phase")
    builder.delete("Pod", pod, "PodEnded", f"Pod {objects.name(pod)} had ended ({why}) and is recreated.")


def _may_leave_budget(state: ClusterState, pod: SnapshotObject) -> bool:
    """Whether a pod is being taken down, or Kafka does not run in it, so that it can be recreated at any time."""
    return not objects.kafka_runs(pod) or any(
        mark["uid"] == objects.uid(pod) for mark in state.unavailable_records
    )


def _mend_labels(builder: PlanBuilder, pod: SnapshotObject, right: Mapping[str, str], *, free: bool) -> None:
    """Restore labels that were edited by hand: Services and PodDisruptionBudgets select the pod by them.

    ``free``: the pod may lack the label of its PodDisruptionBudget, so that it can be evicted.
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
                message=f"Restored labels of pod {objects.name(pod)}: {', '.join(sorted(wrong))}.",
            )
        )


def _name_release(builder: PlanBuilder, pod: SnapshotObject, shared: ClusterInputs) -> None:
    """Write the release on a pod that is up to date: with a custom image, a change of ``spec.version`` alone recreates no pod."""
    if objects.annotation(pod, names.ANN_VERSION) != shared.version:
        body = {"metadata": {"annotations": {names.ANN_VERSION: shared.version}}}
        builder.do(Patch(kind="Pod", name=objects.name(pod), uid=objects.uid(pod), body=body))


def _strangers(state: ClusterState, builder: PlanBuilder) -> None:
    """Report pods with a name of this cluster and no KafkaBroker; `spindle.controllers.membership` handles removed controllers."""
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
                Waiting(
                    "DeletePod",
                    f"Pod/{name}",
                    "OrphanedPod",
                    f"Pod {name} has a name of this cluster, but there is no KafkaBroker for it. Spindle does not touch it.",
                    "Delete the pod if it is not needed.",
                )
            )
