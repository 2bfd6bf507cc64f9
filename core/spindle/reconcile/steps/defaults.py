"""The cluster's defaults of the spec: set while Kafka runs, noted on the birth record before, and put back when they leave the spec."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.defaults import Default, default_changes
from spindle.cluster.dynamic_config import UNCLEAN, ConfigValues
from spindle.cluster.waiting import Waiting
from spindle.reconcile import objects
from spindle.reconcile.actions import Patch, Tune
from spindle.reconcile.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState

_KEYS: Final = ("value", "before", "former")
_TAKEN_SOON: Final = 30.0


def reconcile_defaults(state: ClusterState, builder: PlanBuilder, explicit: Mapping[str, str]) -> bool:
    """Set what is named, put back what is named no more. True when nothing of ours is left to put back.

    Args:
        state, builder: of this pass.
        explicit: what the spec says; nothing when the cluster goes.
    """
    record = state.config_maps.get(names.identity_map(state.name))
    if record is None:
        return True
    ours, told = _read(record), _told(state)
    if told is None:
        return not ours
    found = default_changes(explicit, told, ours)
    if dict(found.ours) != ours:
        builder.do(_note(record, found.ours))
    if found.orders:
        text = ", ".join(
            f"{key}={value}" if value is not None else f"{key} as it was"
            for key, value in found.orders.items()
        )
        message = f"The cluster gets {text}, without a restart."
        builder.do(Tune(broker=None, values=found.orders, reason="ConfigApplied", message=message))
    if found.orders and dict(found.ours) == ours:  # it was told before, and Kafka does not have it
        builder.wait(*_not_taken(state, found.orders))
    for key, (now, want) in found.by_hand.items():
        builder.wait(_by_hand(state, key, now, want))
    if told[UNCLEAN].shared == "true" and UNCLEAN not in explicit and UNCLEAN not in found.orders:
        builder.wait(_unclean(state))
    return not found.ours


def _told(state: ClusterState) -> Mapping[str, ConfigValues] | None:
    """The defaults, which any broker can tell."""
    first = next((state.kafka.standing[node] for node in sorted(state.kafka.standing)), None)
    return first if first is not None and UNCLEAN in first else None


def _read(record: SnapshotObject) -> dict[str, Default]:
    """What is ours; nothing where that cannot be read, so that nothing is taken for ours."""
    try:
        noted: Any = json.loads(objects.annotation(record, ANN_DYNAMIC_CONFIG) or "{}")
        return {str(key): Default(*(entry.get(name) for name in _KEYS)) for key, entry in noted.items()}
    except (ValueError, AttributeError):
        return {}


def _note(record: SnapshotObject, ours: Mapping[str, Default]) -> Patch:
    noted = {
        key: {name: value for name in _KEYS if (value := getattr(entry, name)) is not None}
        for key, entry in ours.items()
    }
    body = {
        "metadata": {
            "annotations": {ANN_DYNAMIC_CONFIG: json.dumps(noted, sort_keys=True) if noted else None}
        }
    }
    return Patch(kind="ConfigMap", name=objects.name(record), uid=objects.uid(record), body=body)


def _not_taken(state: ClusterState, orders: Mapping[str, str | None]) -> Iterator[Waiting]:
    """A word for each value that the cluster was told and has not taken; quiet for a while, as it may have been told this very moment."""
    for key, value in orders.items():
        if value is None:
            continue
        wait = Waiting(
            "Configure",
            f"KafkaCluster/{state.name}/{key}",
            "DynamicConfigRejected",
            f"The cluster was told {key}={value} as its default and has not taken it, nor what it was told with it. The event TuneFailed has Kafka's words.",
            f"Correct {key} in the spec, or take it out.",
            quiet=True,
        )
        yield replace(wait, quiet=state.waited(wait.key) <= _TAKEN_SOON)


def _by_hand(state: ClusterState, key: str, now: str, want: str) -> Waiting:
    return Waiting(
        "Configure",
        f"KafkaCluster/{state.name}/{key}",
        "ConfigOverridden",
        f"{key} was set to {now} for the whole cluster by somebody else; the spec says {want}. It is left as it is.",
        f"kafka-configs.sh --alter --add-config {key}={want} --entity-type brokers --entity-default, or write {now} into the spec.",
    )


def _unclean(state: ClusterState) -> Waiting:
    return Waiting(
        "Configure",
        f"KafkaCluster/{state.name}/{UNCLEAN}",
        "UncleanElectionsEnabled",
        f"{UNCLEAN} is true for the whole cluster, and the spec does not name it: a replica that lacks acknowledged records may be elected.",
        f"kafka-configs.sh --alter --delete-config {UNCLEAN} --entity-type brokers --entity-default, or write it into the spec.",
    )
