"""What the steps for KafkaTopics share in one pass: what was observed, and the status, events and records of one KafkaTopic."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from spindle.api import names
from spindle.config.release import version_to_run
from spindle.config.settings import SettingProblem
from spindle.disks.disk_inventory import DiskInventory
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.condition_rows import as_conditions
from spindle.model.events import Event
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.moves.journal import Journal
from spindle.moves.requests import MoveRequests
from spindle.topics.observed import ObservedTopics, status_of
from spindle.topics.placement import Rooms
from spindle.topics.rooms import rooms_of

READY: Final = "SpecApplied"
PENDING: Final = "TopicPending"
CHANGING: Final = "ReplicasChanging"
TAKEN: Final = "NameTaken"
REJECTED: Final = "TopicRejected"
DELETING: Final = "Deleting"
STALLED: Final = frozenset({"InvalidSpec", TAKEN, "PartitionsCannotShrink", "ReplicasBelowMinIsr", REJECTED})
MOST_TOPICS: Final = 50  # that a pass creates or grows
MOST_PARTITIONS: Final = 2_000  # that it adds to them, unless one topic alone has more
INTERNAL: Final = "__"  # names of topics of Kafka and of Spindle begin with it
# In Kafka's error: it has created no topic. After others (a timeout, another controller) it may have.
_REFUSED: Final = (
    "TopicAlreadyExists",
    "PolicyViolation",
    "InvalidTopic",
    "InvalidConfiguration",
    "InvalidPartitions",
    "InvalidReplica",
    "AuthorizationFailed",
)
_OF_KAFKA: Final = (
    "topicId",
    "partitions",
    "replicas",
    "racks",
    "outOfPlace",
    "bytes",
    "config",
    "drift",
    "held",
)


@dataclass(frozen=True)
class TopicVerdict:
    """The conditions of a KafkaTopic.

    Attributes:
        reason: of ``Ready``, which is True for `READY` only.
    """

    reason: str
    message: str

    @property
    def ready(self) -> bool:
        """Whether the topic is as its spec says."""
        return self.reason == READY


@dataclass
class TopicPass:
    """What all KafkaTopics of a pass share."""

    state: ClusterState
    builder: PlanBuilder
    inventory: DiskInventory
    requests: MoveRequests
    journal: Journal | None
    observed: ObservedTopics
    owners: Mapping[str, SnapshotObject]
    replicas: Mapping[str, TopicVerdict] = field(default_factory=dict)
    topics: int = 0
    partitions: int = 0
    holders: Mapping[str, set[str]] = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        """The release that the cluster runs."""
        return version_to_run(self.state)

    @cached_property
    def rooms(self) -> Rooms:
        """What accepts new replicas; those that this pass places count."""
        return rooms_of(self.inventory, self.requests, self.journal or Journal())

    @cached_property
    def held(self) -> Mapping[str, frozenset[str]]:
        """Topic → settings of it that Spindle has replaced for a while, and restores."""
        found: dict[str, set[str]] = {}
        for entry in (self.journal or Journal()).settings:
            if entry.kind == "topic":
                found.setdefault(entry.name, set()).add(entry.key)
        return {name: frozenset(keys) for name, keys in found.items()}

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Topics of which replicas are dropped for a while."""
        return frozenset(entry.topic for entry in (self.journal or Journal()).dropped)

    def full(self, partitions: int) -> bool:
        """Whether this pass adds no more; else it counts them. To be asked last: what waits for something else must not hold up others."""
        if self.topics >= MOST_TOPICS or (self.topics and self.partitions + partitions > MOST_PARTITIONS):
            return True
        self.topics, self.partitions = self.topics + 1, self.partitions + partitions
        return False


def unknown(this: TopicPass) -> TopicVerdict:
    """The state of the topic could not be read."""
    why = this.state.kafka.error or (
        f"ConfigMap {names.moves_map(this.state.name)}, which says what Spindle changed for a while, cannot be read"
        if this.journal is None
        else "it did not report its topics"
    )
    return TopicVerdict(
        "KafkaUnknown", f"The state of the topic is unknown: {why}. Spindle changes nothing meanwhile."
    )


def rejected(name: str, said: str) -> TopicVerdict:
    """Kafka did not accept a change."""
    return TopicVerdict(
        REJECTED,
        f"The change of topic {name} failed: {said}. Spindle tries it again in each pass. To resolve: correct in the spec what Kafka rejects.",
    )


def invalid(found: Sequence[SettingProblem]) -> TopicVerdict:
    """The spec asks for settings that Kafka would reject."""
    return TopicVerdict(
        "InvalidSpec", " ".join(f"{each.message}. To resolve: {each.way_out}." for each in found)
    )


