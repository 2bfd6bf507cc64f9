"""New topics, and new partitions: with chosen places."""

from collections.abc import Sequence
from typing import Any

from spindle.api import names
from spindle.model.actions import AddPartitions, CreateTopic
from spindle.model.racks import PlacementError
from spindle.model.snapshot import SnapshotObject
from spindle.model.view import Partition
from spindle.model.waiting import counted
from spindle.moves.journal import Move
from spindle.topics.placement import Placement, place
from spindle.topics.topic_pass import (
    PENDING,
    TopicPass,
    TopicVerdict,
    finalizers,
    invalid,
    mark,
    patch,
    rejected,
    topic_status,
)
from spindle.topics.wanted import WantedTopic, defaults, settings_problems


def create_topic(this: TopicPass, topic: SnapshotObject, want: WantedTopic) -> dict[str, Any]:
    """Create the topic, or say what it waits for; returns the status."""
    state, spec = this.state, want.spec
    partitions, replicas = defaults(state.spec.config, state.broker_count)
    partitions, replicas = spec.partitions or partitions, spec.replicas or replicas
    if together := settings_problems(spec.config, this.version, replicas):
        return topic_status(this, topic, want.name, invalid(together), ours=False)
    if want.name in state.snap.created:
        row = TopicVerdict(
            PENDING, f"Topic {want.name} was created a moment ago; brokers do not report it yet."
        )
        return topic_status(this, topic, want.name, row, ours=False)
    said = state.snap.rejected.get(("CreateTopic", want.name))
    if (lack := _lack(this, replicas)) is not None:
        return topic_status(this, topic, want.name, lack, ours=False)
    if this.full(partitions):
        row = (
            TopicVerdict(
                PENDING, f"Topic {want.name} will be created after others: Spindle creates a few at a time."
            )
            if said is None
            else rejected(want.name, said)
        )
        return topic_status(this, topic, want.name, row, ours=False)
    placed = _placed(this, partitions, replicas)
    if isinstance(placed, TopicVerdict):
        return topic_status(this, topic, want.name, placed, ours=False)
    kept = finalizers(topic)
    if spec.deletion_policy == "Delete" and names.FINALIZER_TOPIC not in kept:
        kept = [*kept, names.FINALIZER_TOPIC]
    notes = {"annotations": {names.ANN_CREATING: mark(topic, placed.rows)}, "finalizers": kept}
    this.builder.do(
        CreateTopic(
            topic=want.name,
            assignments=placed.rows,
            configs=dict(spec.config),
            dirs=_placeable(want.name, placed.dirs),
            record=patch(topic, {"metadata": notes}),
            reason="TopicCreated",
            message=f"Created topic {want.name} with {counted(partitions, 'partition')} and replication factor {replicas}.",
        )
    )
    row = (
        TopicVerdict(PENDING, f"Topic {want.name} is being created.")
        if said is None
        else rejected(want.name, said)
    )
    return topic_status(this, topic, want.name, row, ours=False)


def grow_topic(this: TopicPass, want: WantedTopic, partitions: Sequence[Partition]) -> TopicVerdict | None:
    """Add partitions; None if there are enough."""
    wish, now = want.spec.partitions, len(partitions)
    if wish is None or wish == now:
        return None
    if wish < now:
        return TopicVerdict(
            "PartitionsCannotShrink",
            f"Topic {want.name} has {counted(now, 'partition')}, and spec.partitions is {wish}: Kafka cannot remove partitions. "
            f"To resolve: set spec.partitions to {now}, or create a topic with fewer and copy the records.",
        )
    replicas = _factor(this, want, partitions)
    if (lack := _lack(this, replicas)) is not None:
        return lack
    if this.full(wish - now):
        return TopicVerdict(PENDING, f"Topic {want.name} will get more partitions after others.")
    rows = [partition.replicas for partition in partitions]
    placed = _placed(this, wish - now, replicas, rows)
    if isinstance(placed, TopicVerdict):
        return placed
    this.builder.do(
        AddPartitions(
            topic=want.name,
            first=now,
            assignments=placed.rows,
            dirs=_placeable(want.name, placed.dirs),
            reason="PartitionsAdded",
            message=f"Added {counted(wish - now, 'partition')} to topic {want.name}, which had {now}.",
        )
    )
    said = this.state.snap.rejected.get(("AddPartitions", want.name))
    return (
        TopicVerdict(PENDING, f"Topic {want.name} gets {wish - now} more partitions.")
        if said is None
        else rejected(want.name, said)
    )


def _lack(this: TopicPass, replicas: int) -> TopicVerdict | None:
    """Why replicas cannot go anywhere now; None if there are brokers and racks enough."""
    rooms, state = this.rooms, this.state
    racks = {broker["spec"].get("rack") for broker in state.staying.values()}
    if len(rooms.brokers) >= replicas and len(set(rooms.racks.values())) >= min(replicas, len(racks)):
        return None
    several = f", spread over {counted(min(replicas, len(racks)), 'rack')}" if len(racks) > 1 else ""
    able = ", ".join(map(str, sorted(rooms.brokers))) or "none"
    return TopicVerdict(
        "WaitingForBrokers",
        f"{counted(replicas, 'replica')} of each partition{several} need as many brokers that run and have a log dir with room; these are: {able}. "
        f"The cluster has {counted(len(state.staying), 'broker')}. To resolve: start or add brokers, free space, or lower spec.replicas.",
    )


def _factor(this: TopicPass, want: WantedTopic, partitions: Sequence[Partition]) -> int:
    """Replicas of new partitions: as many as the others have, or fewer if the topic is about to have fewer."""
    most = max(partition.recorded_rf for partition in partitions)
    least = (this.state.kafka.min_isr or {}).get(want.name, most)
    return max(least, min(most, want.spec.replicas or most)) if least <= most else most


def _placed(
    this: TopicPass, partitions: int, replicas: int, before: Sequence[Sequence[int]] = ()
) -> Placement | TopicVerdict:
    """Where new partitions go, or why they cannot go anywhere now."""
    try:
        return place(this.rooms, partitions, replicas, before)
    except PlacementError as error:
        return TopicVerdict(
            "WaitingForBrokers",
            f"New replicas cannot be placed: {error}. To resolve: give all brokers a rack, or none.",
        )


def _placeable(name: str, dirs: Sequence[tuple[int, int, str]]) -> tuple[tuple[int, int, str], ...]:
    """The log dirs that Kafka lets one choose: not for partitions with very long names."""
    return tuple(each for each in dirs if Move(name, each[1], None, None, each[0], each[2], 0).placeable)
