"""The user's settings that Kafka takes while it runs: told to the brokers, recorded before, and taken back when they are not wanted."""

import json
from collections.abc import Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.dynamic import Tuning, tune, tune_cluster
from spindle.cluster.refusal import some
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch, Tune
from spindle.reconcile.draft import Draft, Wait
from spindle.reconcile.inputs import broker_settings
from spindle.reconcile.snapshot import Object
from spindle.reconcile.state import State
from spindle.reconcile.steps.takedown import Wanted
from spindle.reconcile.times import seconds, stamp

# On a KafkaBroker: {"settings": {key: value}, "since": time} of the dynamic settings that are ours.
ANN_TUNED: Final = f"{names.GROUP}/tuned"
_TAKEN_WITHIN: Final = 180.0  # seconds; what a broker has not taken by then it is to take at its start


def settle_tuning(state: State, draft: Draft, wanted: dict[int, Wanted]) -> None:
    """Tell each running broker what it is to have, and have those restarted that take something only at their start."""
    for node_id, broker in state.brokers.items():
        pod, settings = state.pods.get(node_id), broker_settings(state, broker)
        standing = state.kafka.standing.get(node_id)
        if (
            pod is None
            or settings is None
            or standing is None
            or objects.deleting(pod)
            or not objects.kafka_runs(pod)
        ):
            continue
        record, since = _record(broker)
        tuning = tune(settings, standing, record)
        restart = tuning.restart
        if (
            tuning.orders
            and record == dict(tuning.ours)
            and since is not None
            and state.now - since > _TAKEN_WITHIN
        ):
            restart = (*restart, *(key for key, value in tuning.orders.items() if value is not None))
        elif tuning.orders or dict(tuning.ours) != record:
            _tell(state, draft, broker, tuning, record)
        if restart:
            why = f"{some(sorted(restart))} changed, which it does not take while it runs"
            wanted.setdefault(node_id, Wanted("SpecChanged", why))
        for key, (found, asked) in tuning.by_hand.items():
            draft.wait(_by_hand(broker, key, found, asked))
    _settle_cluster(state, draft)


def put_back(state: State, draft: Draft) -> bool:
    """Take away what is ours, before the cluster goes. True when nothing is left that can be taken away."""
    clean = True
    for node_id, broker in state.brokers.items():
        record, _ = _record(broker)
        standing = state.kafka.standing.get(node_id)
        if record and standing is not None:
            ours = {k: None for k, v in record.items() if k in standing and standing[k].own == v}
            if ours:
                draft.do(Tune(broker=node_id, values=ours))
            draft.do(_note(broker, {}, state.now))
            clean = False
    return clean


def _tell(state: State, draft: Draft, broker: Object, tuning: Tuning, record: Mapping[str, str]) -> None:
    """The record first: whatever is set must be known to be ours, whoever goes on from here."""
    node_id = int(broker["spec"]["id"])
    both = {**record, **tuning.ours}
    if both != dict(record):
        draft.do(_note(broker, both, state.now))
    if tuning.orders:
        told = ", ".join(
            f"{key}={value}" if value is not None else f"{key} as it was started with"
            for key, value in tuning.orders.items()
        )
        message = f"{objects.name(broker)} gets {told}, without a restart."
        draft.do(Tune(broker=node_id, values=tuning.orders, reason="ConfigApplied", message=message))
    elif dict(tuning.ours) != dict(record):
        draft.do(_note(broker, tuning.ours, state.now))


def _note(broker: Object, settings: Mapping[str, str], now: float) -> Patch:
    text = json.dumps({"settings": dict(settings), "since": stamp(now)}, sort_keys=True) if settings else None
    body = {"metadata": {"annotations": {ANN_TUNED: text}}}
    return Patch(kind="KafkaBroker", name=objects.name(broker), uid=objects.uid(broker), body=body)


def _record(broker: Object) -> tuple[dict[str, str], float | None]:
    """What is ours on a broker, and since when; nothing where the record cannot be read, so that nothing is taken for ours."""
    try:
        record: Any = json.loads(objects.annotation(broker, ANN_TUNED) or "{}")
        settings = {str(k): str(v) for k, v in record.get("settings", {}).items()}
        return settings, seconds(record.get("since"))
    except (ValueError, AttributeError):
        return {}, None


def _settle_cluster(state: State, draft: Draft) -> None:
    """The cluster's defaults, which any broker can tell."""
    told = next((state.kafka.standing[node] for node in sorted(state.kafka.standing)), None)
    if told is None:
        return
    values = tune_cluster(state.spec.config, told)
    if values:
        text = ", ".join(f"{key}={value}" for key, value in values.items())
        message = f"The cluster gets {text}, without a restart."
        draft.do(Tune(broker=None, values=values, reason="ConfigApplied", message=message))


def _by_hand(broker: Object, key: str, found: str, asked: str) -> Wait:
    name = objects.name(broker)
    return Wait(
        "Configure",
        f"KafkaBroker/{name}/{key}",
        "SetByHand",
        f"{key} of {name} was set to {found} by somebody else while it ran; the spec says {asked}. It is left as it is.",
        f"Delete it with kafka-configs.sh --alter --delete-config {key} (--entity-type brokers, with --entity-name "
        f"{broker['spec']['id']} or --entity-default), or write the same into the spec.",
    )
