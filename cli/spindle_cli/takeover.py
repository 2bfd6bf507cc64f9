"""Takes a cluster over from Strimzi, step by step. Each step detects what is done already, so all of them can be run again."""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.manifests.backup import reserve
from spindle.model.objects import deleting
from spindle.model.waiting import counted, some
from spindle.takeover import manifests, strimzi
from spindle.takeover.claims import ClaimChange, may_change, may_have_moved
from spindle.takeover.converted import Converted, converted
from spindle.takeover.downtime import Downtime, downtime
from spindle.takeover.plan import NodePlan, TakeoverPlan, TakeoverRecord, record_name
from spindle_cli import objects
from spindle_cli.copied import in_namespace
from spindle_cli.kube import Json, Kube, KubeError
from spindle_cli.libraries import kubernetes
from spindle_cli.objects import Kind, Objects
from spindle_cli.strimzi_kinds import KAFKA, POD_SET, POOL, THEIR_TOPIC, THEIR_USER
from spindle_cli.takeover_check import accepted, with_refusals

_POLL_S: Final = 1.0
_PAUSED_S: Final = 300.0  # Strimzi reconciles every two minutes
_STOPPED_S: Final = 1800.0  # a broker may take long to close its logs
_GONE_S: Final = 120.0
_LAID_OUT_S: Final = 1800.0  # the kubelet first changes the group of each file (fsGroup)

Say = Callable[[str], None]


def read(found: Objects, name: str) -> strimzi.StrimziCluster:
    """Read the cluster from Kubernetes."""
    mine = f"{strimzi.LABEL_CLUSTER}={name}"
    return strimzi.StrimziCluster(
        kafka=found.get(KAFKA, name),
        pools=found.every(POOL, mine),
        claims=_by_name(found, objects.CLAIM),
        volumes=_by_name(found, objects.VOLUME),
        nodes=_by_name(found, objects.NODE),
        pods=_by_name(found, objects.POD),
        users=len(found.every(THEIR_USER, mine)) if found.serves(THEIR_USER) else 0,
        taken=frozenset(_by_name(found, objects.CLUSTER)),
    )


def convert(found: Objects, name: str) -> list[Converted]:
    """KafkaTopics and KafkaUsers of the cluster as those of Spindle."""
    mine = f"{strimzi.LABEL_CLUSTER}={name}"
    topics, users = (
        found.every(kind, mine) if found.serves(kind) else [] for kind in (THEIR_TOPIC, THEIR_USER)
    )
    return accepted(found, converted(name, topics, users))


def image_of(kube: Kube) -> str:
    """The image of the installed operator."""
    call = kubernetes.client.CoreV1Api(kube.api).list_pod_for_all_namespaces
    answer = kube.ask(
        "pods", call, label_selector="app.kubernetes.io/name=spindle", limit=1, _preload_content=False
    )
    pods = json.loads(answer.data)["items"]
    if not pods:
        raise KubeError("Spindle's operator was not found: install it first, or set --image")
    return str(pods[0]["spec"]["containers"][0]["image"])


def recall(found: Objects, name: str) -> TakeoverRecord | None:
    """The record of an earlier run; None if there is none."""
    kept = found.find(objects.CONFIG_MAP, record_name(name))
    if kept is None:
        return None
    try:
        return manifests.recorded(kept)
    except ValueError as error:
        raise KubeError(f"ConfigMap {record_name(name)} {error}") from error


def outage(found: Objects, name: str) -> Downtime:
    """How long Kafka will be down, at most; of a take-over that was interrupted, the rest of it."""
    kept = recall(found, name)
    if kept is None:
        theirs = read(found, name)
        return downtime(strimzi.plan(theirs), theirs.pods, theirs.volumes)
    return downtime(kept.plan, _by_name(found, objects.POD), _by_name(found, objects.VOLUME))