def made_by_us(this: TopicPass, topic: SnapshotObject, name: str) -> bool:
    """Whether this is the topic that Spindle was about to create: it has the very replicas, and Kafka did not say that it created none.

    The mark counts only for the id that was on record when it was made, so not any more once that of the new topic is; and not on a copy of the KafkaTopic.
    """
    noted = objects.annotation(topic, names.ANN_CREATING)
    said = this.state.snap.rejected.get(("CreateTopic", name), "")
    return (
        noted is not None
        and not any(error in said for error in _REFUSED)
        and noted == mark(topic, [p.replicas for p in this.observed.partitions(name)])
    )


def mark(topic: SnapshotObject, rows: Sequence[Sequence[int]]) -> str:
    """A hash of a new topic's replicas, of the KafkaTopic's uid, and of the id that was on record before."""
    known = (topic.get("status") or {}).get("topicId")
    text = json.dumps([objects.uid(topic), known, *map(list, rows)])
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def tell(this: TopicPass, topic: SnapshotObject, reason: str, message: str) -> None:
    """An event of a KafkaTopic."""
    this.builder.events.append(
        Event("Normal", reason, message, "KafkaTopic", objects.name(topic), objects.uid(topic))
    )


def finalizers(topic: SnapshotObject) -> list[str]:
    """All finalizers of a KafkaTopic."""
    return list(topic["metadata"].get("finalizers") or ())


def keep_finalizer(this: TopicPass, topic: SnapshotObject, *, wanted: bool) -> None:
    """Add Spindle's finalizer, or remove it, unless it is so already."""
    if (names.FINALIZER_TOPIC in finalizers(topic)) != wanted:
        this.builder.do(finalize(topic, wanted=wanted))


def disown(this: TopicPass, topic: SnapshotObject) -> None:
    """Remove Spindle's finalizer and the mark from a KafkaTopic whose topic is somebody else's: the mark of a try that failed must not fit later."""
    body: dict[str, Any] = {}
    if names.FINALIZER_TOPIC in finalizers(topic):
        body["finalizers"] = [name for name in finalizers(topic) if name != names.FINALIZER_TOPIC]
    if objects.annotation(topic, names.ANN_CREATING) is not None:
        body["annotations"] = {names.ANN_CREATING: None}
    if body:
        this.builder.do(patch(topic, {"metadata": body}))


def finalize(topic: SnapshotObject, *, wanted: bool) -> Patch:
    """Add or remove Spindle's finalizer, which only KafkaTopics with deletionPolicy Delete have."""
    others = [name for name in finalizers(topic) if name != names.FINALIZER_TOPIC]
    return patch(topic, {"metadata": {"finalizers": [*others, names.FINALIZER_TOPIC] if wanted else others}})


def patch(topic: SnapshotObject, body: Mapping[str, Any]) -> Patch:
    """A change of a KafkaTopic, guarded by its resourceVersion."""
    return Patch(
        kind="KafkaTopic",
        name=objects.name(topic),
        uid=objects.uid(topic),
        resource_version=objects.version(topic),
        body=body,
        alone=True,
    )


def topic_status(
    this: TopicPass,
    topic: SnapshotObject,
    name: str,
    row: TopicVerdict,
    *,
    ours: bool | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The status.

    Args:
        this, topic, name: of the pass; the object; the topic's name.
        row: of its conditions.
        ours: whether the topic in Kafka is this KafkaTopic's; None if that was not decided: then what the status says stays.
        config: what it says of settings; by default as before.
    """
    before, generation = topic.get("status") or {}, topic["metadata"].get("generation", 0)
    kept = {key: before[key] for key in ("config",) if before.get(key)}
    if ours:
        part = {
            "topicId": this.observed.id(name),
            **status_of(this.observed, name, before),
            **(config or kept),
        }
    elif ours is None:
        part = {key: before[key] for key in _OF_KAFKA if key in before}
    else:
        part = {"topicId": before.get("topicId")}
    stalled = row.reason in STALLED
    rows = (
        ("Ready", "True" if row.ready else "False", row.reason, row.message),
        (
            "Stalled",
            "True" if stalled else "False",
            row.reason if stalled else "NotStalled",
            row.message if stalled else "",
        ),
    )
    return {
        "observedGeneration": generation,
        "topicName": name,
        **{key: value for key, value in part.items() if value not in (None, [])},
        "conditions": as_conditions(rows, before, generation, this.state.now),
    }
