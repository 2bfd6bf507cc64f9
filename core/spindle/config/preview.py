"""The effects of a changed KafkaCluster before it is applied: which changes need a restart, and which brokers are added or removed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api.cluster import BrokerPool, KafkaClusterSpec
from spindle.api.listeners import Listener
from spindle.api.metrics import Metrics
from spindle.api.pod_template import TemplateMetadata, parts_of
from spindle.api.pools import PoolDisks
from spindle.config import server_properties
from spindle.config.dynamic_config import AT_START, ON_BROKERS, ON_CLUSTER, fixed

RUNNING: Final = "without a restart"
LIVE: Final = "without a restart; pods that an earlier version of Spindle created: by a rolling restart"
NEXT_START: Final = "at the next start of a broker"
ROLL: Final = "by a rolling restart"
NEXT_RUN: Final = "at its next run"
STAYS: Final = "not reverted: Kafka keeps the value"
FILLED: Final = "Spindle moves replicas to the new brokers"
ADDED: Final = "without a restart until the new disks are inspected, then by one restart of each broker that gets some; Spindle moves replicas to them"
REMOVED: Final = "Spindle first moves all replicas off the disks to be removed, if the others have space; then each such broker restarts once"
EXPANDED: Final = "without a restart, if the StorageClass can expand volumes"
EMPTIED: Final = "Spindle first moves all replicas off the brokers to be removed, if the others have space"

_NONE: Final = TemplateMetadata()
# Fields of a listener that only its Services have.
_OF_SERVICES: Final = frozenset(
    {"annotations", "load_balancer_class", "load_balancer_source_ranges", "external_traffic_policy"}
)
_OF_ROUTES: Final = frozenset({"parent_refs"})  # fields of a listener that only its TLSRoutes have
# Fields of the spec that affect all pods.
_SHARED: Final = ("version", "image", "scheduling")


@dataclass(frozen=True)
class PreviewChange:
    """One change.

    Attributes:
        what: a key of Kafka's configuration, or a field of the spec.
        where: ``controllers``, ``brokers of pool main``, ``all nodes``, ``cluster``.
        how: one of this module's constants.
    """

    what: str
    where: str
    how: str


def preview(old: KafkaClusterSpec, new: KafkaClusterSpec) -> list[PreviewChange]:
    """The changes between two specs of a cluster: for its existing nodes, and the numbers of brokers."""
    changes = [
        PreviewChange(name, "all nodes", ROLL) for name in _SHARED if getattr(old, name) != getattr(new, name)
    ]
    changes += _of_metrics(old.metrics, new.metrics)
    if old.logging != new.logging:
        changes.append(
            PreviewChange("logging.loggers", "all nodes", LIVE if new.logging.loggers else RUNNING)
        )
    if old.rolling.restart != new.rolling.restart:
        changes.append(PreviewChange("rolling.restart", "all nodes", ROLL))
    if old.disks.shared_filesystem != new.disks.shared_filesystem:
        changes.append(PreviewChange("disks.sharedFilesystem", "all nodes", ROLL))
    if old.controllers.replicas != new.controllers.replicas:
        changes.append(PreviewChange("controllers.replicas", "controllers", RUNNING))
    changes += _of_controllers(old, new)
    before = {pool.name: pool for pool in old.broker_pools}
    for pool in new.broker_pools:
        if pool.name in before:
            changes += _of_pool(old, new, before[pool.name], pool)
    changes += _coming_and_going(old, new)
    changes += _of_listeners(old, new)
    if (old.service_metadata or _NONE) != (new.service_metadata or _NONE):
        changes.append(PreviewChange("serviceMetadata", "Services", RUNNING))
    job = [parts_of(spec.rebalance.engine.pod_template) for spec in (old, new)]
    if job[0] != job[1]:
        changes.append(PreviewChange("rebalance.engine.podTemplate", "the rebalance job", NEXT_RUN))
    return list(dict.fromkeys(changes))


def _of_metrics(old: Metrics, new: Metrics) -> list[PreviewChange]:
    changes = []
    if old.enabled != new.enabled:
        changes.append(PreviewChange("metrics.enabled", "all nodes", ROLL))
    if set(old.topics) != set(new.topics):
        changes.append(PreviewChange("metrics.topics", "all brokers", LIVE if new.topics else RUNNING))
    if old.consumer_lag != new.consumer_lag:
        changes.append(PreviewChange("metrics.consumerLag", "the operator", RUNNING))
    return changes


def _of_listeners(old: KafkaClusterSpec, new: KafkaClusterSpec) -> list[PreviewChange]:
    before, after = ({each.name: each for each in spec.listeners} for spec in (old, new))
    changes = []
    for name in sorted(before.keys() | after.keys()):
        place = f"listeners[{name}]"
        if name in before and name in after:
            changes += [
                _of_listener(f"{place}.", field) for field in _differing_fields(before[name], after[name])
            ]
        else:
            changes.append(PreviewChange(place, "all brokers", ROLL))
    return changes


def _differing_fields(before: Listener, after: Listener) -> list[str]:
    return [field for field in Listener.model_fields if getattr(before, field) != getattr(after, field)]


def _of_listener(place: str, field: str) -> PreviewChange:
    what = f"{place}{Listener.model_fields[field].alias or field}"
    if field in _OF_ROUTES:
        return PreviewChange(what, "TLSRoutes", RUNNING)
    return PreviewChange(what, *(("Services", RUNNING) if field in _OF_SERVICES else ("all brokers", ROLL)))


def _coming_and_going(old: KafkaClusterSpec, new: KafkaClusterSpec) -> list[PreviewChange]:
    before, after = ({pool.name: pool.replicas for pool in spec.broker_pools} for spec in (old, new))
    return [
        PreviewChange(
            f"replicas: {before.get(name, 0)} to {after.get(name, 0)}",
            f"pool {name}",
            FILLED if after.get(name, 0) > before.get(name, 0) else EMPTIED,
        )
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    ]


def _of_controllers(old: KafkaClusterSpec, new: KafkaClusterSpec) -> list[PreviewChange]:
    sides = [
        fixed(server_properties.controller_settings(_node(spec, spec.controllers.jvm.heap, {})))
        for spec in (old, new)
    ]
    changes = [PreviewChange(key, "controllers", ROLL) for key in _differing(*sides)]
    return changes + _made_from(old.controllers, new.controllers, "controllers")


def _of_pool(
    old: KafkaClusterSpec, new: KafkaClusterSpec, before: BrokerPool, pool: BrokerPool
) -> list[PreviewChange]:
    where = f"brokers of pool {pool.name}"
    sides = [
        server_properties.broker_settings(_node(spec, its.jvm.heap, its.config), rack=None)
        for spec, its in ((old, before), (new, pool))
    ]
    changes = [_setting(key, where, sides[1], new, pool) for key in _differing(*sides)]
    return changes + _of_disks(before.disks, pool.disks, where) + _made_from(before, pool, where)


def _of_disks(before: PoolDisks, after: PoolDisks, where: str) -> list[PreviewChange]:
    """Disks that come and go. With ``all``, their number is a matter of each node's volumes."""
    if before.all and after.all:
        if before.most == after.most:
            return []
        what = f"disks.maxCount: {before.max_count or 'unset'} to {after.max_count or 'unset'}"
        return [PreviewChange(what, where, ADDED if after.most > before.most else REMOVED)]
    if after.all:
        return [PreviewChange(f"disks.all: {before.most} to all volumes of a node", where, ADDED)]
    if before.all:
        return [PreviewChange(f"disks.count: all volumes of a node to {after.most}", where, REMOVED)]
    changes = []
    if before.most != after.most:
        how = ADDED if after.most > before.most else REMOVED
        changes.append(PreviewChange(f"disks.count: {before.most} to {after.most}", where, how))
    if before.size != after.size:
        changes.append(PreviewChange(f"disks.size: {before.size} to {after.size}", where, EXPANDED))
    return changes


