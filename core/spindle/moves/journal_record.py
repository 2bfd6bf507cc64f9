"""The executor's journal in its ConfigMap ``<cluster>-moves``.

It is written before the recorded action is carried out, with the resourceVersion that was read as a precondition: of two operators that both
believe to hold the lease, only one can continue. It is deleted with the KafkaCluster, unless something in it could not be reverted: then it is
kept, as the data is.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Action, Create, ElectPreferred, Patch, PlaceReplicas, Reassign, SetConfigs
from spindle.model.metadata import labels, owner_reference
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.view import (
    CORDONED,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    KafkaView,
)
from spindle.model.waiting import Waiting, counted, some
from spindle.moves import between_dirs, intents
from spindle.moves.execute import cleanup
from spindle.moves.journal import Journal, JournalError, ReplacedLog, parse, render
from spindle.moves.outcome import RefusedMove, StepResult

_KEY: Final = "journal"
_MOVES: Final = "MoveReplicas"
_NOT_FOUND: Final = "No replica is moved: the journal of moves is missing or has lost its label."
_DELETED: Final = "The journal of moves was deleted by hand. Its finalizer keeps it, and moves continue, until everything that it records is reverted."
_UNTIL_EMPTY: Final = (
    "Nothing to do: Spindle deletes the journal and creates a new one when the moves have completed, the configs are reverted and dropped "
    "replicas are restored."
)
_OURS: Final = frozenset(
    {LEADER_REPLICAS, FOLLOWER_REPLICAS, LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE, CORDONED}
)
_PATIENCE: Final = 120.0  # seconds that a deleted cluster waits for Kafka to revert its configs


def read_journal(state: ClusterState) -> Journal:
    """The recorded journal; an empty one if there is none or if it belongs to a former cluster of the same name.

    Raises:
        JournalError: the journal cannot be parsed.
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


def logs_to_ask(cluster: str, config_maps: Iterable[objects.RawObject]) -> tuple[ReplacedLog, ...]:
    """The journal's logs whose leaders are to be asked for their epochs; none if it cannot be read."""
    for record in config_maps:
        if objects.name(record) == names.moves_map(cluster):
            text = str((record.get("data") or {}).get(_KEY) or "")
            with contextlib.suppress(JournalError):
                return parse(text).replaced if '"replaced"' in text else ()
    return ()


def write_journal(state: ClusterState, journal: Journal) -> tuple[Action, ...]:
    """Write the journal if it differs from the recorded one, and take over the ConfigMap of an earlier KafkaCluster.

    Raises:
        JournalError: the journal is larger than a ConfigMap can hold.
    """
    record = state.config_maps.get(names.moves_map(state.name))
    identity = state.known_identity
    metadata = {
        "labels": labels(state.name),
        "annotations": {names.ANN_CLUSTER_ID: identity.cluster_id} if identity else {},
        "ownerReferences": [owner_reference(state.cluster)],
        # If the journal is deleted by hand, it stays until everything in it is reverted.
        "finalizers": [names.FINALIZER_JOURNAL],
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
    """Whether the journal exists, or never existed; reports a lost one and recreates it.

    A journal that has lost its label is not listed: creating it restores the label, and the next pass reads it.
    """
    record, identity = state.config_maps.get(names.moves_map(state.name)), _identity_record(state)
    kept = identity is not None and objects.annotation(identity, names.ANN_JOURNAL) is not None
    thing = f"ConfigMap/{names.moves_map(state.name)}"
    if record is None:
        if kept:
            builder.do(_new_journal(state))
            builder.wait(
                Waiting(
                    _MOVES,
                    thing,
                    "JournalNotFound",
                    _NOT_FOUND,
                    "Nothing to do: Spindle restores the label or creates a new journal.",
                    quiet=True,
                )
            )
        return not kept
    if objects.deleting(record):
        builder.wait(Waiting(_MOVES, thing, "JournalDeleted", _DELETED, _UNTIL_EMPTY))
    if objects.annotation(record, names.ANN_LOST) is not None:
        _report_leftovers(state, builder, record)
    return True


def note_journal(state: ClusterState, builder: PlanBuilder) -> None:
    """Record in the identity ConfigMap that a journal exists, so that its loss is noticed."""
    identity = _identity_record(state)
    if identity is None or names.moves_map(state.name) not in state.config_maps:
        return
    if objects.annotation(identity, names.ANN_JOURNAL) is None:
        body = {"metadata": {"annotations": {names.ANN_JOURNAL: "kept"}}}
        name, uid = objects.name(identity), objects.uid(identity)
        builder.do(Patch(kind="ConfigMap", name=name, uid=uid, body=body))


def _identity_record(state: ClusterState) -> SnapshotObject | None:
    return state.config_maps.get(names.identity_map(state.name))


def _new_journal(state: ClusterState) -> Create:
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


def _report_leftovers(state: ClusterState, builder: PlanBuilder, record: SnapshotObject) -> None:
    """After a journal was lost, report configs and missing replicas that may have been in it, until there are none left."""
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
            f"The journal of Spindle's moves and configs was lost. These may be left over from it: {some(left)}.",
            "Delete these configs with kafka-configs.sh, and restore the replicas of the partitions with kafka-reassign-partitions.sh. If they are "
            f"as intended, run: kubectl annotate configmap {name} {names.ANN_LOST}-",
        )
    )