def take(found: Objects, name: str, image: str, say: Say) -> None:
    """Run all steps that are not done yet.

    Raises:
        KubeError: something prevents it; the steps done so far are on record, and can be resumed or undone.
    """
    kept = recall(found, name)
    if kept is None:
        theirs = read(found, name)
        plan = with_refusals(found, strimzi.plan(theirs), lambda: image)
        if plan.problems:
            raise KubeError("nothing was changed.\n" + "\n".join(f"- {each}" for each in plan.problems))
        policies = {key: _policy(volume) for key, volume in theirs.volumes.items()}
        kept = manifests.takeover_record(plan, theirs.claims, policies)
        try:
            written = manifests.record_map(kept)
        except ValueError as error:
            raise KubeError(f"nothing was changed: {error}") from error
        found.create(objects.CONFIG_MAP, written)
    plan = kept.plan
    if found.find(objects.CLUSTER, name) is not None:
        raise KubeError(
            f"KafkaCluster {name} exists already: the cluster was taken over. See: {in_namespace(f'spindle status {name}', plan.namespace)}"
        )
    changes = _to_ours(plan, plan.nodes)
    _unchanged(found, plan)
    _due(found, changes)
    turn = _begin(found, plan)
    _pause(found, plan, say)
    for volume in kept.policies:
        found.patch(objects.VOLUME, volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    began = time.monotonic()
    _stop(found, plan, plan.brokers, say)
    _stop(found, plan, plan.controllers, say)
    _rename(found, plan, changes, turn)
    say(f"{counted(len(kept.policies), 'volume')} reserved for claims with Spindle's names")
    directories = _lay_out(found, plan, image, say)
    for claim in manifests.identified_claims(plan, directories):
        found.apply(claim)
    found.apply(plan.manifest)
    say(
        f"KafkaCluster {name} was applied, {time.monotonic() - began:.0f} s after brokers began to stop; follow it with: {in_namespace(f'spindle wait {name}', plan.namespace)}\n"
        f"For its topics and users: {in_namespace(f'spindle takeover convert {name}', plan.namespace)} | kubectl apply -f -"
    )


def undo(found: Objects, name: str, image: str, say: Say) -> None:
    """Return the cluster to Strimzi; possible until Spindle has started Kafka on the disks.

    Raises:
        KubeError: something prevents it.
    """
    kept = recall(found, name)
    if kept is None:
        raise KubeError(
            f"there is no ConfigMap {record_name(name)}: nothing was taken over, or everything was undone"
        )
    if found.find(objects.CLUSTER, name) is not None:
        raise KubeError(f"KafkaCluster {name} exists: delete it first; its claims stay")
    plan = kept.plan
    turn = _begin(found, plan)
    claims, volumes = _by_name(found, objects.CLAIM), _by_name(found, objects.VOLUME)
    moved = [node for node in plan.nodes if any(may_have_moved(disk, claims, volumes) for disk in node.disks)]
    # A log dir that was renamed can only be renamed back through the claim with Spindle's name.
    _rename(found, plan, _to_ours(plan, moved), turn)
    _lay_out(found, plan, image, say, nodes=moved, undone=True)
    back = []
    for node in plan.nodes:
        for disk in node.disks:
            if node not in moved and disk.claim in claims and not deleting(claims[disk.claim]):
                continue  # it was never renamed
            theirs = kept.claims[disk.claim]
            theirs = {**theirs, "metadata": {**theirs["metadata"], "namespace": plan.namespace}}
            back.append(ClaimChange(disk, disk.becomes, theirs))
    _rename(found, plan, back, turn)
    _still(found, plan, turn)
    for volume in sorted(set(kept.policies) & set(_by_name(found, objects.VOLUME))):
        policy = {"persistentVolumeReclaimPolicy": kept.policies[volume]}
        found.patch(objects.VOLUME, volume, {"spec": policy})
    found.delete(objects.CONFIG_MAP, names.identity_map(name))
    found.patch(KAFKA, name, {"metadata": {"annotations": {strimzi.PAUSE: None}}})
    found.delete(objects.CONFIG_MAP, record_name(name))
    say(
        f"Kafka {name} belongs to Strimzi again; Strimzi starts it at its next reconciliation (within two minutes)"
    )


def _begin(found: Objects, plan: TakeoverPlan) -> str:
    """Note that this command works on the take-over from now on, so that one that was started before stops."""
    turn = str(uuid.uuid4())
    found.patch(objects.CONFIG_MAP, record_name(plan.name), {"data": {manifests.TURN_KEY: turn}})
    return turn


def _still(found: Objects, plan: TakeoverPlan, turn: str) -> None:
    """Raise KubeError if another command was started meanwhile, which would change the same claims."""
    kept = found.find(objects.CONFIG_MAP, record_name(plan.name)) or {}
    if (kept.get("data") or {}).get(manifests.TURN_KEY) != turn:
        raise KubeError(
            f"another spindle takeover of Kafka {plan.name} was started meanwhile: this one ends here. Wait for the other one, or run the command again"
        )


def _unchanged(found: Objects, plan: TakeoverPlan) -> None:
    """Raise KubeError if the cluster has other nodes than when the take-over was planned."""
    pools = found.every(POOL, f"{strimzi.LABEL_CLUSTER}={plan.name}")
    changed = strimzi.node_ids(pools) ^ {node.node_id for node in plan.nodes}
    if changed:
        raise KubeError(
            f"nodes of the Kafka cluster were added or removed since the take-over was planned: {some(sorted(map(str, changed)))}. "
            f"To resolve: {in_namespace(f'spindle takeover undo {plan.name}', plan.namespace)}, then run the command again"
        )


def _pause(found: Objects, plan: TakeoverPlan, say: Say) -> None:
    stale = strimzi.pause_that_ended(found.get(KAFKA, plan.name))
    if stale is not None:
        raise KubeError(f"{stale}. Then run the command again")
    found.patch(KAFKA, plan.name, {"metadata": {"annotations": {strimzi.PAUSE: "true"}}})
    _until(
        "Strimzi reports the condition ReconciliationPaused",
        lambda: strimzi.paused(found.get(KAFKA, plan.name)),
        _PAUSED_S,
    )
    say("Strimzi has paused its reconciliation of the cluster")


def _stop(found: Objects, plan: TakeoverPlan, nodes: Sequence[NodePlan], say: Say) -> None:
    """Delete Strimzi's StrimziPodSets; their pods shut down gracefully."""
    pods = {node.pod for node in nodes}
    # A set whose pods are missing at the moment would create them again.
    owners = {strimzi.pod_set(node.pod) for node in nodes}
    for pod in found.every(objects.POD, f"{strimzi.LABEL_CLUSTER}={plan.name}"):
        if pod["metadata"]["name"] in pods:
            owners |= {
                str(owner["name"])
                for owner in pod["metadata"].get("ownerReferences") or ()
                if owner["kind"] == POD_SET.name
            }
    for owner in sorted(owners):
        found.delete(POD_SET, owner)

    def stopped() -> bool:
        return pods.isdisjoint(_by_name(found, objects.POD))

    _until(f"the pods {', '.join(sorted(pods))} are deleted", stopped, _STOPPED_S)
    say(f"{counted(len(pods), 'controller' if nodes and nodes[0].controller else 'broker')} stopped")


def _to_ours(plan: TakeoverPlan, nodes: Sequence[NodePlan]) -> list[ClaimChange]:
    """The volumes of nodes get claims with Spindle's names."""
    return [
        ClaimChange(disk, disk.claim, manifests.new_claim(plan, node, disk))
        for node in nodes
        for disk in node.disks
    ]


def _due(found: Objects, changes: Sequence[ClaimChange]) -> list[ClaimChange]:
    """The changes that are not done yet; if one of them is refused, KubeError."""
    claims, volumes = _by_name(found, objects.CLAIM), _by_name(found, objects.VOLUME)
    findings = [(each, may_change(each, claims, volumes)) for each in changes]
    refused = [f"- {finding.refusal}" for _, finding in findings if finding.refusal]
    if refused:
        raise KubeError(
            "no claim was changed, because claims or volumes are not as they were when the take-over was planned.\n"
            + "\n".join(refused)
            + "\nTo resolve: correct this and run the command again."
        )
    return [each for each, finding in findings if not finding.done]


def _rename(found: Objects, plan: TakeoverPlan, changes: Sequence[ClaimChange], turn: str) -> None:
    """Reserve volumes for other claims, all at once: Kafka is down meanwhile. A volume stays Released, with its data, until it is reserved."""
    due = _due(found, changes)
    there = _by_name(found, objects.CLAIM)
    leaving = {each.former for each in due if each.former in there}
    leaving |= {each.name for each in due if each.name in there and deleting(there[each.name])}
    _still(found, plan, turn)
    # Others may have set it back since the first step, and then the volume would go with its claim.
    for each in due:
        found.patch(objects.VOLUME, each.disk.volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    for name in sorted(leaving):
        found.delete(objects.CLAIM, name, there[name]["metadata"]["uid"])

    def gone() -> bool:
        return leaving.isdisjoint(_by_name(found, objects.CLAIM))

    _until(
        f"the former claims are deleted, which pods that use them prevent: {some(sorted(leaving))}",
        gone,
        _GONE_S,
    )
    _still(found, plan, turn)
    for each in due:
        found.patch(objects.VOLUME, each.disk.volume, reserve(each.namespace, each.name))
        found.apply(dict(each.claim))


def _lay_out(
    found: Objects,
    plan: TakeoverPlan,
    image: str,
    say: Say,
    *,
    nodes: Sequence[NodePlan] | None = None,
    undone: bool = False,
) -> dict[int, list[str]]:
    """Run a pod for each node and collect the results; a node is not changed if one of its disks is not as expected."""
    chosen = plan.nodes if nodes is None else nodes
    for node in chosen:
        name = manifests.pod_name(plan, node)
        found.delete(objects.POD, name)
        _until_gone(found, objects.POD, name)
        found.create(objects.POD, manifests.pod(plan, node, image, undo=undone))
    told: dict[int, list[str]] = {}
    refused = []
    for node in chosen:
        answer = _answer(found, manifests.pod_name(plan, node))
        if "refused" in answer:
            refused.append(f"- node {node.node_id}: {answer['refused']}")
        told[node.node_id] = list(answer.get("directories") or ())
    for node in chosen:
        found.delete(objects.POD, manifests.pod_name(plan, node))
    if refused:
        way = (
            ""
            if undone
            else f"\nTo resolve: correct this and run the command again, or return the cluster to Strimzi with: {in_namespace(f'spindle takeover undo {plan.name}', plan.namespace)}"
        )
        raise KubeError(
            "the volumes of these nodes do not have the expected content and were not changed.\n"
            + "\n".join(refused)
            + way
        )
    if chosen:
        say(
            f"the volumes of {counted(len(chosen), 'node')} now have the layout of {'Strimzi' if undone else 'Spindle'}"
        )
    return told


def _answer(found: Objects, pod: str) -> dict[str, Any]:
    """Termination message of a pod."""

    def ended() -> bool:
        return (found.get(objects.POD, pod).get("status") or {}).get("phase") in ("Succeeded", "Failed")

    _until(f"pod {pod} has ended", ended, _LAID_OUT_S)
    status = found.get(objects.POD, pod)["status"]
    for container in status.get("containerStatuses") or ():
        message = ((container.get("state") or {}).get("terminated") or {}).get("message")
        if message:
            try:
                return dict(json.loads(message))
            except ValueError:
                return {"refused": message}
    return {
        "refused": f"pod {pod} ended without a termination message: {status.get('message') or status.get('reason')}"
    }


def _by_name(found: Objects, kind: Kind) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in found.every(kind)}


def _until_gone(found: Objects, kind: Kind, name: str) -> None:
    _until(f"{kind.name} {name} is deleted", lambda: found.find(kind, name) is None, _GONE_S)


def _until(what: str, holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise KubeError(
                f"timed out after {seconds:.0f} s while waiting until {what}. Run the command again to continue."
            )
        time.sleep(_POLL_S)  # noqa: TID251 - a command line has nothing else to do meanwhile


def _policy(volume: Mapping[str, Any]) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")
