"""The executor's journal in its ConfigMap ``<cluster>-moves``.

It is written before anything that it records is done, guarded by the resourceVersion that it was read with: of two leaders only
one gets any further. It goes with the KafkaCluster, unless something in it could not be put back: then it stays as the data does.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.manifests.common import labels, owner_reference
from spindle.moves import intents
from spindle.moves.execute import cleanup
from spindle.moves.journal import Journal, JournalError, parse, render
from spindle.reconcile import objects
from spindle.reconcile.actions import (
    Action,
    Create,
    ElectPreferred,
    Patch,
    PlaceReplicas,
    Reassign,
    SetConfigs,
)
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.times import seconds

_KEY: Final = "journal"
_PATIENCE: Final = 120.0  # seconds that a deleted cluster waits for Kafka to take its settings back


def read_journal(state: State) -> Journal:
    """The journal on record; an empty one if there is none, or if it is of a cluster of the same name that is no more.

    Raises:
        JournalError: it is not understood.
    """
    record = state.config_maps.get(names.moves_map(state.name))
    if record is None:
        return Journal()
    identity, theirs = state.known_identity, objects.annotation(record, names.ANN_CLUSTER_ID)
    if identity is not None and theirs is not None and theirs != identity.cluster_id:
        return Journal()
    return parse((record.get("data") or {}).get(_KEY))


def write_journal(state: State, journal: Journal) -> tuple[Action, ...]:
    """Write the journal if it differs from what is on record, and make a record of an earlier KafkaCluster ours.

    Raises:
        JournalError: it is larger than a ConfigMap holds.
    """
    record = state.config_maps.get(names.moves_map(state.name))
    identity = state.known_identity
    metadata = {
        "labels": labels(state.name),
        "annotations": {names.ANN_CLUSTER_ID: identity.cluster_id} if identity else {},
        "ownerReferences": [owner_reference(state.cluster)],
    }
    data = {_KEY: render(journal)}
    if record is None:
        if not journal:
            return ()
        obj = {"metadata": {"name": names.moves_map(state.name), "namespace": state.namespace, **metadata}}
        return (Create(object={"apiVersion": "v1", "kind": "ConfigMap", **obj, "data": data}),)
    owners = [owner.get("uid") for owner in record["metadata"].get("ownerReferences") or ()]
    if record.get("data") == data and owners == [objects.uid(state.cluster)]:
        return ()
    return (_patch(record, {"metadata": metadata, "data": data}),)


def _patch(record: Mapping[str, Any], body: Mapping[str, Any]) -> Patch:
    return Patch(
        kind="ConfigMap",
        name=objects.name(record),
        uid=objects.uid(record),
        resource_version=objects.version(record),
        body=body,
    )


def settle_cleanup(state: State, draft: Draft) -> bool:
    """Before a KafkaCluster that is deleted stops its brokers: cancel what is in motion, put settings back.

    Returns:
        True if there is nothing left that could be done. What could not be put back stays on record in the ConfigMap, which then
        outlives the KafkaCluster as the data does.
    """
    started = seconds(state.cluster["metadata"].get("deletionTimestamp")) or state.now
    running = any(node_id < names.FIRST_CONTROLLER_ID for node_id in state.pods)
    if running and state.now - started < _PATIENCE:
        journal = _left(state)
        ours = journal is not None and bool(journal.moves or journal.settings)
        agents = [b for b in state.brokers.values() if b["spec"].get("moves") or _throttles(b)]
        if ours or agents:
            draft.do(*_take_back_agents_moves(agents), *(_take_back(state, journal) if journal else ()))
            draft.wait(
                Wait(
                    "Delete",
                    f"KafkaCluster/{state.name}",
                    "SettingsPutBack",
                    "Moves are cancelled and Kafka's settings put back before the brokers stop.",
                    "Kafka has taken them.",
                    quiet=True,
                )
            )
            return False
    record = state.config_maps.get(names.moves_map(state.name))
    owned = record is not None and record["metadata"].get("ownerReferences")
    if record is not None and owned and not state.spec.delete_claims and _stays(_left(state)):
        draft.do(_patch(record, {"metadata": {"ownerReferences": None}}))
    return True


def _stays(journal: Journal | None) -> bool:
    """Whether something could not be put back, as far as that is known."""
    return journal is None or bool(journal)


def _left(state: State) -> Journal | None:
    """What stands in the journal; None if that is not known."""
    try:
        return read_journal(state)
    except JournalError:
        return None


def _take_back(state: State, journal: Journal) -> list[Action]:
    """The executor's last steps."""
    outcome = cleanup(state.kafka, journal)
    return [*write_journal(state, outcome.journal), *to_actions(outcome.actions)]


def _take_back_agents_moves(brokers: Iterable[Object]) -> list[Action]:
    """Empty ``spec.moves``: the agents then put back the throttle that they have set."""
    return [
        Patch(
            kind="KafkaBroker",
            name=objects.name(broker),
            uid=objects.uid(broker),
            body={
                "spec": {
                    "moves": None,
                    "throttleBytesPerSecond": None,
                    "throttleBytesPerSecondMin": None,
                }
            },
        )
        for broker in brokers
        if broker["spec"].get("moves") and not objects.deleting(broker)
    ]


def _throttles(broker: Object) -> bool:
    """Whether a broker's agent has yet to put its throttle back."""
    return bool(((broker.get("status") or {}).get("observed") or {}).get("throttle"))


def to_actions(wanted: Iterable[intents.Intent]) -> list[Action]:
    """The executor's intents as actions."""
    return [_action(intent) for intent in wanted]


def _action(intent: intents.Intent) -> Action:
    match intent:
        case intents.Place():
            return PlaceReplicas(broker=intent.broker, placements=intent.placements)
        case intents.Reassign():
            return Reassign(assignments=intent.assignments, reason=intent.reason, message=intent.message)
        case intents.Elect():
            return ElectPreferred(partitions=intent.partitions, reason=intent.reason, message=intent.message)
        case intents.Configure():
            return SetConfigs(target=intent.kind, name=intent.name, values=dict(intent.values))
