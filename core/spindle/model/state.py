"""A snapshot, indexed: what belongs to which broker, controller and disk."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from spindle.api import names
from spindle.api.cluster import BrokerPool, KafkaClusterSpec
from spindle.api.pod_template import PodTemplate
from spindle.api.reported_text import clipped_report
from spindle.api.thresholds import Thresholds
from spindle.model import objects
from spindle.model.cluster_identity import IdentityError, NodeIdentity, parse_identity
from spindle.model.dir_list import DirList
from spindle.model.node_inputs import NodeInputs
from spindle.model.ownership import NameConflict, OwnerKey, ours_only
from spindle.model.pools import parse_spec, recorded_pools
from spindle.model.quorum_sizes import SIZES
from spindle.model.restart_safety import RestartSafety
from spindle.model.snapshot import ClusterSnapshot, SecretView, SnapshotObject
from spindle.model.spec_findings import RejectedSettings
from spindle.model.times import seconds
from spindle.model.tolerations import STANDING_TOLERATIONS
from spindle.model.view import KafkaView
from spindle.model.waiting import Waiting

_Made = TypeVar("_Made")


@dataclass(frozen=True)
class ClusterState:
    """One pass's view of one KafkaCluster.

    Attributes:
        identity: the identity record; None if there is none yet; an error if it exists and cannot be parsed.
        pods: by node id, brokers and controllers.
        claims: by name.
        brokers: KafkaBroker objects by broker id.
        spec: the spec in effect.
        former: pools that the spec no longer has, as it had them last.
        spec_accepted: the requested spec, if it differs because settings of it are refused.
        version_refused: why the requested release is not supported, while the cluster stays with its own.
        refused: those settings.
        tolerated: settings of the spec in effect that are not allowed and stay because they were in use before.
        taken: objects of other owners under names that this cluster needs; of the snapshot's lists only claims still contain them.
        inputs: inputs of pods by node id, as far as this pass has computed them.
        given_out: newest lists of log dirs outside of the brokers' records, likewise.
    """

    snap: ClusterSnapshot
    now: float
    name: str
    namespace: str
    spec: KafkaClusterSpec
    identity: NodeIdentity | IdentityError | None
    pods: Mapping[int, SnapshotObject]
    claims: Mapping[str, SnapshotObject]
    volumes: Mapping[str, SnapshotObject]
    nodes: Mapping[str, SnapshotObject]
    secrets: Mapping[str, SecretView]
    config_maps: Mapping[str, SnapshotObject]
    brokers: Mapping[int, SnapshotObject]
    former: Mapping[str, BrokerPool] = field(default_factory=dict)
    spec_accepted: KafkaClusterSpec | None = None
    refused: tuple[RejectedSettings, ...] = ()
    tolerated: tuple[RejectedSettings, ...] = ()
    version_refused: Waiting | None = None
    taken: Mapping[OwnerKey, NameConflict] = field(default_factory=dict)
    inputs: dict[int, NodeInputs | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    stale: dict[int, bool] = field(default_factory=dict, init=False, repr=False, compare=False)
    given_out: dict[int, DirList] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def cluster(self) -> SnapshotObject:
        """The KafkaCluster object."""
        return self.snap.cluster

    @property
    def kafka(self) -> KafkaView:
        """Kafka's view of the cluster."""
        return self.snap.kafka

    @property
    def status(self) -> Mapping[str, Any]:
        """The KafkaCluster's present status."""
        return self.snap.cluster.get("status") or {}

    @property
    def known_identity(self) -> NodeIdentity | None:
        """The identity record, None if absent or unreadable."""
        return self.identity if isinstance(self.identity, NodeIdentity) else None

    @cached_property
    def controller_ids(self) -> tuple[int, ...]:
        """Node ids of the controllers on record; before the first start those that the spec requests."""
        if self.known_identity:
            return tuple(voter.id for voter in self.known_identity.members)
        return tuple(names.controller_id(i) for i in range(self.spec.controllers.replicas))

    @cached_property
    def possible_controllers(self) -> tuple[int, ...]:
        """Node ids of all controllers that exist or may be created."""
        possible = {names.controller_id(index) for index in range(max(SIZES))}
        return tuple(sorted({*self.controller_ids, *possible}))

    @cached_property
    def named_controllers(self) -> tuple[int, ...]:
        """The controllers in every node's configuration, whether or not they exist.

        A broker that has lost the leader looks for the next one only at these addresses, even if it knows other voters (Kafka's
        KafkaRaftClient). If only existing controllers were listed, every broker would have to restart before they could be replaced. In a
        static quorum these are the voters.
        """
        if self.known_identity is not None and self.known_identity.static:
            return self.controller_ids
        return self.possible_controllers

    @cached_property
    def unavailable_records(self) -> tuple[Mapping[str, Any], ...]:
        """``status.takingDown``."""
        return tuple(self.status.get("takingDown") or ())

    def once(
        self,
        broker: SnapshotObject,
        made: dict[int, _Made],
        make: Callable[["ClusterState", SnapshotObject], _Made],
    ) -> _Made:
        """Results per broker record, computed once in a pass; for a record that is not the pass's own, each time."""
        node_id = int(broker["spec"]["id"])
        if self.brokers.get(node_id) is not broker:
            return make(self, broker)
        if node_id not in made:
            made[node_id] = make(self, broker)
        return made[node_id]

    def waited(self, key: tuple[str, str, str]) -> float:
        """Seconds for which an action has been held back on an object for a reason, by the status."""
        since = self._waiting_since.get(key)
        return 0.0 if since is None else self.now - since

    @cached_property
    def _waiting_since(self) -> Mapping[tuple[Any, Any, Any], float | None]:
        """(action, object, reason) → since when, by the status."""
        entries = self.status.get("waiting") or ()
        return {
            (entry.get("action"), entry.get("object"), entry.get("reason")): seconds(entry.get("since"))
            for entry in reversed(entries)
        }

    def pool_of(self, broker: SnapshotObject) -> BrokerPool | None:
        """The pool of a KafkaBroker, from the present or the last spec; None if unknown."""
        name = (broker.get("spec") or {}).get("pool", "")
        return self.pools.get(name) or self.former.get(name)

    def thresholds_of(self, broker_id: int) -> Thresholds:
        """Thresholds of a broker's disks: its pool's own, else the cluster's."""
        pool = self.pool_of(self.brokers[broker_id])
        return (pool.disks.thresholds if pool is not None else None) or self.spec.disks.thresholds

    @cached_property
    def pools(self) -> Mapping[str, BrokerPool]:
        """The spec's pools by name."""
        return {pool.name: pool for pool in self.spec.broker_pools}

    @cached_property
    def staying(self) -> Mapping[int, SnapshotObject]:
        """KafkaBrokers without those that were scaled in."""
        return {i: broker for i, broker in self.brokers.items() if not broker["spec"].get("leaving")}

    @cached_property
    def broker_count(self) -> int:
        """Number of brokers that the cluster has or will have; leaving ones count until they are empty."""
        return max(len(self.staying), sum(pool.replicas for pool in self.spec.broker_pools))

    @cached_property
    def replica_counts(self) -> Mapping[int, int] | None:
        """Broker id → how many partitions have a replica there by Kafka's metadata; None if unknown."""
        if self.kafka.partitions is None:
            return None
        return {broker: len(held) for broker, held in self.kafka.partition_index.assigned.items()}

    @cached_property
    def restart_safety(self) -> RestartSafety:
        """Kafka's view, indexed for the question which brokers may be taken down."""
        return RestartSafety(self.kafka)

    @cached_property
    def hosts_of_brokers(self) -> Mapping[int, frozenset[str]]:
        """Broker id → host names of the nodes that its bound volumes are pinned to; without brokers that have no such volume."""
        found: dict[int, set[str]] = {}
        for broker_id, broker in self.brokers.items():
            for disk in broker["spec"].get("disks") or ():
                volume = self.volume(self.claims.get(disk["claim"]))
                if volume is not None and (host := objects.pinned_to(volume)):
                    found.setdefault(broker_id, set()).add(host)
        return {broker_id: frozenset(hosts) for broker_id, hosts in found.items()}

    @cached_property
    def node_by_host(self) -> Mapping[str, str]:
        """Host name of a node, as volumes refer to it → name of the node."""
        return {
            objects.labels(node).get("kubernetes.io/hostname", name): name
            for name, node in self.nodes.items()
        }

    @cached_property
    def pod_by_name(self) -> Mapping[str, SnapshotObject]:
        """All pods of the snapshot, also those that are no broker's or controller's."""
        return objects.by_name(self.snap.pods)

    @cached_property
    def services(self) -> Mapping[str, SnapshotObject]:
        """The Services by name."""
        return objects.by_name(self.snap.services)

    @cached_property
    def tolerations(self) -> list[Mapping[str, Any]]:
        """Tolerations of the pods."""
        return [*STANDING_TOLERATIONS, *(t.to_dict() for t in self.spec.scheduling.tolerations)]

    def tolerations_with(self, template: PodTemplate | None) -> list[Mapping[str, Any]]:
        """Tolerations of the pods with a pod template."""
        more = template.spec.tolerations if template is not None else ()
        return [*self.tolerations, *(each.to_dict() for each in more)]

    @cached_property
    def hosts_with_volumes(self) -> tuple[str, ...]:
        """Host names of all nodes that volumes of brokers are pinned to, sorted."""
        return tuple(sorted({host for hosts in self.hosts_of_brokers.values() for host in hosts}))

    @cached_property
    def born(self) -> bool:
        """Whether the cluster was ever ready."""
        record = self.config_maps.get(names.identity_map(self.name))
        return record is not None and objects.annotation(record, names.ANN_BORN) == "true"

    def claim(self, node_id: int, disk: str) -> SnapshotObject | None:
        """The claim behind a disk."""
        return self.claims.get(names.claim_name(self.name, node_id, disk))

    def volume(self, claim: SnapshotObject | None) -> SnapshotObject | None:
        """The volume that a claim is bound to, None if unbound or not readable."""
        bound = objects.bound_volume(claim) if claim else None
        return self.volumes.get(bound) if bound else None

    def zone_of_node(self, node: str | None) -> str | None:
        """A node's zone by its label now."""
        found = self.nodes.get(node or "")
        return objects.labels(found).get(self.spec.racks.topology_key) if found else None

    def node_of(self, node_id: int) -> str | None:
        """The Kubernetes node that a broker's or controller's pod runs on."""
        pod = self.pods.get(node_id)
        return (pod.get("spec") or {}).get("nodeName") if pod else None


