"""Why the scheduler finds no node for a pod, and what unblocks it: a pod whose local volumes are on a node can run on that node only."""

from collections.abc import Sequence
from typing import Any, Final

from spindle.api import names
from spindle.config.broker_placement import shares_no_node
from spindle.model import objects
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_ACTION: Final = "StartPod"


def no_node(state: ClusterState, node_id: int, pod: SnapshotObject) -> Waiting:
    """The wait of a pod that is not scheduled."""
    reported = str((objects.condition(pod, "PodScheduled") or {}).get("message", ""))
    claims = _claims_of(state, pod)
    unbound = [claim for claim in claims if not objects.bound_volume(claim)]
    hosts = _hosts(state, claims)
    if unbound and "persistent volume" in reported.lower():
        return _no_volumes(state, node_id, pod, unbound, reported)
    missing_class = [claim for claim in unbound if not (claim.get("spec") or {}).get("storageClassName")]
    if missing_class:
        return Waiting(
            _ACTION,
            f"Pod/{objects.name(pod)}",
            "NoStorageClass",
            f"Claim {objects.name(missing_class[0])} names no StorageClass, and Kubernetes has no default one.",
            "Set storageClass in the KafkaCluster, or mark one StorageClass as the default.",
        )
    peers = _peers_on(state, node_id, hosts)
    if any(shares_no_node(each) for each in (pod, *peers)) and peers:
        return _node_in_use(state, pod, peers, hosts, reported)
    return _unschedulable(state, node_id, pod, hosts, reported)


def is_free_to_move(state: ClusterState, pod: SnapshotObject) -> bool:
    """Whether none of a pod's volumes is tied to a node; False if any of them is not known."""
    claims = _claims_of(state, pod)
    return all(state.volume(claim) is not None for claim in claims) and not _hosts(state, claims)


def _hosts(state: ClusterState, claims: Sequence[SnapshotObject]) -> list[str]:
    """Host names of the nodes that the volumes of these claims are tied to."""
    volumes = (state.volume(claim) for claim in claims)
    return sorted({host for v in volumes if v is not None and (host := objects.pinned_to(v))})


def _no_volumes(
    state: ClusterState, node_id: int, pod: SnapshotObject, unbound: list[SnapshotObject], reported: str
) -> Waiting:
    """With the unbound claims, and how many volumes are free."""
    free = sum(
        1 for volume in state.volumes.values() if (volume.get("status") or {}).get("phase") == "Available"
    )
    return Waiting(
        _ACTION,
        f"Pod/{objects.name(pod)}",
        "InsufficientVolumes",
        f"No node has the volumes that pod {objects.name(pod)} needs: {_what_they_ask(unbound)}. The whole Kubernetes cluster has "
        f"{counted(free, 'free volume')}. The scheduler reports: {reported}",
        f"Provide free volumes of that class and size on one node"
        f"{_in_zone(state, node_id)}, or correct the size or storageClass in the KafkaCluster.",
    )


def _node_in_use(
    state: ClusterState,
    pod: SnapshotObject,
    peers: Sequence[SnapshotObject],
    hosts: Sequence[str],
    reported: str,
) -> Waiting:
    """The node of a pod's volumes has another pod, and one of the two shares no node."""
    name, others = objects.name(pod), some([objects.name(each) for each in peers])
    apart = [objects.name(each) for each in peers if shares_no_node(each)]
    steps = []
    if not state.spec.scheduling.shared_nodes:
        steps.append("Set spec.scheduling.sharedNodes of the KafkaCluster to true.")
    if apart:
        steps.append(
            f"{'Then delete' if steps else 'Delete'} what was created with a node of its own, and lets no other pod on it until it is recreated: "
            f"`kubectl delete pod {' '.join(apart)}`. Partitions that need it refuse writes with acks=all meanwhile."
        )
    if not steps:
        steps.append(f"Nothing to do: Spindle recreates pod {name}, which may share its node now.")
    return Waiting(
        _ACTION,
        f"Pod/{name}",
        "NodeInUse",
        f"Pod {name} can run only on node {some(hosts)}, where its volumes are. That node has {others} already, and they do not share it. "
        f"The scheduler reports: {reported or 'nothing yet'}",
        f"{' '.join(steps)} Another node does not help.",
    )


def _unschedulable(
    state: ClusterState, node_id: int, pod: SnapshotObject, hosts: Sequence[str], reported: str
) -> Waiting:
    away = [host for host in hosts if host not in state.node_by_host]
    if not hosts:
        peer = "controller" if node_id >= names.FIRST_CONTROLLER_ID else "broker"
        apart = [
            objects.name(each)
            for each in _peers_on(state, node_id, _hosts_in_zone(state, node_id))
            if shares_no_node(each)
        ]
        share = (
            f" Or delete a pod that was created with a node of its own, and lets no other {peer} on it until it is recreated: {some(apart)}."
            if apart and state.spec.scheduling.shared_nodes
            else ""
        )
        way_out = (
            f"Provide a schedulable node{_in_zone(state, node_id)} with enough free memory and CPU and without another "
            f"{peer} of this cluster, or lower the resources that the KafkaCluster requests.{share}"
        )
    elif away:
        way_out = (
            f"Bring node {some(away)} back: the volumes of the pod are there, so another node does not help."
        )
    else:
        way_out = (
            f"Make node {some(hosts)} schedulable, with enough free memory and CPU, or lower the resources that the KafkaCluster requests. The volumes "
            "of the pod are there, so another node does not help."
        )
    return Waiting(
        _ACTION,
        f"Pod/{objects.name(pod)}",
        "Unschedulable",
        f"No node can run pod {objects.name(pod)}. The scheduler reports: {reported or 'nothing yet'}",
        way_out,
    )


def _peers_on(state: ClusterState, node_id: int, hosts: Sequence[str]) -> list[SnapshotObject]:
    """Other pods of the same role on these nodes."""
    there = {state.node_by_host.get(host) for host in hosts} - {None}
    controller = node_id >= names.FIRST_CONTROLLER_ID
    return [
        pod
        for other, pod in sorted(state.pods.items())
        if other != node_id
        and (other >= names.FIRST_CONTROLLER_ID) == controller
        and (pod.get("spec") or {}).get("nodeName") in there
        and not objects.deleting(pod)
    ]


def _hosts_in_zone(state: ClusterState, node_id: int) -> list[str]:
    """Host names of the nodes that a new pod may have by its zone."""
    zone = _zone(state, node_id)
    return [h for h, node in state.node_by_host.items() if zone in (None, state.zone_of_node(node))]


def _zone(state: ClusterState, node_id: int) -> str | None:
    broker = state.brokers.get(node_id)
    return (broker.get("spec") or {}).get("rack") if broker else None


def _in_zone(state: ClusterState, node_id: int) -> str:
    zone = _zone(state, node_id)
    return f" in zone {zone}" if zone else ""


def _claims_of(state: ClusterState, pod: SnapshotObject) -> list[SnapshotObject]:
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    claimed = [(v.get("persistentVolumeClaim") or {}).get("claimName") for v in volumes]
    return [state.claims[name] for name in claimed if name and name in state.claims]


def _what_they_ask(claims: list[SnapshotObject]) -> str:
    def ask(claim: SnapshotObject) -> str:
        spec: dict[str, Any] = claim.get("spec") or {}
        size = ((spec.get("resources") or {}).get("requests") or {}).get("storage", "?")
        return f"{size} of class {spec.get('storageClassName') or '(default)'}"

    asked = sorted({ask(claim) for claim in claims})
    return f"{len(claims)} x {some(asked)} ({some(sorted(objects.name(c) for c in claims))})"
