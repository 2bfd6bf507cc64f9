"""Whether a spec is applied. A spec with settings that Kafka would reject, or with something that is not allowed, is not; the last accepted spec stays in effect."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.owned import owner_of
from spindle.config import spec_allowed, template_check
from spindle.config.listeners_check import refused_listeners
from spindle.config.logging_check import refused_logging
from spindle.config.metrics_check import refused_metrics
from spindle.config.racks_check import refused_racks
from spindle.config.release import version_to_run
from spindle.config.server_properties import parsed
from spindle.config.spec_allowed import Ask, not_allowed
from spindle.config.spec_settings import refused_settings
from spindle.config.template_check import refused_templates
from spindle.model import objects
from spindle.model.actions import Action, Apply, Create
from spindle.model.plan_builder import PlanBuilder
from spindle.model.pools import recorded_pools, recorded_spec
from spindle.model.snapshot import ClusterSnapshot
from spindle.model.spec_findings import RejectedSettings
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting
from spindle.rollout.upgrade import as_run

_KEY: Final = 128  # characters of a key; a status takes names of 253, and keys have no limit
_TEXT: Final = 4096  # characters of the message about one
_NAMED: Final = (
    16  # settings that get an entry of their own; the others are reported when these are corrected
)


def as_accepted(state: ClusterState) -> ClusterState:
    """The state with the spec that is in effect, and what was refused of the requested one.

    A spec is applied as a whole or not at all, so that related fields change together; only ``paused`` takes effect at once. The spec of a
    KafkaCluster that is being deleted is not checked, since nothing is configured any more.
    """
    if objects.deleting(state.cluster):
        return state
    state = as_run(state)
    record = state.config_maps.get(names.pools_map(state.name))
    recorded = recorded_spec(record, objects.uid(state.cluster))
    asked = _not_allowed(state, state.spec)
    before = asked if recorded is None and _runs(state) else _not_allowed(state, recorded) if recorded else ()
    in_use = {ask.key for ask in before}
    fresh = [ask.refused for ask in asked if ask.key not in in_use]
    # A key that Spindle owns is reported as such, not as one that its release does not know.
    owned = {(ask.refused.field, ask.refused.key) for ask in asked if owner_of(ask.refused.key) is not None}
    wrong = {x for x in refused_settings(state.spec, version_to_run(state)) if (x.field, x.key) not in owned}
    refused = tuple(
        sorted(
            {
                *wrong,
                *fresh,
                *refused_metrics(state.spec),
                *refused_logging(state.spec),
                *refused_racks(state.spec),
                *refused_listeners(state.spec, max(state.brokers, default=0), namespace=state.namespace),
                *refused_templates(state.spec),
            }
        )
    )
    if not refused:
        return replace(state, tolerated=_told(asked))
    carried = recorded or _as_carried(state, refused)
    spec = carried.model_copy(update={"paused": state.spec.paused})
    there = {pool.name for pool in spec.broker_pools}
    former = {name: pool for name, pool in recorded_pools(record).items() if name not in there}
    return replace(
        state,
        snap=_with_its_authority(state, spec),
        spec=spec,
        former=former,
        spec_accepted=state.spec,
        refused=refused,
        tolerated=_told(before),
    )


def _with_its_authority(state: ClusterState, spec: KafkaClusterSpec) -> ClusterSnapshot:
    """The snapshot with the CA Secret that the spec in effect names, not the requested spec."""
    snap = state.snap
    if spec.security.ca_secret == state.spec.security.ca_secret:
        return snap
    return replace(snap, ca_source=snap.ca_source_before)


def _not_allowed(state: ClusterState, spec: KafkaClusterSpec) -> tuple[Ask, ...]:
    snap = state.snap
    return not_allowed(state.name, spec, snap.allowed, snap.shared_objects, snap.rebalance_image)


def _told(asks: tuple[Ask, ...]) -> tuple[RejectedSettings, ...]:
    """What is known not to be allowed. An object that could not be read, or does not exist, is not reported if it was in use before."""
    return tuple(ask.refused for ask in asks if not ask.unsure)


def _runs(state: ClusterState) -> bool:
    """Whether this KafkaCluster (by UID) has pods. If it has and no spec is on record, it was in use before specs were checked: `hold_unrecorded` creates no pod without one."""
    uid = objects.uid(state.cluster)
    return any(
        owner.get("uid") == uid
        for pod in state.pods.values()
        for owner in pod["metadata"].get("ownerReferences") or ()
    )


def hold_unrecorded(state: ClusterState, builder: PlanBuilder) -> None:
    """Create no pod of this KafkaCluster before its spec is on record: with pods and without a record, everything that it asks for would count as in use before."""
    record = state.config_maps.get(names.pools_map(state.name))
    if recorded_spec(record, objects.uid(state.cluster)) is None and not _runs(state):
        builder.actions[:] = [action for action in builder.actions if not _creates_pod(action)]


def _creates_pod(action: Action) -> bool:
    return isinstance(action, Apply | Create) and action.object["kind"] == "Pod"


def nothing_accepted(state: ClusterState) -> bool:
    """Whether a spec is refused and no earlier one can stay in effect: none was accepted before, and nothing runs."""
    record = state.config_maps.get(names.pools_map(state.name))
    if not state.refused or recorded_spec(record, objects.uid(state.cluster)) is not None:
        return False
    return not state.pods or any(each.reason == spec_allowed.REASON for each in state.refused)


def report_rejected(state: ClusterState, builder: PlanBuilder) -> None:
    """One entry for each setting that is refused."""
    goes_on = (
        "Spindle creates nothing until it is corrected"
        if nothing_accepted(state)
        else "Spindle applies nothing of this spec until it is corrected, no restart and no upgrade; the previous spec stays in effect"
    )
    for each in state.refused[:_NAMED]:
        builder.wait(
            Waiting(
                "ApplySpec",
                f"KafkaCluster/{state.name}/{each.key[:_KEY]}",
                each.reason,
                f"{each.field}: {each.message[:_TEXT]}. {goes_on}.",
                f"{_way_out(each)}{_or_stay(state, each)}.",
            )
        )


def report_tolerated(state: ClusterState, builder: PlanBuilder) -> None:
    """One entry for each setting that is not allowed and stays in the spec because it was there before."""
    for each in state.tolerated[:_NAMED]:
        what = (
            "Spindle ignores it: its own value is in effect"
            if each.without_effect
            else "It stays in effect because it was in use before"
        )
        builder.wait(
            Waiting(
                "KeepSpec",
                f"KafkaCluster/{state.name}/{each.key[:_KEY]}",
                "AllowedForCompatibility",
                f"{each.field}: {each.message[:_TEXT]}. {what}. If it is changed or removed, it cannot be set again.",
                f"{_way_out(each)}.",
            )
        )


def _way_out(refused: RejectedSettings) -> str:
    return f"{refused.way_out[0].upper()}{refused.way_out[1:_TEXT]}"


def _or_stay(state: ClusterState, refused: RejectedSettings) -> str:
    """The alternative if only the release is new: to stay with the previous one."""
    before = state.spec.version
    if (
        state.spec_accepted is None
        or state.spec_accepted.version == before
        or refused.reason in (spec_allowed.REASON, template_check.REASON)
    ):
        return ""
    still = {(each.field, each.key) for each in refused_settings(state.spec_accepted, before)}
    return "" if (refused.field, refused.key) in still else f"; or set spec.version back to {before}"


def _as_carried(state: ClusterState, refused: tuple[RejectedSettings, ...]) -> KafkaClusterSpec:
    """The spec with each refused setting as the nodes have it, where no accepted spec is on record: earlier versions of Spindle did not check.

    A setting that no node has is left out, so that the check does not introduce it.
    """
    shared = {each.key for each in refused if each.field == "spec.config"}
    config = _with(state.spec.config, shared, _carried(state, None))
    pools = []
    for pool in state.spec.broker_pools:
        own = {each.key for each in refused if each.field == f"spec.brokerPools[{pool.name}].config"}
        pools.append(pool.model_copy(update={"config": _with(pool.config, own, _carried(state, pool.name))}))
    return state.spec.model_copy(update={"config": config, "broker_pools": pools})


def _with(asked: Mapping[str, str], keys: set[str], carried: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in asked.items() if key not in keys}
    return kept | {key: carried[key] for key in keys if key in carried}


def _carried(state: ClusterState, pool: str | None) -> dict[str, str]:
    """The settings of any one node of a pool, or of any controller, from its ConfigMap."""
    ids = (
        state.controller_ids
        if pool is None
        else [i for i, broker in state.brokers.items() if broker["spec"].get("pool") == pool]
    )
    for node_id in ids:
        found = state.config_maps.get(names.config_map(state.name, node_id))
        if found is not None:
            return parsed(str((found.get("data") or {}).get("server.properties") or ""))
    return {}
