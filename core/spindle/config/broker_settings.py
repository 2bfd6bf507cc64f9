"""Dynamic broker configs: recorded on the KafkaBroker, then set on the running broker, and reverted when they leave the spec."""

from collections.abc import Mapping, Sequence
from typing import Final

from spindle.config.cluster_defaults import reconcile_defaults
from spindle.config.dynamic_config import ON_CLUSTER, ConfigChanges, config_changes
from spindle.config.dynamic_config_record import (
    ANN_DYNAMIC_CONFIG,
    DynamicConfigRecord,
    read_record,
    record_text,
)
from spindle.config.inputs import broker_settings
from spindle.model import objects
from spindle.model.actions import Patch, Tune
from spindle.model.config_values import ConfigValues
from spindle.model.plan_builder import PlanBuilder
from spindle.model.requests import RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, some

_REJECTED_AFTER: Final = (
    30.0  # seconds; most configs apply at once, so a config that has not applied by then was rejected
)
_RESTART_AFTER: Final = 180.0  # seconds; a config that has not applied by then is applied by a restart


def reconcile_dynamic_config(
    state: ClusterState, builder: PlanBuilder, wanted: dict[int, RestartRequest]
) -> None:
    """Set the configs of each running broker; request a restart for configs that apply only at the start."""
    for node_id, broker in state.brokers.items():
        pod, settings = state.pods.get(node_id), broker_settings(state, broker)
        standing = state.kafka.standing.get(node_id)
        if (
            pod is None
            or settings is None
            or broker["spec"].get("leaving")  # its dynamic configs are being reverted
            or standing is None
            or objects.deleting(pod)
            or not objects.kafka_runs(pod)
        ):
            continue
        record = read_record(broker)
        changes = config_changes(settings, standing, record.settings, record.before)
        late = _late(state, settings, standing, record, changes)
        # Only a restart with the new file applies these, and only after a second attempt: the first request may never have arrived.
        # A number of threads changes in steps: a broker that has applied one step since is making progress.
        refused = frozenset(key for key in late if record.again.get(key) == changes.orders[key])
        _apply(state, builder, broker, standing, changes, late, refused)
        restart = (*changes.restart, *refused)
        if restart:
            why = f"{some(sorted(restart))} changed, which needs a restart"
            wanted.setdefault(node_id, RestartRequest("SpecChanged", why))
        for key in _rejected(state, standing, record, changes):
            builder.wait(_rejection(broker, key, changes.ours[key]))
        for key, (found, asked) in changes.by_hand.items():
            builder.wait(_by_hand(broker, key, found, asked))
    reconcile_defaults(state, builder, state.spec.config)


def _late(
    state: ClusterState,
    settings: Mapping[str, str],
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    changes: ConfigChanges,
) -> frozenset[str]:
    """Configs that a broker has not applied in time.

    Only configs that a restart would apply count, not those that are being reverted to the file that the broker was started with.
    """
    if record.since is None or state.now - record.since <= _RESTART_AFTER:
        return frozenset()
    return frozenset(
        key
        for key, value in changes.orders.items()
        if value is not None
        and key in settings
        and standing[key].static != settings[key]
        and record.settings.get(key) == settings[key]
    )


def _rejected(
    state: ClusterState,
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    changes: ConfigChanges,
) -> list[str]:
    """Configs that were set on a broker a while ago and of which it has applied nothing."""
    if record.since is None or state.now - record.since <= _REJECTED_AFTER:
        return []
    return [
        key
        for key, value in changes.orders.items()
        if value is not None
        and record.settings.get(key) == changes.ours.get(key)
        and standing[key].own in (None, record.before.get(key))
    ]


def put_back(state: ClusterState, builder: PlanBuilder) -> bool:
    """Revert Spindle's dynamic configs before the cluster is deleted. True when none is left that can be reverted.

    A broker that does not apply it or does not answer is waited for for a while; then its record is kept on its claims, for the next cluster
    that uses these disks.
    """
    each = [put_back_on(state, builder, node_id, broker) for node_id, broker in state.brokers.items()]
    clean = all(each)
    # The record of the cluster-wide defaults outlives the cluster in any case.
    if state.kafka.standing and not reconcile_defaults(state, builder, {}):
        wait = _left(state.cluster, sorted(ON_CLUSTER))
        builder.wait(wait)
        clean = clean and state.waited(wait.key) > _RESTART_AFTER
    return clean


def put_back_on(state: ClusterState, builder: PlanBuilder, node_id: int, broker: SnapshotObject) -> bool:
    """Revert Spindle's dynamic configs of one broker that is about to be removed. True when none is left that can be reverted."""
    record, standing = read_record(broker), state.kafka.standing.get(node_id)
    if not record.settings or node_id not in state.pods:
        return True
    orders = (
        config_changes({}, standing, record.settings, record.before).orders if standing is not None else {}
    )
    if standing is not None and not orders:
        builder.do(_note(broker, DynamicConfigRecord(), state.now))
        return False
    if not wait_for_revert(state, builder, broker, sorted(record.settings)):
        return True
    if orders:
        builder.do(Tune(broker=node_id, values=orders))
    return False


