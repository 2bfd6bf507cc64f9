"""From a state to the inputs of the pod builders."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

from spindle.api import names
from spindle.api.cluster import BrokerPool
from spindle.api.pod_template import parts_of
from spindle.config import server_properties
from spindle.config.broker_placement import avoided_by_broker
from spindle.config.controller_placement import avoided_nodes
from spindle.config.dynamic_config import fixed
from spindle.config.release import version_to_run
from spindle.listeners.advertised_listeners import listeners_of
from spindle.listeners.broker_listener import BrokerListener, allowed_urls, token_urls
from spindle.listeners.own_certificates import certificate_marks
from spindle.manifests.pods import HOSTNAME_KEY
from spindle.model import objects
from spindle.model.allowed import providers_in_use
from spindle.model.broker_disks import disks_of, list_of
from spindle.model.claim_volumes import hosts_of_volumes
from spindle.model.cluster_identity import NodeIdentity
from spindle.model.dir_removal import looked_at, unconfirmed
from spindle.model.disk_facts import ABSENT, ACTIVE, PLACEHOLDER
from spindle.model.layout import METADATA_DISK
from spindle.model.node_inputs import ClusterInputs, DiskInputs, NodeInputs, Zone
from spindle.model.snapshot import SnapshotObject
from spindle.model.stale_records import is_readopted
from spindle.model.start_progress import grace_seconds
from spindle.model.state import ClusterState

_PROPERTIES: Final = 2048  # cached configurations of nodes: they change when a user changes them

Settings = tuple[tuple[str, str], ...]  # key and value


@dataclass(frozen=True)
class Properties:
    """The configuration of one node.

    Attributes:
        settings: its ``server.properties`` without ``log.dirs``.
        text: the same as text.
        fixed: those for which a running node has to restart, as text.
        providers: see `NodeInputs.providers`.
    """

    settings: Mapping[str, str]
    text: str
    fixed: str
    providers: str


def cluster_inputs(state: ClusterState, identity: NodeIdentity) -> ClusterInputs:
    """Inputs that all pods of the cluster share."""
    spec = state.spec
    return ClusterInputs(
        name=state.name,
        namespace=state.namespace,
        uid=objects.uid(state.cluster),
        cluster_id=identity.cluster_id,
        version=version_to_run(state),
        spindle_image=state.snap.spindle_image,
        image=spec.image,
        kafka_repository=state.snap.kafka_repository,
        tolerations=tuple(toleration.to_dict() for toleration in spec.scheduling.tolerations),
        priority_class=spec.scheduling.priority_class_name,
        pull_secrets=tuple(ref.name for ref in spec.scheduling.image_pull_secrets),
        node_selector=dict(spec.scheduling.node_selector),
        shared_nodes=spec.scheduling.shared_nodes,
        shared_filesystem=spec.disks.shared_filesystem,
        metrics=spec.metrics.enabled,
        restart=spec.rolling.restart,
    )


def broker_inputs(state: ClusterState, broker: SnapshotObject) -> NodeInputs | None:
    """Inputs of one broker's pod; None if its pool is no longer in the spec."""
    return state.once(broker, state.inputs, _broker_inputs)


def next_inputs(state: ClusterState, broker: SnapshotObject) -> NodeInputs | None:
    """Inputs of a broker's pod now, including disks that are to be excluded and are not yet confirmed to be empty."""
    leaving, pod = unconfirmed(broker), state.pods.get(int(broker["spec"]["id"]))
    if leaving and (pod is None or looked_at(pod)):
        return _broker_inputs(state, broker, leaving)
    return broker_inputs(state, broker)


def _broker_inputs(
    state: ClusterState, broker: SnapshotObject, only_if_used: frozenset[str] = frozenset()
) -> NodeInputs | None:
    pool = state.pool_of(broker)
    if pool is None:
        return None
    spec = broker["spec"]
    node_id, rack = int(spec["id"]), spec.get("rack")
    disks = tuple(
        DiskInputs(
            name=disk["name"],
            claim=disk["claim"],
            directory_id=disk["directoryId"],
            fs_uuid=disk.get("fsUuid"),
            mode=ACTIVE if disk["name"] in only_if_used else disk.get("mode", ACTIVE),
        )
        for disk in disks_of(broker)
        if disk.get("mode") != ABSENT or disk["name"] in only_if_used
    )
    if is_readopted(state, broker):
        beside = DiskInputs(name=names.PLACEHOLDER_DIR, claim="", directory_id="", mode=PLACEHOLDER)
        disks = (*disks, beside)
    listeners = listeners_of(state, broker)
    properties = _broker_properties(state, node_id, pool, listeners, rack)
    return NodeInputs(
        node_id=node_id,
        server_properties=properties.text,
        fixed_properties=properties.fixed,
        disks=disks,
        resources=pool.resources.to_dict(),
        heap=pool.jvm.heap,
        jvm_options=tuple(pool.jvm.options),
        zone=_where(state, broker, disks),
        avoid=avoided_by_broker(state, node_id),
        pool=pool.name,
        grace_seconds=_grace(state, broker),
        ports={listener.name: listener.port for listener in listeners},
        listener_types={
            each.name: each.type for each in state.spec.listeners if each.name in {d.name for d in listeners}
        },
        certificate=_certificate(state, node_id),
        own_certificates=certificate_marks(state, (each.name for each in listeners if each.own_certificate)),
        jvm_properties=tuple(filter(None, [allowed_urls(token_urls(listeners))])),
        providers=properties.providers,
        log_dirs=found.text() if (found := list_of(state, broker)) else "",
        only_if_used=tuple(sorted(only_if_used)),
        template=parts_of(pool.pod_template),
    )