def read_state(snap: ClusterSnapshot, now: float) -> ClusterState:
    """Index a snapshot.

    Raises:
        pydantic.ValidationError: this version cannot parse the KafkaCluster's spec.
    """
    snap, taken = ours_only(replace(snap, brokers=tuple(clipped_report(each) for each in snap.brokers)))
    meta = snap.cluster["metadata"]
    cluster = str(meta["name"])
    maps = objects.by_name(snap.config_maps)
    record = maps.get(names.identity_map(cluster))
    pods = {objects.node_id_of(cluster, objects.name(pod)): pod for pod in snap.pods}
    brokers = {(b.get("spec") or {}).get("id"): b for b in snap.brokers}
    spec = parse_spec(snap.cluster.get("spec") or {})
    there = {pool.name for pool in spec.broker_pools}
    former = recorded_pools(maps.get(names.pools_map(cluster)))
    return ClusterState(
        snap=snap,
        now=now,
        name=cluster,
        namespace=str(meta["namespace"]),
        spec=spec,
        identity=parse_identity(record) if record else None,
        pods={
            node_id: pod
            for node_id, pod in sorted(pods.items(), key=lambda e: e[0] or 0)
            if node_id is not None
        },
        claims=objects.by_name(snap.claims),
        volumes=objects.by_name(snap.volumes),
        nodes=objects.by_name(snap.nodes),
        secrets={str(secret.metadata["name"]): secret for secret in snap.secrets},
        config_maps=maps,
        brokers={i: b for i, b in sorted(brokers.items(), key=lambda e: e[0] or 0) if isinstance(i, int)},
        former={name: pool for name, pool in former.items() if name not in there},
        taken=taken,
    )
