"""The pods: made when all that they need is there, and said to be outdated when they no longer are what the spec says."""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.manifests.identity import Identity
from spindle.manifests.inputs import ClusterInputs, NodeInputs
from spindle.manifests.pods import broker_pod, config_hash, controller_pod, pod_labels, spec_hash
from spindle.reconcile import objects
from spindle.reconcile.actions import Create, Delete, Patch
from spindle.reconcile.certificates import node_stale, restarts_for
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.gone import gone_for_good
from spindle.reconcile.inputs import cluster_inputs, controller_inputs, next_inputs
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.steps.away import given_to_drain
from spindle.reconcile.steps.changed import what_changed
from spindle.reconcile.steps.stalls import restarts_again
from spindle.reconcile.steps.takedown import Wanted

SCALED_IN: Final = "ScaledIn"
_ACTION: Final = "CreatePod"


def settle_pods(state: State, draft: Draft, identity: Identity) -> dict[int, Wanted]:
    """Make missing pods; returns the pods that should go down, and why."""
    shared = cluster_inputs(state, identity)
    wanted: dict[int, Wanted] = {}
    for node_id in state.controller_ids:
        _settle(state, draft, shared, controller_inputs(state, node_id), node_id, wanted)
    for node_id, broker in state.brokers.items():
        if broker["spec"].get("leaving"):
            _settle_stopped(state, draft, node_id, wanted, leaves(broker))
        elif broker["spec"].get("stopped"):
            by_hand = Wanted("Stopped", "spec.stopped of its KafkaBroker is true")
            _settle_stopped(state, draft, node_id, wanted, by_hand)
        elif not gone_for_good(state, node_id):  # nothing is left for it to start with
            _settle(state, draft, shared, next_inputs(state, broker), node_id, wanted)
    _strangers(state, draft)
    return wanted


def _settle(
    state: State,
    draft: Draft,
    shared: ClusterInputs,
    inputs: NodeInputs | None,
    node_id: int,
    wanted: dict[int, Wanted],
) -> None:
    pod = state.pods.get(node_id)
    if inputs is None:
        return
    if pod is None:
        _make(state, draft, shared, inputs)
    elif objects.is_over(pod):
        _clear_away(draft, pod)
    elif not objects.deleting(pod):
        if objects.annotation(pod, names.ANN_SPEC_HASH) != spec_hash(shared, inputs):
            wanted[node_id] = Wanted("SpecChanged", what_changed(pod, shared, inputs))
        elif _starts_in_vain(state, pod, inputs):
            wanted[node_id] = Wanted(
                "SpecChanged", "its configuration changed, and Kafka does not start with it"
            )
        elif restarts_for(state, node_id):
            wanted[node_id] = Wanted(
                "CertificateRenewed", "its certificate, or whom it trusts, is another one now"
            )
        else:
            _name_release(draft, pod, shared)
        free = _may_leave_budget(state, pod) or given_to_drain(state, node_id)
        _mend_labels(draft, pod, pod_labels(shared, inputs), free=free)


def _starts_in_vain(state: State, pod: Object, inputs: NodeInputs) -> bool:
    """Whether Kafka does not run in a pod, again and again or still, that was made with another file than there would be now.

    The restart of a container reads the file of its pod's beginning, so a value that keeps Kafka from starting stays until the pod is
    made anew, also one that a running Kafka would take. Who is only down for a moment comes back with the file that it had.
    """
    made_with = objects.annotation(pod, names.ANN_CONFIG)
    if objects.kafka_runs(pod) or made_with in (None, config_hash(inputs)):
        return False
    return not objects.kafka_ever_ran(pod) or restarts_again(state, pod)


def _build(shared: ClusterInputs, inputs: NodeInputs) -> Object:
    make = controller_pod if inputs.node_id >= names.FIRST_CONTROLLER_ID else broker_pod
    return make(shared, inputs)


def _make(state: State, draft: Draft, shared: ClusterInputs, inputs: NodeInputs) -> None:
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
        draft.wait(
            Wait(
                _ACTION,
                f"Pod/{name}",
                "ClaimBeingDeleted",
                f"Claim {leaving[0]} is being deleted, so {name} is not made.",
                "The claim is gone; a new one is made then, and its disk formatted only if no data is lost by that.",
            )
        )
    elif missing:
        draft.wait(
            Wait(
                _ACTION,
                f"Pod/{name}",
                "PartsMissing",
                f"{name} waits for {', '.join(missing)}.",
                "Spindle makes them in its next passes.",
                quiet=True,
            )
        )
    else:
        draft.do(Create(object=_build(shared, inputs), reason="PodCreated", message=f"{name} was made."))


def leaves(broker: Object) -> Wanted:
    """Why a broker is stopped for good."""
    pool = broker["spec"].get("pool")
    return Wanted(SCALED_IN, f"nothing stands on it any more, and pool {pool} is to have fewer brokers")


def _settle_stopped(state: State, draft: Draft, node_id: int, wanted: dict[int, Wanted], why: Wanted) -> None:
    pod = state.pods.get(node_id)
    if pod is None:
        return
    if objects.is_over(pod):
        _clear_away(draft, pod)
    elif not objects.deleting(pod):
        wanted[node_id] = why


def _clear_away(draft: Draft, pod: Object) -> None:
    """A pod whose containers have ended for good only occupies its name."""
    if not objects.deleting(pod):
        why = str((pod.get("status") or {}).get("reason") or (pod.get("status") or {}).get("phase"))
        draft.do(
            Delete(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                reason="PodEnded",
                message=f"{objects.name(pod)} had ended ({why}) and is made anew.",
            )
        )


def _may_leave_budget(state: State, pod: Object) -> bool:
    """Whether a pod is being taken down, or is one in which Kafka does not run, so that it can be made anew at any time."""
    return not objects.kafka_runs(pod) or any(mark["uid"] == objects.uid(pod) for mark in state.marks)


def _mend_labels(draft: Draft, pod: Object, right: Mapping[str, str], *, free: bool) -> None:
    """Put back labels that were edited by hand: services and budgets find the pod by them.

    ``free``: it may have left its budget, so that it can be evicted.
    """
    wrong = {key: value for key, value in right.items() if objects.labels(pod).get(key) != value}
    if free:
        wrong.pop(names.LABEL_BUDGET, None)
    if wrong:
        draft.do(
            Patch(
                kind="Pod",
                name=objects.name(pod),
                uid=objects.uid(pod),
                body={"metadata": {"labels": wrong}},
                reason="LabelsRestored",
                message=f"Labels of {objects.name(pod)} were put back: {', '.join(sorted(wrong))}.",
            )
        )


def _name_release(draft: Draft, pod: Object, shared: ClusterInputs) -> None:
    """Note the release on a pod that is what it would be made as today: with an image of one's own, spec.version alone remakes nothing."""
    if objects.annotation(pod, names.ANN_VERSION) != shared.version:
        body = {"metadata": {"annotations": {names.ANN_VERSION: shared.version}}}
        draft.do(Patch(kind="Pod", name=objects.name(pod), uid=objects.uid(pod), body=body))


def _strangers(state: State, draft: Draft) -> None:
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
            draft.wait(
                Wait(
                    "RemovePod",
                    f"Pod/{name}",
                    "PodWithoutBroker",
                    f"{name} looks like a pod of this cluster, but there is no KafkaBroker for it. It is left alone.",
                    "Delete the pod if nobody needs it.",
                )
            )
