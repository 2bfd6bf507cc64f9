"""Whether a spec is carried out: one with settings that Kafka would not take is not, and the cluster goes on by the spec that was accepted last."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from spindle.api.cluster import KafkaClusterSpec
from spindle.cluster import names
from spindle.cluster.config import parsed
from spindle.manifests.spec_settings import Refused, refused_settings
from spindle.reconcile import objects
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.pools import recorded_pools, recorded_spec
from spindle.reconcile.state import State
from spindle.reconcile.steps.upgrade import version_to_run

REASON: Final = "ConfigRefused"
_KEY: Final = 128  # letters of a key; a status takes names of 253, and keys have no bound
_TEXT: Final = 4096  # letters of what is said about one
_NAMED: Final = 16  # settings that get an entry of their own; the rest follows when these are corrected


def as_accepted(state: State) -> State:
    """The state with the spec that is to be carried out, and what was refused of the one that is asked for.

    A spec is taken as a whole or not at all, so that what belongs together comes together; only ``paused`` counts at once. A KafkaCluster that
    is being deleted is not checked: nothing is set any more.
    """
    if objects.deleting(state.cluster):
        return state
    refused = refused_settings(state.spec, version_to_run(state))
    if not refused:
        return state
    record = state.config_maps.get(names.pools_map(state.name))
    before = recorded_spec(record, objects.uid(state.cluster)) or _as_carried(state, refused)
    spec = before.model_copy(update={"paused": state.spec.paused})
    there = {pool.name for pool in spec.broker_pools}
    former = {name: pool for name, pool in recorded_pools(record).items() if name not in there}
    return replace(state, spec=spec, former=former, asked=state.spec, refused=refused)


def nothing_accepted(state: State) -> bool:
    """Whether a spec is refused and there is nothing to go on with: no spec was accepted before, and nothing runs."""
    record = state.config_maps.get(names.pools_map(state.name))
    return (
        bool(state.refused) and not state.pods and recorded_spec(record, objects.uid(state.cluster)) is None
    )


def tell_refused(state: State, draft: Draft) -> None:
    """A wait for each setting that is refused."""
    goes_on = (
        "Nothing is made until it is corrected"
        if nothing_accepted(state)
        else "Nothing of this spec is carried out until it is corrected, no restart and no upgrade; the cluster is looked after by the one before"
    )
    for each in state.refused[:_NAMED]:
        draft.wait(
            Wait(
                "ApplySpec",
                f"KafkaCluster/{state.name}/{each.key[:_KEY]}",
                REASON,
                f"{each.field}: {each.message[:_TEXT]}. {goes_on}.",
                f"{each.way_out[0].upper()}{each.way_out[1:_TEXT]}{_or_stay(state, each)}.",
            )
        )


def _or_stay(state: State, refused: Refused) -> str:
    """The other way out where it is the release that is new: to stay with the one before."""
    before = state.spec.version
    if state.asked is None or state.asked.version == before:
        return ""
    still = {(each.field, each.key) for each in refused_settings(state.asked, before)}
    return "" if (refused.field, refused.key) in still else f"; or set spec.version back to {before}"


def _as_carried(state: State, refused: tuple[Refused, ...]) -> KafkaClusterSpec:
    """The spec with each refused setting as the nodes have it, where none is on record: Spindle before this check carried out any.

    What no node has is left out: it is not to come by way of the check.
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


def _carried(state: State, pool: str | None) -> dict[str, str]:
    """The settings of some node, of one pool or of the controllers, by its ConfigMap."""
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
