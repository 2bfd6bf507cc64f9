"""Cluster-wide default configs from the spec: recorded in the identity ConfigMap, then set dynamically, and restored when removed from the spec."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from spindle.api import names
from spindle.config.defaults import Default, default_changes
from spindle.config.dynamic_config import UNCLEAN
from spindle.config.dynamic_config_record import ANN_DYNAMIC_CONFIG
from spindle.model import objects
from spindle.model.actions import Patch, Tune
from spindle.model.config_values import ConfigValues
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting

_KEYS: Final = ("value", "before", "former")
_QUIET_SECONDS: Final = 30.0


def reconcile_defaults(state: ClusterState, builder: PlanBuilder, explicit: Mapping[str, str]) -> bool:
    """Set the defaults that the spec names, restore those that it no longer names. True when none of them is left to restore.

    Args:
        state, builder: of this pass.
        explicit: key → value from the spec; empty when the cluster is deleted.
    """
    record = state.config_maps.get(names.identity_map(state.name))
    if record is None:
        return True
    ours, current = _read(record), _current(state)
    if current is None:
        return not ours
    found = default_changes(explicit, current, ours)
    if dict(found.ours) != ours:
        builder.do(_note(record, found.ours))
    if found.orders:
        text = ", ".join(
            f"{key}={value}" if value is not None else f"{key} to its previous value"
            for key, value in found.orders.items()
        )
        message = f"Setting cluster-wide defaults without a restart: {text}."
        builder.do(Tune(broker=None, values=found.orders, reason="ConfigApplied", message=message))
    if found.orders and dict(found.ours) == ours:  # set in an earlier pass, and Kafka does not have it
        builder.wait(*_rejected(state, found.orders))
    for key, (now, want) in found.by_hand.items():
        builder.wait(_by_hand(state, key, now, want))
    if current[UNCLEAN].shared == "true" and UNCLEAN not in explicit and UNCLEAN not in found.orders:
        builder.wait(_unclean(state))
    return not found.ours


def _current(state: ClusterState) -> Mapping[str, ConfigValues] | None:
    """The current defaults, as any broker reports them."""
    first = next((state.kafka.standing[node] for node in sorted(state.kafka.standing)), None)
    return first if first is not None and UNCLEAN in first else None


def _read(record: SnapshotObject) -> dict[str, Default]:
    """The defaults that Spindle has set; empty if the record cannot be read, so that no user's default is mistaken for Spindle's."""
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


def _rejected(state: ClusterState, orders: Mapping[str, str | None]) -> Iterator[Waiting]:
    """A wait for each default that was set and is not in effect; quiet at first, as the request may just have been sent."""
    for key, value in orders.items():
        if value is None:
            continue
        wait = Waiting(
            "Configure",
            f"KafkaCluster/{state.name}/{key}",
            "DynamicConfigRejected",
            f"Kafka has not applied the cluster-wide default {key}={value}, nor the other defaults of the same request. "
            "The event TuneFailed shows Kafka's error message.",
            f"Correct {key} in the spec, or remove it.",
            quiet=True,
        )
        yield replace(wait, quiet=state.waited(wait.key) <= _QUIET_SECONDS)


def _by_hand(state: ClusterState, key: str, now: str, want: str) -> Waiting:
    return Waiting(
        "Configure",
        f"KafkaCluster/{state.name}/{key}",
        "ConfigOverridden",
        f"Another client set the cluster-wide default {key} to {now}; the spec says {want}. Spindle does not overwrite it.",
        f"Run: kafka-configs.sh --alter --add-config {key}={want} --entity-type brokers --entity-default. Or set {key} to {now} in the spec.",
    )


def _unclean(state: ClusterState) -> Waiting:
    return Waiting(
        "Configure",
        f"KafkaCluster/{state.name}/{UNCLEAN}",
        "UncleanElectionsEnabled",
        f"{UNCLEAN} is true for the whole cluster, and the spec does not set it: a replica that lacks acknowledged records may be elected.",
        f"Run: kafka-configs.sh --alter --delete-config {UNCLEAN} --entity-type brokers --entity-default. Or set {UNCLEAN} in the spec.",
    )
