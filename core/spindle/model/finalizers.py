"""Spindle's finalizer on a KafkaBroker."""

from typing import Any

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject


def drop_finalizer(builder: PlanBuilder, broker: SnapshotObject) -> None:
    """Remove Spindle's finalizer from a KafkaBroker."""
    finalizers: list[Any] = list(broker["metadata"].get("finalizers") or ())
    if names.FINALIZER in finalizers:
        builder.do(
            Patch(
                kind="KafkaBroker",
                name=objects.name(broker),
                uid=objects.uid(broker),
                resource_version=None,
                body={
                    "metadata": {"finalizers": [entry for entry in finalizers if entry != names.FINALIZER]}
                },
            )
        )
