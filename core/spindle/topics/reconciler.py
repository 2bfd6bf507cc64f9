"""KafkaTopics: topics that Spindle creates, takes over, grows, keeps as their specs say, and deletes only by the id on record.

Nothing happens to a topic without a KafkaTopic, nor to one whose id is not the one in the KafkaTopic's status. Before a topic is created, a hash of its
replicas is written on its KafkaTopic: a new topic with just these is the one that Spindle created, also if the operator was replaced in between.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from spindle.api import names
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import objects
from spindle.model.actions import ConfigureTopic
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.view import Partition
from spindle.model.waiting import Waiting, counted
from spindle.moves.journal import Journal
from spindle.moves.requests import MoveRequests
from spindle.topics.creation import create_topic, grow_topic
from spindle.topics.deletion import delete_topic
from spindle.topics.observed import ObservedTopics, differing
from spindle.topics.replication import ReplicaChanges, age, owners_of
from spindle.topics.topic_pass import (
    CHANGING,
    DELETING,
    PENDING,
    READY,
    REJECTED,
    STALLED,
    TAKEN,
    TopicPass,
    TopicVerdict,
    disown,
    finalize,
    finalizers,
    invalid,
    keep_finalizer,
    made_by_us,
    rejected,
    tell,
    topic_status,
    unknown,
)
from spindle.topics.wanted import (
    MIN_ISR,
    WantedTopic,
    default_min_isr,
    settings_problems,
    topic_name,
    wanted,
)


def reconcile_topics(
    state: ClusterState,
    builder: PlanBuilder,
    inventory: DiskInventory,
    automatic: MoveRequests,
    replica_changes: ReplicaChanges,
    next_journal: Journal | None,
) -> dict[str, dict[str, Any]]:
    """Reconcile every KafkaTopic.

    Returns:
        KafkaTopic name → status.
    """
    if "kafkatopics" in state.snap.unknown:
        builder.wait(topics_unknown(state))
        return {}
    topics = sorted(state.snap.topics, key=age)
    holders: dict[str, set[str]] = {}
    for topic in topics:
        known = (topic.get("status") or {}).get("topicId")
        if known is not None and not objects.deleting(topic):
            holders.setdefault(str(known), set()).add(objects.name(topic))
    this = TopicPass(
        state,
        builder,
        inventory,
        automatic,
        next_journal,
        ObservedTopics(state.kafka),
        owners_of(state),
        replica_changes.verdicts,
        holders=holders,
    )
    statuses = {}
    turns = {name: number for number, (_, name) in enumerate(state.snap.rejected)}
    for topic in sorted(topics, key=lambda each: _turn(each, turns)):
        status = delete_topic(this, topic) if objects.deleting(topic) else _reconcile(this, topic)
        if status is not None:
            statuses[objects.name(topic)] = status
    return statuses


def release_topics(state: ClusterState, builder: PlanBuilder) -> bool:
    """Remove the finalizers from the KafkaTopics of a cluster that is being deleted: their topics stay, with its disks. True when none is left."""
    if "kafkatopics" in state.snap.unknown:
        builder.wait(topics_unknown(state))
        return False
    held = [topic for topic in state.snap.topics if names.FINALIZER_TOPIC in finalizers(topic)]
    for topic in held:
        builder.do(finalize(topic, wanted=False))
    return not held


def topics_unknown(state: ClusterState) -> Waiting:
    """The wait while KafkaTopics cannot be listed."""
    return Waiting(
        "ReconcileTopics",
        f"KafkaCluster/{state.name}",
        "TopicsUnknown",
        "The cluster's KafkaTopics could not be listed, so Spindle changes no topic for them, and lets none of them go.",
        "Check that the API server answers, that the chart's CRD for KafkaTopics is installed, and that the operator's role may list them.",
    )


def unsettled_topics(statuses: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether some topic is being created, changed or deleted, so that the next pass must follow soon."""
    return any(
        status["conditions"][0]["reason"] in (PENDING, CHANGING, DELETING) for status in statuses.values()
    )


def _turn(topic: SnapshotObject, rejected: Mapping[str, int]) -> tuple[bool, int]:
    """Sort key: what Kafka rejected comes last, and of that what it rejected last, so that it takes no turns of others.

    Args:
        topic: the KafkaTopic.
        rejected: the topic's name → number, in the order in which Kafka rejected them.
    """
    told = (objects.condition(topic, "Ready") or {}).get("reason")
    number = rejected.get(topic_name(topic), -1)
    return told == REJECTED or number >= 0, number


def _reconcile(this: TopicPass, topic: SnapshotObject) -> dict[str, Any]:
    want = wanted(topic, this.version)
    if want.problems:
        return topic_status(this, topic, want.name, TopicVerdict("InvalidSpec", " ".join(want.problems)))
    owner = this.owners[want.name]
    if owner is not topic:
        keep_finalizer(this, topic, wanted=False)
        return topic_status(this, topic, want.name, _second(want.name, objects.name(owner)), ours=False)
    if not this.observed.known or this.journal is None:
        return topic_status(this, topic, want.name, unknown(this))
    if not this.observed.partitions(want.name):
        return create_topic(this, topic, want)
    ours, why = _is_ours(this, topic, want.name, adopt=want.spec.adopt)
    if not ours:
        disown(this, topic)
        return topic_status(this, topic, want.name, TopicVerdict(TAKEN, why), ours=False)
    if why:
        tell(this, topic, "TopicAdopted", why)
    keep_finalizer(this, topic, wanted=want.spec.deletion_policy == "Delete")
    return _keep(this, topic, want)


