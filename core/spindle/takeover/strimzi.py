"""Reads a Strimzi cluster from Kubernetes objects and plans its take-over.

Names and folders follow Strimzi's ``VolumeUtils``, ``KafkaBrokerConfigurationBuilder`` and ``kafka_run.sh``: a volume of JBOD
storage has the claim ``data-<id>-<cluster>-<pool>-<node>``, a single volume ``data-<cluster>-<pool>-<node>``, and the log dir is the folder
``kafka-log<node>`` on it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spindle.api import names, quantity
from spindle.model import objects
from spindle.model.layout import METADATA_DISK
from spindle.model.versions import unsupported
from spindle.model.waiting import counted, some
from spindle.takeover import spec
from spindle.takeover.plan import DiskPlan, NodePlan, TakeoverPlan

GROUP: Final = "kafka.strimzi.io"
CORE_GROUP: Final = "core.strimzi.io"
LABEL_CLUSTER: Final = "strimzi.io/cluster"
LABEL_POOL: Final = "strimzi.io/pool-name"
PAUSE: Final = "strimzi.io/pause-reconciliation"
_STALE: Final = "Strimzi still reports a pause that has ended"
_QUORUMS: Final = (1, 3, 5)
_POOL_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")

StrimziObject = Mapping[str, Any]


@dataclass(frozen=True)
class StrimziCluster:
    """The objects of a Strimzi cluster.

    Attributes:
        kafka: the Kafka resource.
        pools: its KafkaNodePools.
        claims: claims of its namespace by name.
        volumes: PersistentVolumes by name.
        nodes: Kubernetes nodes by name.
        pods: pods of its namespace by name.
        users: number of its Strimzi KafkaUsers.
        taken: names of the Spindle KafkaClusters in the namespace.
    """

    kafka: StrimziObject
    pools: Sequence[StrimziObject]
    claims: Mapping[str, StrimziObject] = field(default_factory=dict)
    volumes: Mapping[str, StrimziObject] = field(default_factory=dict)
    nodes: Mapping[str, StrimziObject] = field(default_factory=dict)
    pods: Mapping[str, StrimziObject] = field(default_factory=dict)
    users: int = 0
    taken: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Name of the cluster."""
        return str(self.kafka["metadata"]["name"])

    @property
    def body(self) -> StrimziObject:
        """``spec.kafka``."""
        return (self.kafka.get("spec") or {}).get("kafka") or {}

    @property
    def status(self) -> StrimziObject:
        """The Kafka resource's status."""
        return self.kafka.get("status") or {}

    @property
    def topology_key(self) -> str:
        """The node label whose value is the rack."""
        return str((self.body.get("rack") or {}).get("topologyKey") or spec.ZONE)


def plan(strimzi: StrimziCluster) -> TakeoverPlan:
    """The plan, with all problems."""
    problems = _problems(strimzi)
    controllers, brokers = _roles(strimzi)
    ids = sorted(node for pool in controllers for node in _node_ids(pool))
    made = [
        _node(strimzi, pool, node, names.controller_id(index), problems)
        for index, node in enumerate(ids)
        for pool in controllers
        if node in _node_ids(pool)
    ]
    made += [_node(strimzi, pool, node, node, problems) for pool in brokers for node in _node_ids(pool)]
    nodes = [node for node in made if node is not None]
    manifest, differences = spec.manifest(strimzi.kafka, controllers, brokers, nodes)
    if strimzi.users:
        differences.append(
            f"{counted(strimzi.users, 'KafkaUser')} of Strimzi: passwords (SCRAM) and ACLs stay in Kafka. A user with a certificate needs a KafkaUser of "
            "Spindle, because Spindle has its own CA, and its principal changes from User:CN=<name> to User:<name>: spindle takeover convert writes it"
        )
    return TakeoverPlan(
        name=strimzi.name,
        namespace=str(strimzi.kafka["metadata"]["namespace"]),
        cluster_id=str(strimzi.status.get("clusterId") or ""),
        nodes=tuple(nodes),
        manifest=manifest,
        problems=tuple(problems),
        differences=tuple(differences),
    )


def node_ids(pools: Sequence[StrimziObject]) -> set[int]:
    """The ids of all nodes of pools."""
    return {node for pool in pools for node in _node_ids(pool)}


def pod_set(pod: str) -> str:
    """The StrimziPodSet of a pod, which is named after the cluster and the pool."""
    return pod.rpartition("-")[0]


def paused(kafka: StrimziObject) -> bool:
    """Whether Strimzi reports that it has paused its reconciliation of the Kafka resource."""
    return _is_true(kafka, "ReconciliationPaused")


def pause_that_ended(kafka: StrimziObject) -> str | None:
    """What must happen first if Strimzi's last report is of a pause that somebody has ended since; None if it is not.

    The next pause could not be told from it: Strimzi writes the condition again, with a new time, only when it has written another one in
    between (``AbstractOperator.reconcileResource``, ``StatusDiff``), which it does at the end of a whole reconciliation.
    """
    meta = kafka["metadata"]
    if not paused(kafka) or str((meta.get("annotations") or {}).get(PAUSE)).lower() == "true":
        return None
    return (
        f"{_STALE} (Kafka {meta['name']} has the condition ReconciliationPaused without the annotation {PAUSE}), so it may be starting Kafka at this "
        "moment: wait until it has reconciled once, which takes some minutes: kubectl wait "
        f"kafka/{meta['name']} -n {meta.get('namespace')} --for=condition=Ready --timeout=15m"
    )


