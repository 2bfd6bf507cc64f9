"""The topic of the samples: created once, spread over racks, with its configs kept as in the spec; and which agents publish to it.

An annotation of the identity ConfigMap, which outlives the KafkaCluster as the data does, marks the topic as Spindle's own. It is written
before the topic is created, so that a topic which existed before is never treated as Spindle's.
"""

from collections.abc import Mapping
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Action, CreateTopic, Patch, SetConfigs
from spindle.model.broker_records import BrokerRecords
from spindle.model.plan_builder import PlanBuilder
from spindle.model.racks import PlacementError
from spindle.model.state import ClusterState
from spindle.model.view import CLEANUP_POLICY, MAX_MESSAGE_BYTES, RETENTION_BYTES, RETENTION_MS, Partition
from spindle.model.waiting import Waiting, counted
from spindle.planner.assign import assign

ANN_SAMPLES: Final = f"{names.GROUP}/samples-topic"  # of the identity record: Spindle created the topic
_COPIES: Final = 3
_PARTITIONS: Final = 12  # at most: as many readers as a job may have
_LARGEST: Final = 1_048_588  # bytes of a record, Kafka's own default; the agents keep below it
_SEGMENT: Final = 16 * 1024 * 1024  # bytes: Kafka deletes whole segments
_MIN_ISR: Final = "min.insync.replicas"
_HOUR: Final = 3_600_000
# Set once, on creation: the passes do not read these configs.
_FIXED: Final = {
    "compression.type": "producer",  # the records are compressed
    "message.timestamp.type": "LogAppendTime",  # the broker's time: readers compare it with an agent's clock
    "segment.bytes": str(_SEGMENT),
    "segment.ms": str(24 * _HOUR),
}


def reconcile_samples(
    state: ClusterState, builder: PlanBuilder, records: BrokerRecords
) -> tuple[Action, ...]:
    """Set whether the agents publish samples; returns the actions on the topic, for the end of the pass."""
    if not state.spec.rebalance.sampled:
        _set_interval(state, records, None)
        return ()
    view = state.kafka
    if view.partitions is None:
        return ()  # the agents keep their setting
    partitions = [each for each in view.partitions if each.topic == names.TOPIC_SAMPLES]
    ours = _noted(state)
    if partitions and not ours:
        _set_interval(state, records, None)
        builder.wait(Waiting.of("PublishSamples", f"KafkaCluster/{state.name}", _not_ours()))
        return ()
    if not partitions:
        _set_interval(state, records, None)
        return _make(state, builder, noted=ours)
    _set_interval(state, records, state.spec.rebalance.samples.interval_seconds)
    return _keep(state, partitions)


def _set_interval(state: ClusterState, records: BrokerRecords, interval: int | None) -> None:
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
        message=f"Topic {names.TOPIC_SAMPLES} exists, and Spindle did not create it. Spindle does not touch it, and no samples are published.",
        unblocked_by="Delete the topic if it is not needed; Spindle then creates its own. Or turn off rebalance.samples.",
    )


def _make(state: ClusterState, builder: PlanBuilder, *, noted: bool) -> tuple[Action, ...]:
    """Mark the topic as Spindle's, and create it in the next pass, once enough brokers run to spread it over all its racks."""
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
    except PlacementError:  # some brokers with a rack and some without; another step reports that
        rows = assign(dict.fromkeys(live), min(_PARTITIONS, len(state.brokers)), copies)
    settings = {**_FIXED, **_settings(state, len(rows), copies)}
    return (
        CreateTopic(
            topic=names.TOPIC_SAMPLES,
            assignments=tuple(map(tuple, rows)),
            configs=settings,
            reason="SamplesTopicCreated",
            message=f"Created topic {names.TOPIC_SAMPLES} with {counted(len(rows), 'partition')} and replication factor {copies}.",
        ),
    )


def _too_few(state: ClusterState, live: int, copies: int) -> Waiting:
    return Waiting(
        "PublishSamples",
        f"KafkaCluster/{state.name}",
        "WaitingForBrokers",
        f"Topic {names.TOPIC_SAMPLES} needs {counted(copies, 'replica')}, spread over the cluster's racks; "
        f"{counted(live, 'broker')} {'is' if live == 1 else 'are'} available now.",
        "Nothing to do: Spindle continues when more brokers run.",
        quiet=True,
    )


def _settings(state: ClusterState, partitions: int, copies: int) -> dict[str, str]:
    """The topic's configs by the spec."""
    samples = state.spec.rebalance.samples
    return {
        CLEANUP_POLICY: "delete",
        RETENTION_MS: str(samples.retention_hours * _HOUR),
        RETENTION_BYTES: str(samples.bytes // partitions),  # Kafka counts by partition
        MAX_MESSAGE_BYTES: str(_LARGEST),
        _MIN_ISR: str(max(1, copies - 1)),
    }


def _keep(state: ClusterState, partitions: list[Partition]) -> tuple[Action, ...]:
    """Correct configs that differ from the spec; those that could not be read stay as they are."""
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
            message=f"Set {names_of} of topic {names.TOPIC_SAMPLES} to the values of the spec.",
        ),
    )


def _found(state: ClusterState) -> Mapping[str, str | None]:
    """The topic's configs now, as far as they were read."""
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
