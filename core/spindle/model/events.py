"""What a plan consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spindle.model.actions import Action


@dataclass(frozen=True)
class Event:
    """One Kubernetes event of the pass itself; actions have their own.

    Attributes:
        type: ``Normal`` or ``Warning``.
        kind, name, uid: the object it regards.
    """

    type: str
    reason: str
    message: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class ReconcilePlan:
    """What one pass wants.

    Attributes:
        actions: in the order of execution.
        status: the KafkaCluster's new status, without ``takingDown``.
        broker_statuses: KafkaBroker name → status.
        user_statuses: KafkaUser name → status.
        rebalance_statuses: KafkaRebalance name → status, of those that are not finished.
        finished: the KafkaCluster is being deleted and nothing is left to do.
        settled: nothing was done and nothing is held back.
    """

    actions: tuple[Action, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    broker_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    user_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rebalance_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    finished: bool = False
    settled: bool = False