def _second(name: str, owner: str) -> TopicVerdict:
    return TopicVerdict(
        TAKEN,
        f"KafkaTopic {owner}, which is older, has topic {name} of this cluster already, so Spindle does nothing for this one. "
        f"To resolve: delete one of the two, or create a KafkaTopic with another spec.topicName.",
    )


def _is_ours(this: TopicPass, topic: SnapshotObject, name: str, *, adopt: bool) -> tuple[bool, str]:
    """Whether an existing topic is this KafkaTopic's; why not, or how it became so."""
    found, before = this.observed.id(name), topic.get("status") or {}
    known = before.get("topicId")
    if known is not None and known == found:
        return True, ""
    if made_by_us(this, topic, name):
        return True, ""
    if adopt:
        return True, f"Took over topic {name}, which existed already."
    if known is not None:
        why = f"topic {name} was deleted, and somebody else created another one of that name: its id is {found}, and the one on record {known}"
    else:
        why = f"topic {name} exists already, and this KafkaTopic did not create it"
    return False, (
        f"{why[0].upper()}{why[1:]}. Spindle does not touch it. "
        "To resolve: set spec.adopt to true to take it over as it is, or create a KafkaTopic with another spec.topicName."
    )


def _keep(this: TopicPass, topic: SnapshotObject, want: WantedTopic) -> dict[str, Any]:
    """Bring an existing topic to its spec."""
    partitions = this.observed.partitions(want.name)
    rows = [grow_topic(this, want, partitions), _replicas(this, topic, want, partitions)]
    config, row = _configure(this, topic, want)
    rows.append(row)
    due = [each for each in rows if each is not None]
    # What waits for a user is told before what goes on by itself.
    row = next(
        (each for each in due if each.reason in STALLED),
        due[0] if due else TopicVerdict(READY, "The topic is as its spec says."),
    )
    return topic_status(this, topic, want.name, row, ours=True, config=config)


def _replicas(
    this: TopicPass, topic: SnapshotObject, want: WantedTopic, partitions: Sequence[Partition]
) -> TopicVerdict | None:
    """What is said of the replication factor; None if it is as asked for."""
    said = this.replicas.get(want.name)
    if said is not None:
        return said
    wish = want.spec.replicas
    found = {partition.recorded_rf for partition in partitions}
    if wish is None or found == {wish} or want.name in this.dropped:
        if (objects.condition(topic, "Ready") or {}).get("reason") == CHANGING and found == {wish}:
            tell(
                this,
                topic,
                "ReplicasChanged",
                f"{counted(len(partitions), 'partition')} of topic {want.name} {'has' if len(partitions) == 1 else 'have'} {counted(wish or 0, 'replica')}.",
            )
        return None
    return TopicVerdict(PENDING, f"Topic {want.name} will have {counted(wish, 'replica')}.")


def _configure(
    this: TopicPass, topic: SnapshotObject, want: WantedTopic
) -> tuple[dict[str, Any], TopicVerdict | None]:
    """Set what differs from the spec, and remove what Spindle set and the spec no longer has. Returns the status of the settings, and why they differ."""
    before = list((topic.get("status") or {}).get("config") or ())
    own, settings = (this.state.kafka.managed or {}).get(want.name), want.spec.config
    replicas = min(partition.recorded_rf for partition in this.observed.partitions(want.name))
    # What a dead disk takes away for a while says nothing about the spec.
    wish = max(replicas, want.spec.replicas or replicas)
    known = None if want.name in this.dropped else wish
    if together := settings_problems(settings, this.version, known):
        return {"config": before}, invalid(together)
    if own is None:
        return {"config": sorted({*before, *settings})}, TopicVerdict(
            "KafkaUnknown", "Kafka did not report the topic's settings."
        )
    held = this.held.get(want.name, frozenset())
    # While replicas are added, min.insync.replicas does not rise: producers with acks=all have to be able to write meanwhile.
    least = (this.state.kafka.min_isr or {}).get(want.name, 1)
    asked = settings.get(MIN_ISR) or default_min_isr(this.state.spec.config, this.state.broker_count)
    later = {MIN_ISR} if replicas < wish and int(asked) > least else set()
    drift = {
        key: now
        for key, now in differing(settings, own, this.version).items()
        if key not in held and key not in later
    }
    gone = [key for key in before if key not in settings and key in own and key not in held | later]
    kept = [key for key in before if key not in settings and (key in own or key in held)]
    status = {
        "config": sorted({*settings, *kept}),
        "drift": [
            {"key": key, "wanted": settings[key], **({} if drift[key] is None else {"found": drift[key]})}
            for key in sorted(drift)
        ],
        "held": sorted(held & settings.keys()),
    }
    if not drift and not gone:
        return status, None
    values: dict[str, str | None] = {key: settings[key] for key in sorted(drift)} | dict.fromkeys(gone)
    said = ", ".join(
        f"{key}={value}" if value is not None else f"{key} to its default" for key, value in values.items()
    )
    this.builder.do(
        ConfigureTopic(
            topic=want.name,
            values=values,
            reason="TopicConfigured",
            message=f"Set {said} of topic {want.name}.",
        )
    )
    refused = this.state.snap.rejected.get(("ConfigureTopic", want.name))
    if refused is not None:
        return status, rejected(want.name, refused)
    return status, TopicVerdict(PENDING, f"Settings of topic {want.name} are being set: {', '.join(values)}.")