def _where(state: ClusterState, broker: SnapshotObject, disks: tuple[DiskInputs, ...]) -> Zone | None:
    """Where a broker's pod may run; None if the volumes that it mounts determine that.

    A pod that mounts only claims without a volume gets them on the node of the broker's other volumes, which it will mount later.
    """
    mounted = [state.claims.get(disk.claim) for disk in disks if disk.mode == ACTIVE]
    if any(objects.bound_volume(claim) for claim in mounted if claim is not None):
        return None
    if host := next(hosts_of_volumes(state, broker), None):
        return Zone(topology_key=HOSTNAME_KEY, value=host)
    rack = broker["spec"].get("rack")
    return Zone(topology_key=state.spec.racks.topology_key, value=rack) if rack else None


def broker_settings(state: ClusterState, broker: SnapshotObject) -> Mapping[str, str] | None:
    """A broker's ``server.properties`` without ``log.dirs``; None if its pool is no longer in the spec."""
    pool, spec = state.pool_of(broker), broker["spec"]
    if pool is None:
        return None
    listeners = listeners_of(state, broker)
    return _broker_properties(state, int(spec["id"]), pool, listeners, spec.get("rack")).settings


def controller_inputs(state: ClusterState, node_id: int) -> NodeInputs | None:
    """Inputs of one controller's pod; None while its claim, which determines its disk, does not exist."""
    if node_id not in state.inputs:
        state.inputs[node_id] = _controller_inputs(state, node_id)
    return state.inputs[node_id]


def _controller_inputs(state: ClusterState, node_id: int) -> NodeInputs | None:
    claim = state.claim(node_id, METADATA_DISK)
    directory_id = objects.annotation(claim, names.ANN_DIRECTORY_ID) if claim else None
    if claim is None or directory_id is None:
        return None
    controllers = state.spec.controllers
    zone = objects.annotation(claim, names.ANN_RACK)
    unbound = zone and not objects.bound_volume(claim)
    properties = _properties(_of_cluster(state), _OfNode(node_id, controllers.jvm.heap, None))
    return NodeInputs(
        node_id=node_id,
        server_properties=properties.text,
        fixed_properties=properties.fixed,
        disks=(
            DiskInputs(
                name=METADATA_DISK,
                claim=objects.name(claim),
                directory_id=directory_id,
                fs_uuid=objects.annotation(claim, names.ANN_FS_UUID),
            ),
        ),
        resources=controllers.resources.to_dict(),
        heap=controllers.jvm.heap,
        jvm_options=tuple(controllers.jvm.options),
        zone=Zone(topology_key=state.spec.racks.topology_key, value=zone) if zone and unbound else None,
        avoid=avoided_nodes(state, node_id),
        certificate=_certificate(state, node_id),
        providers=properties.providers,
        template=parts_of(controllers.pod_template),
    )


def _grace(state: ClusterState, broker: SnapshotObject) -> int:
    """Termination grace period of a broker, from the replicas that it is known to hold; only a new pod gets it."""
    node_id = int(broker["spec"]["id"])
    disks = (broker.get("status") or {}).get("disks") or ()
    replicas = sum(int(disk.get("replicas") or 0) for disk in disks)
    if state.replica_counts is not None:
        replicas = max(replicas, state.replica_counts.get(node_id, 0))
    return grace_seconds(replicas, max((int(disk.get("usedBytes") or 0) for disk in disks), default=0))


def _certificate(state: ClusterState, node_id: int) -> str | None:
    """Fingerprint of a node's certificate; None while there is none that can be parsed."""
    secret = state.secrets.get(names.tls_secret(state.name, node_id))
    return secret.certificate.fingerprint if secret is not None and secret.certificate is not None else None


class _OfCluster(NamedTuple):
    """What the configurations of all nodes of a cluster have in common."""

    cluster: str
    namespace: str
    controllers: tuple[int, ...]
    brokers: int
    asked: Settings
    follower_fetching: bool
    static_quorum: bool


class _OfNode(NamedTuple):
    """What is one node's own; ``own``, the settings of a broker's pool, is None for a controller."""

    node_id: int
    heap: str | None
    own: Settings | None
    listeners: tuple[BrokerListener, ...] = ()
    rack: str | None = None


def _broker_properties(
    state: ClusterState,
    node_id: int,
    pool: BrokerPool,
    listeners: tuple[BrokerListener, ...],
    rack: str | None,
) -> Properties:
    own = tuple(pool.config.items())
    return _properties(_of_cluster(state), _OfNode(node_id, pool.jvm.heap, own, listeners, rack))


def _of_cluster(state: ClusterState) -> _OfCluster:
    return _OfCluster(
        state.name,
        state.namespace,
        state.named_controllers,
        state.broker_count,
        tuple(state.spec.config.items()),
        state.spec.racks.follower_fetching,
        state.known_identity is not None and state.known_identity.static,
    )


@lru_cache(maxsize=_PROPERTIES)
def _properties(shared: _OfCluster, mine: _OfNode) -> Properties:
    """The configuration of a broker or a controller."""
    own = mine.own
    inputs = server_properties.node_config(
        shared.cluster,
        shared.namespace,
        mine.node_id,
        controllers=shared.controllers,
        brokers=shared.brokers,
        config=dict(shared.asked),
        pool_config=dict(own or ()),
        heap=mine.heap,
        follower_fetching=shared.follower_fetching,
    )
    node = replace(inputs, listeners=mine.listeners, static_quorum=shared.static_quorum)
    made = (
        server_properties.controller_settings(node)
        if own is None
        else server_properties.broker_settings(node, rack=mine.rack)
    )
    return Properties(
        settings=MappingProxyType(made),
        text=server_properties.render(made),
        fixed=server_properties.render(fixed(made, own=node.pool_config)),
        providers=providers_in_use(made),
    )
