"""Takes a cluster over from Strimzi, step by step. Each step detects what is done already, so all of them can be run again."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.manifests.backup import reserve
from spindle.model.waiting import counted, some
from spindle.takeover import manifests, strimzi
from spindle.takeover.converted import Converted, converted
from spindle.takeover.downtime import Downtime, downtime
from spindle.takeover.plan import DiskPlan, NodePlan, TakeoverPlan, TakeoverRecord, parse_record, record_name
from spindle_cli import objects
from spindle_cli.copied import in_namespace
from spindle_cli.kube import Json, Kube, KubeError
from spindle_cli.libraries import kubernetes
from spindle_cli.objects import Kind, Objects

_VERSIONS: Final = ("v1", "v1beta2")
KAFKA: Final = Kind("Kafka", "kafkas", strimzi.GROUP, _VERSIONS)
POOL: Final = Kind("KafkaNodePool", "kafkanodepools", strimzi.GROUP, _VERSIONS)
THEIR_USER: Final = Kind("KafkaUser", "kafkausers", strimzi.GROUP, _VERSIONS)
THEIR_TOPIC: Final = Kind("KafkaTopic", "kafkatopics", strimzi.GROUP, _VERSIONS)
POD_SET: Final = Kind("StrimziPodSet", "strimzipodsets", strimzi.CORE_GROUP, _VERSIONS)

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
    return converted(name, topics, users)


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
        return parse_record((kept.get("data") or {}).get(manifests.RECORD_KEY, ""))
    except ValueError as error:
        raise KubeError(f"ConfigMap {record_name(name)} {error}") from error


def outage(found: Objects, name: str) -> Downtime:
    """How long Kafka will be down, at most; of a take-over that was interrupted, the rest of it."""
    kept = recall(found, name)
    if kept is None:
        theirs = read(found, name)
        return downtime(strimzi.plan(theirs), theirs.pods)
    return downtime(kept.plan, _by_name(found, objects.POD))


def take(found: Objects, name: str, image: str, say: Say) -> None:
    """Run all steps that are not done yet.

    Raises:
        KubeError: something prevents it; the steps done so far are on record, and can be resumed or undone.
    """
    kept = recall(found, name)
    if kept is None:
        theirs = read(found, name)
        plan = strimzi.plan(theirs)
        if plan.problems:
            raise KubeError("nothing was changed.\n" + "\n".join(f"- {each}" for each in plan.problems))
        policies = {key: _policy(volume) for key, volume in theirs.volumes.items()}
        kept = manifests.takeover_record(plan, theirs.claims, policies)
        found.create(objects.CONFIG_MAP, manifests.record_map(kept))
    plan = kept.plan
    if found.find(objects.CLUSTER, name) is not None:
        raise KubeError(
            f"KafkaCluster {name} exists already: the cluster was taken over. See: {in_namespace(f'spindle status {name}', plan.namespace)}"
        )
    _pause(found, plan, say)
    for volume in kept.policies:
        found.patch(objects.VOLUME, volume, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    began = time.monotonic()
    _stop(found, plan, plan.brokers, say)
    _stop(found, plan, plan.controllers, say)
    _rename(
        found,
        [
            (disk.claim, disk, manifests.new_claim(plan, node, disk))
            for node in plan.nodes
            for disk in node.disks
        ],
    )
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
    moved = [
        node
        for node in plan.nodes
        if all(found.find(objects.CLAIM, disk.becomes) is not None for disk in node.disks)
    ]
    _lay_out(found, plan, image, say, nodes=moved, undone=True)
    back = []
    for disk in (disk for node in plan.nodes for disk in node.disks):
        theirs = kept.claims[disk.claim]
        theirs = {**theirs, "metadata": {**theirs["metadata"], "namespace": plan.namespace}}
        back.append((disk.becomes, disk, theirs))
    _rename(found, back)
    for volume, policy in kept.policies.items():
        found.patch(objects.VOLUME, volume, {"spec": {"persistentVolumeReclaimPolicy": policy}})
    found.delete(objects.CONFIG_MAP, names.identity_map(name))
    found.patch(KAFKA, name, {"metadata": {"annotations": {strimzi.PAUSE: None}}})
    found.delete(objects.CONFIG_MAP, record_name(name))
    say(
        f"Kafka {name} belongs to Strimzi again; Strimzi starts it at its next reconciliation (within two minutes)"
    )


def _pause(found: Objects, plan: TakeoverPlan, say: Say) -> None:
    found.patch(KAFKA, plan.name, {"metadata": {"annotations": {strimzi.PAUSE: "true"}}})

    def paused() -> bool:
        conditions = (found.get(KAFKA, plan.name).get("status") or {}).get("conditions") or ()
        return any(c.get("type") == "ReconciliationPaused" and c.get("status") == "True" for c in conditions)

    _until("Strimzi reports the condition ReconciliationPaused", paused, _PAUSED_S)
    say("Strimzi has paused its reconciliation of the cluster")


def _stop(found: Objects, plan: TakeoverPlan, nodes: Sequence[NodePlan], say: Say) -> None:
    """Delete Strimzi's StrimziPodSets; their pods shut down gracefully."""
    pods = {node.pod for node in nodes}
    owners: set[str] = set()
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


def _rename(found: Objects, changes: Sequence[tuple[str, DiskPlan, Json]]) -> None:
    """Reserve volumes for other claims, all at once: Kafka is down meanwhile. A volume stays Released, with its data, until it is reserved.

    Args:
        changes: the name of the present claim, its disk, and the claim that follows.
    """
    there = _by_name(found, objects.CLAIM)
    due = [each for each in changes if each[2]["metadata"]["name"] not in there]
    former = {old for old, _, _ in due if old in there}
    for old in sorted(former):
        found.delete(objects.CLAIM, old, there[old]["metadata"]["uid"])

    def gone() -> bool:
        return former.isdisjoint(_by_name(found, objects.CLAIM))

    _until(f"the former claims are deleted: {some(sorted(former))}", gone, _GONE_S)
    for _, disk, new in due:
        found.patch(
            objects.VOLUME, disk.volume, reserve(new["metadata"]["namespace"], new["metadata"]["name"])
        )
        found.apply(new)


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
