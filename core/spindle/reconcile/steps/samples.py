"""The topic of the samples: made once, spread over racks, kept as the spec has it; and who publishes to it.

That the topic is Spindle's own stands at the identity record, which outlives the KafkaCluster like the data does. It is noted before
the topic is made, so that one which was there already is never taken for ours.
"""

from collections.abc import Mapping
from typing import Final

from spindle.cluster import names
from spindle.cluster.view import CLEANUP_POLICY, MAX_MESSAGE_BYTES, RETENTION_BYTES, RETENTION_MS, Partition
from spindle.cluster.waiting import Waiting, counted
from spindle.placement.assign import assign
from spindle.placement.racks import PlacementError
from spindle.reconcile import objects
from spindle.reconcile.actions import Action, CreateTopic, Patch, SetConfigs
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.brokers import BrokerRecords

ANN_SAMPLES: Final = f"{names.GROUP}/samples-topic"  # of the identity record: the topic was made by Spindle
_COPIES: Final = 3
_PARTITIONS: Final = 12  # at most: as many readers as a job may have
_LARGEST: Final = 1_048_588  # bytes of a record, Kafka's own default; the agents keep below it
_SEGMENT: Final = 16 * 1024 * 1024  # bytes: Kafka deletes whole segments
_MIN_ISR: Final = "min.insync.replicas"
_HOUR: Final = 3_600_000
# Set once; what is seen of topics in each pass does not hold them.
_FIXED: Final = {
    "compression.type": "producer",  # the records are compressed
    "message.timestamp.type": "LogAppendTime",  # Kafka's own time: by it readers see that an agent's clock is off
    "segment.bytes": str(_SEGMENT),
    "segment.ms": str(24 * _HOUR),
}


def reconcile_samples(
    state: ClusterState, builder: PlanBuilder, records: BrokerRecords
) -> tuple[Action, ...]:
    """Tell the agents whether to publish; returns what is to be done about the topic, at the end of the pass."""
    if not state.spec.rebalance.sampled:
        _tell(state, records, None)
        return ()
    view = state.kafka
    if view.partitions is None:
        return ()  # what the agents were told stands
    partitions = [each for each in view.partitions if each.topic == names.TOPIC_SAMPLES]
    ours = _noted(state)
    if partitions and not ours:
        _tell(state, records, None)
        builder.wait(Waiting.of("PublishSamples", f"KafkaCluster/{state.name}", _not_ours()))
        return ()
    if not partitions:
        _tell(state, records, None)
        return _make(state, builder, noted=ours)
    _tell(state, records, state.spec.rebalance.samples.interval_seconds)
    return _keep(state, partitions)


def _tell(state: ClusterState, records: BrokerRecords, interval: int | None) -> None:
    for broker_id, broker in state.brokers.items():
        if (broker["spec"].get("samplesEverySeconds") or None) != interval:
            records.note(broker_id, samplesEverySeconds=interval)


def _noted(state: ClusterState) -> bool:
    record = state.config_maps.get(names.identity_map(state.name))
    return record is not None and objects.annotation(record, ANN_SAMPLES) is not None


def _not_ours() -> Waiting:
    return Waiting.refused(
        rule=None,
        reason="TopicNotManaged",
        message=f"Topic {names.TOPIC_SAMPLES} is there, and Spindle has not made it. It is left alone, and no samples are published.",
        unblocked_by="Delete the topic if nobody needs it, and Spindle makes its own; or turn off rebalance.samples.",
    )


def _make(state: ClusterState, builder: PlanBuilder, *, noted: bool) -> tuple[Action, ...]:
    """Note that the topic is ours, and in the next pass make it: on as many racks as it is to stand on for good."""
    record = state.config_maps.get(names.identity_map(state.name))
    live = {
        broker.id: broker.rack for broker in (state.kafka.brokers or {}).values() if broker.fenced is False
    }
    copies = min(_COPIES, max(1, len(state.brokers)))
    racks = {broker["spec"].get("rack") for broker in state.brokers.values()}
    if record is None or len(live) < copies or len(set(live.values())) < min(copies, len(racks)):
        builder.wait(_too_few(state, len(live), copies))
        return ()
    if not noted:
        body = {"metadata": {"annotations": {ANN_SAMPLES: "made"}}}
        return (Patch(kind="ConfigMap", name=objects.name(record), uid=objects.uid(record), body=body),)
    try:
        rows = assign(live, min(_PARTITIONS, len(state.brokers)), copies)
    except PlacementError:  # some brokers with a rack and some without: that is told elsewhere
        rows = assign(dict.fromkeys(live), min(_PARTITIONS, len(state.brokers)), copies)
    settings = {**_FIXED, **_settings(state, len(rows), copies)}
    return (
        CreateTopic(
            topic=names.TOPIC_SAMPLES,
            assignments=tuple(map(tuple, rows)),
            configs=settings,
            reason="SamplesTopicCreated",
            message=f"Topic {names.TOPIC_SAMPLES} was made, with {counted(len(rows), 'partition')} of {copies} copies each.",
        ),
    )


def _too_few(state: ClusterState, live: int, copies: int) -> Waiting:
    return Waiting(
        "PublishSamples",
        f"KafkaCluster/{state.name}",
        "WaitingForBrokers",
        f"Topic {names.TOPIC_SAMPLES} is to be made with {copies} copies, on as many racks as there are for them; "
        f"{counted(live, 'broker')} can take one now.",
        "More brokers run.",
        quiet=True,
    )


def _settings(state: ClusterState, partitions: int, copies: int) -> dict[str, str]:
    """What holds for the topic, by the spec."""
    samples = state.spec.rebalance.samples
    return {
        CLEANUP_POLICY: "delete",
        RETENTION_MS: str(samples.retention_hours * _HOUR),
        RETENTION_BYTES: str(samples.bytes // partitions),  # Kafka counts by partition
        MAX_MESSAGE_BYTES: str(_LARGEST),
        _MIN_ISR: str(max(1, copies - 1)),
    }


def _keep(state: ClusterState, partitions: list[Partition]) -> tuple[Action, ...]:
    """Put right what is set otherwise; nothing is known of what could not be read."""
    wanted = _settings(state, len(partitions), min(each.recorded_rf for each in partitions))
    wrong = {key: wanted[key] for key, value in _found(state).items() if value != wanted[key]}
    if not wrong:
        return ()
    names_of = ", ".join(sorted(wrong))
    return (
        SetConfigs(
            target="topic",
            name=names.TOPIC_SAMPLES,
            values=wrong,
            reason="SamplesTopicSet",
            message=f"{names_of} of topic {names.TOPIC_SAMPLES}: as the spec has it.",
        ),
    )


def _found(state: ClusterState) -> Mapping[str, str | None]:
    """What is set now, as far as it was read."""
    view, topic = state.kafka, names.TOPIC_SAMPLES
    found: dict[str, str | None] = {}
    own = (view.settings or {}).get(("topic", topic))
    if own is not None:
        found |= {key: own.get(key) for key in (RETENTION_MS, RETENTION_BYTES, MAX_MESSAGE_BYTES)}
    holds = (view.topics or {}).get(topic)
    if holds is not None:
        found[CLEANUP_POLICY] = holds.get(CLEANUP_POLICY)
    least = (view.min_isr or {}).get(topic)
    if least is not None:
        found[_MIN_ISR] = str(least)
    return found
