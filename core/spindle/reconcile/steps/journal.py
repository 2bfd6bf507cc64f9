"""The executor's journal in its ConfigMap ``<cluster>-moves``.

It is written before anything that it records is done, guarded by the resourceVersion that it was read with: of two leaders only
one gets any further. It goes with the KafkaCluster, unless something in it could not be put back: then it stays as the data does.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.view import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    KafkaView,
)
from spindle.cluster.waiting import Waiting, counted, some
from spindle.manifests.common import labels, owner_reference
from spindle.moves import between_dirs, intents
from spindle.moves.execute import cleanup
from spindle.moves.journal import Journal, JournalError, parse, render
from spindle.moves.outcome import RefusedMove
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
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.times import seconds, stamp

_KEY: Final = "journal"
_MOVES: Final = "MoveReplicas"
_NOT_FOUND: Final = (
    "The record of moves is not listed: it is gone, or has lost its label. No replica is moved meanwhile."
)
_DELETED: Final = "The record of moves was deleted by hand. It is kept, and moves go on, until all that it records is put back."
_UNTIL_EMPTY: Final = "What is in motion lands, settings are put back, and replicas grow back; then it goes, and a new one is made."
_OURS: Final = frozenset(
    {LEADER_REPLICAS, FOLLOWER_REPLICAS, LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE, CORDONED}
)
_PATIENCE: Final = 120.0  # seconds that a deleted cluster waits for Kafka to take its settings back


def read_journal(state: ClusterState) -> Journal:
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
    text = (record.get("data") or {}).get(_KEY)
    if not text:
        raise JournalError(f"the ConfigMap has no entry {_KEY}")
    return parse(text)


def write_journal(state: ClusterState, journal: Journal) -> tuple[Action, ...]:
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
        "finalizers": [names.FINALIZER_JOURNAL],  # deleted by hand it stays until all in it is put back
    }
    data = {_KEY: render(journal)}
    if record is None:
        if not journal:
            return ()
        obj = {"metadata": {"name": names.moves_map(state.name), "namespace": state.namespace, **metadata}}
        return (Create(object={"apiVersion": "v1", "kind": "ConfigMap", **obj, "data": data}),)
    if objects.deleting(record):
        if not journal:
            return (_patch(record, {"metadata": {"finalizers": _other_finalizers(record)}}),)
        return () if record.get("data") == data else (_patch(record, {"data": data}),)
    metadata["finalizers"] = [*_other_finalizers(record), names.FINALIZER_JOURNAL]
    held = names.FINALIZER_JOURNAL in (record["metadata"].get("finalizers") or ())
    owners = [owner.get("uid") for owner in record["metadata"].get("ownerReferences") or ()]
    if held and record.get("data") == data and owners == [objects.uid(state.cluster)]:
        return ()
    return (_patch(record, {"metadata": metadata, "data": data}),)


def find_journal(state: ClusterState, builder: PlanBuilder) -> bool:
    """Whether the journal is where it should be, or never was; sees to it that one that is gone is noticed.

    One that lost its label is not listed: to create it anew puts the label back, and the next pass reads it.
    """
    record, identity = state.config_maps.get(names.moves_map(state.name)), _identity_record(state)
    kept = identity is not None and objects.annotation(identity, names.ANN_JOURNAL) is not None
    thing = f"ConfigMap/{names.moves_map(state.name)}"
    if record is None:
        if kept:
            builder.do(_begun_anew(state))
            builder.wait(
                Waiting(
                    _MOVES,
                    thing,
                    "JournalNotFound",
                    _NOT_FOUND,
                    "It is listed again, or a new one is made.",
                    quiet=True,
                )
            )
        return not kept
    if objects.deleting(record):
        builder.wait(Waiting(_MOVES, thing, "JournalDeleted", _DELETED, _UNTIL_EMPTY))
    if objects.annotation(record, names.ANN_LOST) is not None:
        _tell_what_is_left(state, builder, record)
    return True


def note_journal(state: ClusterState, builder: PlanBuilder) -> None:
    """Write down, where it outlives the journal, that there is one."""
    identity = _identity_record(state)
    if identity is None or names.moves_map(state.name) not in state.config_maps:
        return
    if objects.annotation(identity, names.ANN_JOURNAL) is None:
        body = {"metadata": {"annotations": {names.ANN_JOURNAL: "kept"}}}
        name, uid = objects.name(identity), objects.uid(identity)
        builder.do(Patch(kind="ConfigMap", name=name, uid=uid, body=body))


def _identity_record(state: ClusterState) -> SnapshotObject | None:
    return state.config_maps.get(names.identity_map(state.name))


def _begun_anew(state: ClusterState) -> Create:
    metadata = {
        "name": names.moves_map(state.name),
        "namespace": state.namespace,
        "labels": labels(state.name),
        "annotations": {
            names.ANN_LOST: stamp(state.now),
            **({names.ANN_CLUSTER_ID: state.known_identity.cluster_id} if state.known_identity else {}),
        },
        "ownerReferences": [owner_reference(state.cluster)],
        "finalizers": [names.FINALIZER_JOURNAL],
    }
    data = {_KEY: render(Journal())}
    return Create(object={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _tell_what_is_left(state: ClusterState, builder: PlanBuilder, record: SnapshotObject) -> None:
    """After a journal was lost: what Kafka shows that may have been in it, until there is no such thing any more."""
    try:
        left = pending_cleanup(state.kafka, read_journal(state))
    except JournalError:
        return
    if left is None:
        return
    if not left:
        builder.do(_patch(record, {"metadata": {"annotations": {names.ANN_LOST: None}}}))
        return
    name = objects.name(record)
    builder.wait(
        Waiting(
            _MOVES,
            f"ConfigMap/{name}",
            "JournalLost",
            f"The record of what Spindle moved and set is gone, and these may be Spindle's: {some(left)}.",
            "Delete these settings with kafka-configs.sh, and give the partitions their replicas back with kafka-reassign-partitions.sh. If "
            f"they are as they should be: kubectl annotate configmap {name} {names.ANN_LOST}-",
        )
    )


def pending_cleanup(view: KafkaView, journal: Journal) -> list[str] | None:
    """What Kafka shows of the kind that a journal records and this one does not: settings, and partitions that lack replicas.

    None where Kafka could not be asked.
    """
    if view.partitions is None or view.settings is None:
        return None
    known = {entry.id for entry in journal.settings}
    found = [
        f"{key} of {kind} {name}"
        for (kind, name), values in sorted(view.settings.items())
        for key in sorted(values)
        if key in _OURS and (kind, name, key) not in known
    ]
    most: dict[str, int] = {}
    for partition in view.partitions:
        most[partition.topic] = max(most.get(partition.topic, 0), partition.recorded_rf)
    dropped = {entry.key for entry in journal.dropped}
    short = [
        p
        for p in view.partitions
        if p.recorded_rf < most[p.topic] and (p.topic, p.index) not in dropped and not p.adding
    ]
    return [*found, *(f"{p.recorded_rf} of {most[p.topic]} replicas of {p.name}" for p in short)]


def _other_finalizers(record: SnapshotObject) -> list[str]:
    return [f for f in record["metadata"].get("finalizers") or () if f != names.FINALIZER_JOURNAL]


def _patch(record: Mapping[str, Any], body: Mapping[str, Any]) -> Patch:
    return Patch(
        kind="ConfigMap",
        name=objects.name(record),
        uid=objects.uid(record),
        resource_version=objects.version(record),
        body=body,
    )


def reconcile_cleanup(state: ClusterState, builder: PlanBuilder) -> bool:
    """Before a KafkaCluster that is deleted stops its brokers: cancel what is in motion, put settings back.

    Returns:
        True if there is nothing left that could be done. What could not be put back stays on record in the ConfigMap, which then
        outlives the KafkaCluster as the data does.
    """
    started = seconds(state.cluster["metadata"].get("deletionTimestamp")) or state.now
    running = any(node_id < names.FIRST_CONTROLLER_ID for node_id in state.pods)
    if running and state.now - started < _PATIENCE:
        journal = _left(state)
        if journal is not None:
            journal = between_dirs.taken_over(journal, state.kafka, state.brokers.items())
        ours = journal is not None and bool(journal.moves or journal.settings)
        agents = [b for b in state.brokers.values() if b["spec"].get("moves") or _throttles(b)]
        if ours or agents:
            outcome = cleanup(state.kafka, journal or Journal())
            builder.do(*_take_back_agents_moves(agents))
            if journal:
                builder.do(*write_journal(state, outcome.journal), *to_actions(outcome.actions))
            builder.wait(_putting_back(state, outcome.refusals))
            return False
    record = state.config_maps.get(names.moves_map(state.name))
    owned = record is not None and record["metadata"].get("ownerReferences")
    held = record is not None and names.FINALIZER_JOURNAL in (record["metadata"].get("finalizers") or ())
    change: dict[str, Any] = {"finalizers": _other_finalizers(record)} if record is not None and held else {}
    if owned and not state.spec.delete_claims and _stays(_left(state)):
        change["ownerReferences"] = None
    if record is not None and change:
        builder.do(_patch(record, {"metadata": change}))
    return True


def _stays(journal: Journal | None) -> bool:
    """Whether something could not be put back, as far as that is known."""
    return journal is None or bool(journal)


def _left(state: ClusterState) -> Journal | None:
    """What stands in the journal; None if that is not known."""
    try:
        return read_journal(state)
    except JournalError:
        return None


def _putting_back(state: ClusterState, refused: Sequence[RefusedMove]) -> Waiting:
    """What a deletion waits for: Kafka, which takes back what it can."""
    if not refused:
        return Waiting(
            "Delete",
            f"KafkaCluster/{state.name}",
            "ThrottlesReverting",
            "Moves are cancelled and Kafka's settings put back before the brokers stop.",
            "Kafka has taken them.",
            quiet=True,
        )
    return Waiting(
        "Delete",
        f"KafkaCluster/{state.name}",
        "CancellationRejected",
        f"{counted(len(refused), 'reassignment')} cannot be cancelled before the brokers stop: {some([each.move.name for each in refused])}. No replica "
        "from before is in sync, so Kafka refuses.",
        f"A replica from before is in sync again, or {_PATIENCE:.0f} s have passed since the deletion: then the brokers stop, and what is in "
        "motion stays on record.",
    )


def _take_back_agents_moves(brokers: Iterable[SnapshotObject]) -> list[Action]:
    """Empty ``spec.moves``: the agents then cancel their copies, and want no throttle any more."""
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


def _throttles(broker: SnapshotObject) -> bool:
    """Whether a broker's agent still wants a throttle, or has set one that is not put back."""
    return bool(((broker.get("status") or {}).get("observed") or {}).get("throttle"))


def to_actions(wanted: Iterable[intents.Intent]) -> list[Action]:
    """The executor's intents as actions."""
    return [_action(intent) for intent in wanted]


def _action(intent: intents.Intent) -> Action:
    match intent:
        case intents.PlaceReplicasIntent():
            return PlaceReplicas(broker=intent.broker, placements=intent.placements)
        case intents.ReassignIntent():
            return Reassign(assignments=intent.assignments, reason=intent.reason, message=intent.message)
        case intents.ElectIntent():
            return ElectPreferred(partitions=intent.partitions, reason=intent.reason, message=intent.message)
        case intents.ConfigureIntent():
            return SetConfigs(target=intent.kind, name=intent.name, values=dict(intent.values))
