"""The record of the pools, for pools that the spec no longer has."""

from spindle.api import names
from spindle.brokers.claim_annotations import has_left
from spindle.manifests.ensure_applied import ensure_applied
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.pools import pools_map
from spindle.model.state import ClusterState


def reconcile_pools(state: ClusterState, builder: PlanBuilder) -> None:
    """Record the pools: the brokers of a pool that the spec no longer has run until they are drained."""
    used = _in_use(state) if state.former else frozenset()
    kept = {name: pool for name, pool in state.former.items() if name in used}
    identity = state.known_identity
    cluster_id = identity.cluster_id if identity is not None else None
    wanted = pools_map(state.cluster, {**state.pools, **kept}, state.spec, cluster_id)
    ensure_applied(builder, wanted, state.config_maps.get(objects.name(wanted)))


def _in_use(state: ClusterState) -> frozenset[str]:
    """Pools that have a KafkaBroker or a claim of a broker that has not left."""
    pools = [broker["spec"].get("pool") for broker in state.brokers.values()]
    pools += [objects.annotation(c, names.ANN_POOL) for c in state.claims.values() if not has_left(c)]
    return frozenset(map(str, pools))
