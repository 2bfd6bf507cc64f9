"""The user's settings that Kafka takes while it runs: told to the brokers, recorded before, and taken back when they are not wanted."""

from collections.abc import Mapping, Sequence
from typing import Final

from spindle.cluster.dynamic_config import ON_CLUSTER, ConfigChanges, ConfigValues, config_changes
from spindle.cluster.waiting import Waiting, some
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch, Tune
from spindle.reconcile.dynamic_config_record import (
    ANN_DYNAMIC_CONFIG,
    DynamicConfigRecord,
    read_record,
    record_text,
)
from spindle.reconcile.inputs import broker_settings
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.defaults import reconcile_defaults
from spindle.reconcile.steps.eviction import RestartRequest

_TAKEN_SOON: Final = (
    30.0  # seconds; most take it at once, so a broker that has not by then has turned it down
)
_TAKEN_WITHIN: Final = 180.0  # seconds; what a broker has not taken by then it is to take at its start


def reconcile_dynamic_config(
    state: ClusterState, builder: PlanBuilder, wanted: dict[int, RestartRequest]
) -> None:
    """Tell each running broker what it is to have, and have those restarted that take something only at their start."""
    for node_id, broker in state.brokers.items():
        pod, settings = state.pods.get(node_id), broker_settings(state, broker)
        standing = state.kafka.standing.get(node_id)
        if (
            pod is None
            or settings is None
            or broker["spec"].get("leaving")  # what is ours there is being taken back
            or standing is None
            or objects.deleting(pod)
            or not objects.kafka_runs(pod)
        ):
            continue
        record = read_record(broker)
        tuning = config_changes(settings, standing, record.settings, record.before)
        late = _late(state, settings, standing, record, tuning)
        # Only a start with the new file can help with these, and only after a second telling: the first may never have reached it.
        # A number of threads goes in steps: whoever has taken one since is on its way, however long nobody told it the next.
        refused = frozenset(key for key in late if record.again.get(key) == tuning.orders[key])
        _tell(state, builder, broker, standing, tuning, late, refused)
        restart = (*tuning.restart, *refused)
        if restart:
            why = f"{some(sorted(restart))} changed, which it does not take while it runs"
            wanted.setdefault(node_id, RestartRequest("SpecChanged", why))
        for key in _not_taken(state, standing, record, tuning):
            builder.wait(_turned_down(broker, key, tuning.ours[key]))
        for key, (found, asked) in tuning.by_hand.items():
            builder.wait(_by_hand(broker, key, found, asked))
    reconcile_defaults(state, builder, state.spec.config)


def _late(
    state: ClusterState,
    settings: Mapping[str, str],
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    tuning: ConfigChanges,
) -> frozenset[str]:
    """Which settings a broker has not taken in time.

    Only those count that a start would bring: what is on its way back to the file that the broker was started with is not one of them.
    """
    if record.since is None or state.now - record.since <= _TAKEN_WITHIN:
        return frozenset()
    return frozenset(
        key
        for key, value in tuning.orders.items()
        if value is not None
        and key in settings
        and standing[key].static != settings[key]
        and record.settings.get(key) == settings[key]
    )


def _not_taken(
    state: ClusterState,
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    tuning: ConfigChanges,
) -> list[str]:
    """Settings that a broker was told a while ago and has taken no step towards."""
    if record.since is None or state.now - record.since <= _TAKEN_SOON:
        return []
    return [
        key
        for key, value in tuning.orders.items()
        if value is not None
        and record.settings.get(key) == tuning.ours.get(key)
        and standing[key].own in (None, record.before.get(key))
    ]


def put_back(state: ClusterState, builder: PlanBuilder) -> bool:
    """Take away what is ours, before the cluster goes. True when nothing is left that can be taken away.

    A broker that does not take it, or cannot be asked, is waited for a while; then its record goes with its claims, for whoever comes
    to these disks next.
    """
    each = [put_back_on(state, builder, node_id, broker) for node_id, broker in state.brokers.items()]
    clean = all(each)
    # The record of the cluster's defaults outlives it in any case.
    if state.kafka.standing and not reconcile_defaults(state, builder, {}):
        wait = _left(state.cluster, sorted(ON_CLUSTER))
        builder.wait(wait)
        clean = clean and state.waited(wait.key) > _TAKEN_WITHIN
    return clean


