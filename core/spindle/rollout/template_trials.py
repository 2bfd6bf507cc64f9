"""Before a pod is stopped for a changed pod template, the API server and its admission webhooks check the pod that is to replace it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.reported_text import clipped
from spindle.config.inputs import cluster_inputs, controller_inputs, next_inputs
from spindle.manifests.pods import PART_TEMPLATE, broker_pod, controller_pod, recorded_parts, spec_parts
from spindle.model.actions import TryPod
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.node_inputs import NodeInputs
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import SCALED_IN, STOPPED, RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

AGAIN: Final = 60.0  # seconds after which a refused pod is tried again: webhooks and policies change, too


def try_templates(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, wanted: Mapping[int, RestartRequest]
) -> dict[int, Waiting]:
    """Have one pod of each changed template checked.

    Returns:
        Node id → why its pod is not stopped yet: its successor is not checked, or would be refused. A pod that goes for good needs no successor.
    """
    shared = cluster_inputs(state, identity)
    held: dict[int, Waiting] = {}
    tried: set[str] = set()
    for node_id, request in sorted(wanted.items()):
        pod, inputs = state.pods.get(node_id), _inputs(state, node_id)
        if pod is None or inputs is None or not inputs.template or request.reason in (STOPPED, SCALED_IN):
            continue
        part = spec_parts(shared, inputs)[PART_TEMPLATE]
        if recorded_parts(pod).get(PART_TEMPLATE) == part:
            continue  # the API server took its pod with this template
        key = _key(inputs)
        trial = state.snap.pod_trials.get(key)
        if key not in tried and (trial is None or (trial.refusal and state.now - trial.at > AGAIN)):
            tried.add(key)
            make = controller_pod if node_id >= names.FIRST_CONTROLLER_ID else broker_pod
            builder.do(TryPod(object=_renamed(make(shared, inputs)), key=key))
        if trial is None or trial.refusal:
            name = names.pod_name(state.name, node_id)
            held[node_id] = _untried(name) if trial is None else _refused(name, inputs, trial.refusal)
    return held


def _inputs(state: ClusterState, node_id: int) -> NodeInputs | None:
    if node_id >= names.FIRST_CONTROLLER_ID:
        return controller_inputs(state, node_id)
    broker = state.brokers.get(node_id)
    return next_inputs(state, broker) if broker is not None else None


def _key(inputs: NodeInputs) -> str:
    """One for each pool and template: its pods differ in nothing that the API server would refuse."""
    text = json.dumps([inputs.pool, inputs.template], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _renamed(pod: Mapping[str, Any]) -> SnapshotObject:
    """The pod under a name that no pod has: the API server would answer for the one that runs that it exists."""
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "name": f"{metadata['name']}-try"}}


def field_of(inputs: NodeInputs) -> str:
    """The field of a node's template."""
    place = "controllers" if inputs.pool is None else f"brokerPools[{inputs.pool}]"
    return f"spec.{place}.podTemplate"


def _untried(name: str) -> Waiting:
    return Waiting(
        "RestartPod",
        f"Pod/{name}",
        "PodTemplateUnchecked",
        f"{name} gets a changed pod template, and the API server has not checked the new pod yet.",
        "Nothing to do: Spindle has it checked in this pass.",
        quiet=True,
    )


def _refused(name: str, inputs: NodeInputs, message: str) -> Waiting:
    field = field_of(inputs)
    return Waiting(
        "RestartPod",
        f"Pod/{name}",
        "PodTemplateRefused",
        f"{name} is not stopped: the API server would refuse the pod that replaces it, with the changed {field}: {clipped(message)}",
        f"Correct {field} as the message says, or restore the previous one; or change the policy or webhook that the message names. Spindle "
        "has the pod checked again every minute.",
    )