def wait_for_revert(
    state: ClusterState, builder: PlanBuilder, broker: SnapshotObject, keys: Sequence[str]
) -> bool:
    """Whether a broker that is about to be removed still waits until these dynamic configs are reverted: for three minutes at most."""
    wait = _left(broker, keys)
    builder.wait(wait)
    return state.waited(wait.key) <= _RESTART_AFTER


def _left(owner: SnapshotObject, keys: Sequence[str]) -> Waiting:
    name = objects.name(owner)
    return Waiting(
        "PutBack",
        f"{owner['kind']}/{name}",
        "DynamicConfigNotReverted",
        f"{name} is not removed yet: its dynamic {'config' if len(keys) == 1 else 'configs'} {some(keys)} must be reverted first.",
        "Nothing to do: Spindle continues when Kafka has reverted them, or after three minutes. In the latter case the record of them is kept on "
        "the claims or on the identity record.",
        quiet=True,
    )


def _apply(
    state: ClusterState,
    builder: PlanBuilder,
    broker: SnapshotObject,
    standing: Mapping[str, ConfigValues],
    changes: ConfigChanges,
    late: frozenset[str],
    refused: frozenset[str],
) -> None:
    """Record first, then set: if the operator is interrupted, the record still shows which configs Spindle has set."""
    record = read_record(broker)
    ours = {**record.settings, **changes.ours} if changes.orders else dict(changes.ours)
    unchanged = ours == dict(record.settings)
    again = {
        key: value
        for key, value in changes.orders.items()
        if value is not None and unchanged and (key in late or record.again.get(key) == value)
    }
    following = DynamicConfigRecord(ours, _before(standing, record, ours, changes), again=again)
    noted = [] if following.same(record) else [_note(broker, following, state.now)]
    orders = {key: value for key, value in changes.orders.items() if key not in refused}
    # Kafka applies all configs of a request or none, so the second attempt sends each one by itself.
    each = [{key: value} for key, value in orders.items()] if following.again else [orders] if orders else []
    sent = [_order(broker, values) for values in each]
    # A second attempt is recorded after it was made, because a restart depends on it.
    repeated = following.again.items() - record.again.items()
    builder.do(*sent, *noted) if repeated else builder.do(*noted, *sent)


def _before(
    standing: Mapping[str, ConfigValues],
    record: DynamicConfigRecord,
    ours: Mapping[str, str],
    changes: ConfigChanges,
) -> dict[str, str]:
    """Values that Spindle has set and that are about to change: they stay on record in case the request is lost or rejected."""
    found = {}
    for key in ours.keys() & changes.orders.keys():
        own = standing[key].own
        if own is None or own == ours[key]:
            continue
        if ours[key] != record.settings.get(key):
            found[key] = own
        elif key in record.before:
            found[key] = record.before[key]
    return found


def _order(broker: SnapshotObject, values: Mapping[str, str | None]) -> Tune:
    text = ", ".join(
        f"{key}={value}" if value is not None else f"{key} to the value in its file"
        for key, value in values.items()
    )
    message = f"Setting configs of {objects.name(broker)} without a restart: {text}."
    return Tune(broker=int(broker["spec"]["id"]), values=values, reason="ConfigApplied", message=message)


def _note(broker: SnapshotObject, record: DynamicConfigRecord, now: float) -> Patch:
    body = {"metadata": {"annotations": {ANN_DYNAMIC_CONFIG: record_text(record, now)}}}
    return Patch(kind="KafkaBroker", name=objects.name(broker), uid=objects.uid(broker), body=body)


def _rejection(broker: SnapshotObject, key: str, value: str) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        "Configure",
        f"KafkaBroker/{name}/{key}",
        "DynamicConfigRejected",
        f"{name} has not applied {key}={value}, nor the other configs of the same request. The event TuneFailed shows Kafka's error message.",
        f"Correct {key} in the spec, or remove it. Otherwise Spindle restarts {name} with it after some minutes.",
    )


def _by_hand(broker: SnapshotObject, key: str, found: str, asked: str) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        "Configure",
        f"KafkaBroker/{name}/{key}",
        "ConfigOverridden",
        f"Another client set {key} of {name} to {found} dynamically; the spec says {asked}. Spindle does not overwrite it.",
        f"Delete it with kafka-configs.sh --alter --delete-config {key} (--entity-type brokers, with --entity-name "
        f"{broker['spec']['id']} or --entity-default), or set {key} to {found} in the spec.",
    )