def _is_true(kafka: StrimziObject, kind: str) -> bool:
    conditions = (kafka.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _problems(strimzi: StrimziCluster) -> list[str]:
    """Problems of the cluster as a whole."""
    found = []
    if strimzi.name in strimzi.taken:
        found.append(f"a KafkaCluster {strimzi.name} exists in this namespace already: delete it first")
    if _NAME.fullmatch(strimzi.name) is None:
        found.append(
            f"{strimzi.name} is not a valid name of a KafkaCluster, which begins with a letter and has at most 40 characters"
        )
    if not strimzi.status.get("clusterId"):
        found.append("status.clusterId of the Kafka resource is empty: wait until Strimzi sets it")
    version = str(strimzi.body.get("version") or strimzi.status.get("kafkaVersion") or "")
    refusal = unsupported(version)
    if refusal is not None:
        found.append(
            f"Kafka {version or '(unknown version)'} is not supported by Spindle: upgrade it with Strimzi first. {refusal.unblocked_by}"
        )
    if not (_is_true(strimzi.kafka, "Ready") or paused(strimzi.kafka)):
        found.append("the Kafka resource is not Ready: Spindle takes over only a healthy cluster")
    found += filter(None, [pause_that_ended(strimzi.kafka)])
    if strimzi.body.get("tieredStorage"):
        found.append(
            "spec.kafka.tieredStorage is set: Spindle's images have no plugin for it, so remote segments could not be read"
        )
    controllers, brokers = _roles(strimzi)
    both = [objects.name(pool) for pool in strimzi.pools if pool not in controllers and pool not in brokers]
    if both:
        found.append(
            f"pool {some(both)} has nodes that are controller and broker at once: Spindle runs these in separate pods, so move the controllers to "
            "a pool of their own first"
        )
    count = sum(len(_node_ids(pool)) for pool in controllers)
    if count not in _QUORUMS:
        found.append(
            f"the cluster has {counted(count, 'controller')} in controller-only pools, but Spindle runs 1, 3 or 5"
        )
    if not brokers:
        found.append("the cluster has no pool with only brokers")
    return found


def _roles(strimzi: StrimziCluster) -> tuple[list[StrimziObject], list[StrimziObject]]:
    """Controller-only and broker-only pools."""
    roles = {objects.name(pool): set((pool.get("spec") or {}).get("roles") or ()) for pool in strimzi.pools}
    return (
        [pool for pool in strimzi.pools if roles[objects.name(pool)] == {"controller"}],
        [pool for pool in strimzi.pools if roles[objects.name(pool)] == {"broker"}],
    )


def _node(
    strimzi: StrimziCluster, pool: StrimziObject, node: int, as_node: int, problems: list[str]
) -> NodePlan | None:
    """One node; None if it cannot be taken over, with the reason added to ``problems``."""
    where = f"pool {objects.name(pool)}, node {node}"
    controller = as_node >= names.FIRST_CONTROLLER_ID and "controller" in pool["spec"]["roles"]
    if not controller and node >= names.FIRST_CONTROLLER_ID:
        problems.append(
            f"{where}: brokers must have ids below {names.FIRST_CONTROLLER_ID}; Spindle uses higher ids for controllers"
        )
        return None
    if not controller and _POOL_NAME.fullmatch(objects.name(pool)) is None:
        problems.append(
            f"{where}: the name of a broker pool must begin with a letter and have at most 30 characters"
        )
        return None
    volumes = spec.volumes(pool)
    if isinstance(volumes, str):
        problems.append(f"{where}: {volumes}")
        return None
    if controller and len(volumes) != 1:
        problems.append(f"{where}: a controller must have one volume, but this one has {len(volumes)}")
        return None
    pod = f"{strimzi.name}-{objects.name(pool)}-{node}"
    disks = []
    for index, volume in enumerate(volumes):
        disk = METADATA_DISK if controller else names.disk_name(index)
        found = _disk(strimzi, f"{volume.prefix}-{pod}", node, as_node, disk, spec.smallest(volumes))
        if isinstance(found, str):
            problems.append(f"{where}: {found}")
        else:
            disks.append(found)
    if len(disks) < len(volumes):
        return None
    host = ((strimzi.pods.get(pod) or {}).get("spec") or {}).get("nodeName")
    rack = (
        ((strimzi.nodes.get(host or "") or {}).get("metadata") or {})
        .get("labels", {})
        .get(strimzi.topology_key)
    )
    return NodePlan(node, as_node, pod, None if controller else objects.name(pool), rack, tuple(disks))


def _disk(
    strimzi: StrimziCluster, claim: str, node: int, as_node: int, disk: str, size: str
) -> DiskPlan | str:
    """One disk, or the reason why it cannot be taken over."""
    found = strimzi.claims.get(claim)
    if found is None:
        return f"claim {claim} does not exist"
    volume = str((found.get("spec") or {}).get("volumeName") or "")
    if (found.get("status") or {}).get("phase") != "Bound" or volume not in strimzi.volumes:
        return f"claim {claim} is not bound to an existing volume"
    capacity = (strimzi.volumes[volume].get("spec") or {}).get("capacity", {}).get("storage", size)
    asked = min((size, str(capacity)), key=quantity.parse)
    becomes = names.claim_name(strimzi.name, as_node, disk)
    if becomes in strimzi.claims:
        return f"claim {becomes} exists already, but {claim} would get this name: delete it first if it is not needed"
    # A claim that is older than the default class has none, like its volume. One that is created now without a class gets the default.
    storage_class = (found.get("spec") or {}).get("storageClassName")
    if storage_class is None:
        storage_class = str((strimzi.volumes[volume].get("spec") or {}).get("storageClassName") or "")
    return DiskPlan(claim, becomes, volume, f"kafka-log{node}", disk, asked, storage_class)


def _node_ids(pool: StrimziObject) -> list[int]:
    return sorted(int(node) for node in (pool.get("status") or {}).get("nodeIds") or ())