def put_back_on(state: ClusterState, builder: PlanBuilder, node_id: int, broker: SnapshotObject) -> bool:
    """The same for one broker, which is about to go."""
    record, standing = read_record(broker), state.kafka.standing.get(node_id)
    if not record.settings or node_id not in state.pods:
        return True
    orders = (
        config_changes({}, standing, record.settings, record.before).orders if standing is not None else {}
    )
    if standing is not None and not orders:
        builder.do(_note(broker, DynamicConfigRecord(), state.now))
        return False
    wait = _left(broker, sorted(record.settings))
    builder.wait(wait)
    if state.waited(wait.key) > _TAKEN_WITHIN:
        return True
    if orders:
        builder.do(Tune(broker=node_id, values=orders))
    return False


def _left(owner: SnapshotObject, keys: Sequence[str]) -> Waiting:
    name = objects.name(owner)
    return Waiting(
        "PutBack",
        f"{owner['kind']}/{name}",
        "DynamicConfigNotReverted",
        f"{some(keys)} of {name} was set while it ran, and is to be taken away before it goes.",
        "The broker answers and takes it. After three minutes it goes all the same, and the record stays, on its claims or the birth record.",
        quiet=True,
    )


def _tell(
    state: ClusterState,
    builder: PlanBuilder,
    broker: SnapshotObject,
    standing: Mapping[str, ConfigValues],
    tuning: ConfigChanges,
    late: frozenset[str],
    refused: frozenset[str],
) -> None:
    """The record first: whatever is set must be known to be ours, whoever goes on from here."""
    record = read_record(broker)
    ours = {**record.settings, **tuning.ours} if tuning.orders else dict(tuning.ours)
    unchanged = ours == dict(record.settings)
    again = {
        key: value
        for key, value in tuning.orders.items()
        if value is not None and unchanged and (key in late or record.again.get(key) == value)
    }
    following = DynamicConfigRecord(ours, _before(standing, record, ours, tuning), again=again)
    noted = [] if following.same(record) else [_note(broker, following, state.now)]
    orders = {key: value for key, value in tuning.orders.items() if key not in refused}
    # Kafka takes all of what it is told at once or nothing, so the second time each stands for itself.
    each = [{key: value} for key, value in orders.items()] if following.again else [orders] if orders else []
    told = [_order(broker, values) for values in each]
    # That something was told a second time is noted once it was: it is what a restart rests on.
    anew = following.again.items() - record.again.items()
    builder.do(*told, *noted) if anew else builder.do(*noted, *told)


def _before(
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    ours: Mapping[str, str],
    tuning: ConfigChanges,
) -> dict[str, str]:
    """What is ours on a broker that is to get another value: it stays ours should the order never come to it, or be turned down."""
    found = {}
    for key in ours.keys() & tuning.orders.keys():
        own = standing[key].own
        if own is None or own == ours[key]:
            continue
        if ours[key] != record.settings.get(key):
            found[key] = own
        elif key in record.before:
            found[key] = record.before[key]
    return found


def _order(broker: SnapshotObject, values: Mapping[str, str | None]) -> Tune:
    told = ", ".join(
        f"{key}={value}" if value is not None else f"{key} as it was started with"
        for key, value in values.items()
    )
    message = f"{objects.name(broker)} gets {told}, without a restart."
    return Tune(broker=int(broker["spec"]["id"]), values=values, reason="ConfigApplied", message=message)


def _note(broker: SnapshotObject, record: DynamicConfigRecord, now: float) -> Patch:
    body = {"metadata": {"annotations": {ANN_DYNAMIC_CONFIG: record_text(record, now)}}}
    return Patch(kind="KafkaBroker", name=objects.name(broker), uid=objects.uid(broker), body=body)


def _turned_down(broker: SnapshotObject, key: str, value: str) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        "Configure",
        f"KafkaBroker/{name}/{key}",
        "DynamicConfigRejected",
        f"{name} was told {key}={value} and has not taken it, nor what it was told with it. The event TuneFailed has Kafka's words.",
        f"Correct {key} in the spec, or take it out. Left as it is, {name} is restarted with it after some minutes.",
    )


def _by_hand(broker: SnapshotObject, key: str, found: str, asked: str) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        "Configure",
        f"KafkaBroker/{name}/{key}",
        "ConfigOverridden",
        f"{key} of {name} was set to {found} by somebody else while it ran; the spec says {asked}. It is left as it is.",
        f"Delete it with kafka-configs.sh --alter --delete-config {key} (--entity-type brokers, with --entity-name "
        f"{broker['spec']['id']} or --entity-default), or write the same into the spec.",
    )