def pending_cleanup(view: KafkaView, journal: Journal) -> list[str] | None:
    """Configs and missing replicas in Kafka that a journal would record and this one does not.

    None if Kafka could not be asked.
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
    """Cancel moves, revert configs and let the previous leaders take over before the brokers of a deleted KafkaCluster stop.

    Returns:
        True if nothing is left that can be done. What could not be reverted stays recorded in the ConfigMap, which then outlives the
        KafkaCluster, as the data does.
    """
    started = seconds(state.cluster["metadata"].get("deletionTimestamp")) or state.now
    running = any(node_id < names.FIRST_CONTROLLER_ID for node_id in state.pods)
    if running and state.now - started < _PATIENCE:
        journal = _left(state)
        if journal is not None:
            journal = between_dirs.taken_over(journal, state.kafka, state.brokers.items())
        outcome = cleanup(state.kafka, journal or Journal())
        agents = [b for b in state.brokers.values() if b["spec"].get("moves") or _throttles(b)]
        if agents or (journal is not None and _begun(state, journal, outcome)):
            builder.do(*_cancel_agents_moves(agents))
            if journal:
                builder.do(*write_journal(state, outcome.journal), *to_actions(outcome.actions))
            builder.wait(_reverting(state, outcome.refusals))
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


def _begun(state: ClusterState, journal: Journal, outcome: StepResult) -> bool:
    """Whether something is being reverted. A previous leader that is not in sync is not waited for."""
    if journal.moves or journal.settings or journal.removed:
        return True
    unasked = bool(state.kafka.error) or state.kafka.partitions is None or state.kafka.brokers is None
    return bool(journal.leadership) and bool(unasked or outcome.actions or outcome.journal != journal)


def _stays(journal: Journal | None) -> bool:
    """Whether something could not be reverted; True if that is not known."""
    return journal is None or bool(journal)


def _left(state: ClusterState) -> Journal | None:
    """The recorded journal; None if it cannot be read."""
    try:
        return read_journal(state)
    except JournalError:
        return None


def _reverting(state: ClusterState, refused: Sequence[RefusedMove]) -> Waiting:
    """The wait of a deletion for Kafka to cancel moves and revert configs."""
    if not refused:
        return Waiting(
            "Delete",
            f"KafkaCluster/{state.name}",
            "ThrottlesReverting",
            "Moves are being cancelled, Spindle's configs in Kafka reverted, and previous leaders restored before the brokers stop.",
            "Nothing to do: Spindle continues when Kafka has applied this.",
            quiet=True,
        )
    return Waiting(
        "Delete",
        f"KafkaCluster/{state.name}",
        "CancellationRejected",
        f"{counted(len(refused), 'reassignment')} cannot be cancelled before the brokers stop: {some([each.move.name for each in refused])}. Kafka "
        "refuses because no original replica is in sync.",
        f"Bring the broker of an original replica back. {_PATIENCE:.0f} s after the deletion the brokers stop anyway, and the reassignments stay "
        "recorded.",
    )


def _cancel_agents_moves(brokers: Iterable[SnapshotObject]) -> list[Action]:
    """Empty ``spec.moves``: the agents then cancel their copies and no longer need a throttle."""
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
    """Whether a broker's agent still needs a throttle, or has set one that is not reverted yet."""
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