def _setting(
    key: str, where: str, after: Mapping[str, str], new: KafkaClusterSpec, pool: BrokerPool
) -> PreviewChange:
    if key in AT_START:
        return PreviewChange(key, where, NEXT_START)
    if key in ON_CLUSTER and key not in pool.config:
        return PreviewChange(key, "cluster", RUNNING if key in new.config else STAYS)
    return PreviewChange(key, where, RUNNING if key in ON_BROKERS and key in after else ROLL)


def _made_from(before: Any, after: Any, where: str) -> list[PreviewChange]:
    changes = [
        PreviewChange(name, where, ROLL)
        for name in ("resources", "jvm")
        if getattr(before, name) != getattr(after, name)
    ]
    if parts_of(before.pod_template) != parts_of(after.pod_template):
        changes.append(PreviewChange("podTemplate", where, ROLL))
    if (before.claim_metadata or _NONE) != (after.claim_metadata or _NONE):
        changes.append(PreviewChange("claimMetadata", where, RUNNING))
    return changes


def _differing(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


def _node(
    spec: KafkaClusterSpec, heap: str | None, pool_config: Mapping[str, str]
) -> server_properties.NodeConfig:
    """An example node: settings that differ between nodes are the same in both specs."""
    return server_properties.node_config(
        "cluster",
        "namespace",
        0,
        controllers=(),
        brokers=sum(pool.replicas for pool in spec.broker_pools),
        config=spec.config,
        pool_config=pool_config,
        heap=heap,
        follower_fetching=spec.racks.follower_fetching,
    )
