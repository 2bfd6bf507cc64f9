"""What a plan consists of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from spindle.model.actions import Action

MOST: Final = 500  # events of a pass


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


def summed_up(events: Sequence[Event], most: int = MOST) -> tuple[Event, ...]:
    """The events of a pass; of more than ``most`` the first, warnings before others, and for each reason one event that says how many there were.

    Each event is a request to the API server; what has no event of its own is in the status of its object.
    """
    if len(events) <= most:
        return tuple(events)
    ordered = sorted(events, key=lambda event: event.type != "Warning")
    rest: dict[tuple[str, str], list[Event]] = {}
    for event in ordered[most:]:
        rest.setdefault((event.type, event.reason), []).append(event)
    return (
        *ordered[:most],
        *(
            replace(
                group[0],
                message=f"{group[0].message} And {len(group) - 1} more; see the status of the KafkaBrokers and of the KafkaCluster.",
            )
            if len(group) > 1
            else group[0]
            for group in rest.values()
        ),
    )


@dataclass(frozen=True)
class ReconcilePlan:
    """What one pass wants.

    Attributes:
        actions: in the order of execution.
        status: the KafkaCluster's new status, without ``takingDown``.
        broker_statuses: KafkaBroker name → status.
        user_statuses: KafkaUser name → status.
        topic_statuses: KafkaTopic name → status.
        rebalance_statuses: KafkaRebalance name → status, of those that are not finished.
        finished: the KafkaCluster is being deleted and nothing is left to do.
        settled: nothing was done and nothing is held back.
    """

    actions: tuple[Action, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    broker_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    user_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topic_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rebalance_statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()
    finished: bool = False
    settled: bool = False
