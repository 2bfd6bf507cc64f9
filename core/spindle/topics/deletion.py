"""A KafkaTopic that is being deleted: its topic goes only if that is asked for, and only the one whose id is on record."""

from typing import Any

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import DeleteTopic
from spindle.model.snapshot import SnapshotObject
from spindle.topics.topic_pass import (
    DELETING,
    INTERNAL,
    TAKEN,
    TopicPass,
    TopicVerdict,
    finalize,
    finalizers,
    made_by_us,
    tell,
    topic_status,
    unknown,
)
from spindle.topics.wanted import topic_name


def delete_topic(this: TopicPass, topic: SnapshotObject) -> dict[str, Any] | None:
    """Delete the topic if that is asked for and it is the one on record; then remove the finalizer."""
    if names.FINALIZER_TOPIC not in finalizers(topic):
        return None
    name = topic_name(topic)
    stays = _stays(this, topic, name)
    if stays is None and this.state.snap.namespace_ends is not None and this.observed.known:
        stays = _is_gone_or_not_ours(this, topic, name)
    if stays is not None:
        if stays:
            tell(this, topic, "TopicRetained", f"Topic {name} stays: {stays}.")
        this.builder.do(finalize(topic, wanted=False))
        return None
    out = "To let the KafkaTopic go without the topic: set spec.deletionPolicy to Retain."
    if this.state.snap.namespace_ends is None:
        row = TopicVerdict(
            DELETING,
            f"It is unknown whether the namespace is being deleted, so topic {name} is not deleted yet. To resolve: give the operator the right to get "
            f"namespace {this.state.namespace}, as the chart's roles do. {out}",
        )
        return topic_status(this, topic, name, row)
    if not this.observed.known:
        return topic_status(this, topic, name, TopicVerdict(DELETING, f"{unknown(this).message} {out}"))
    found = str(this.observed.id(name))
    this.builder.do(
        DeleteTopic(
            topic=name,
            id=found,
            reason="TopicRemoved",
            message=f"Deleted topic {name} with id {found}: its KafkaTopic was deleted, with deletionPolicy Delete.",
        )
    )
    said = this.state.snap.rejected.get(("DeleteTopic", name))
    why = (
        f"Topic {name} is being deleted."
        if said is None
        else f"Kafka does not delete topic {name}: {said}. {out}"
    )
    return topic_status(this, topic, name, TopicVerdict(DELETING, why))


def _stays(this: TopicPass, topic: SnapshotObject, name: str) -> str | None:
    """Why the topic stays, whatever Kafka says of it; None if it may have to go."""
    if (topic.get("spec") or {}).get("deletionPolicy") != "Delete":
        return "the KafkaTopic does not ask for its deletion"
    if name.startswith(INTERNAL):
        return "it belongs to Kafka or to Spindle"
    return "its namespace is being deleted" if this.state.snap.namespace_ends else None


def _is_gone_or_not_ours(this: TopicPass, topic: SnapshotObject, name: str) -> str | None:
    """Why an existing topic stays; empty if there is none; None if it is this KafkaTopic's own."""
    found, known = this.observed.id(name), (topic.get("status") or {}).get("topicId")
    if found is None:
        return ""
    taken = (objects.condition(topic, "Ready") or {}).get("reason") == TAKEN
    if known != found and (taken or not made_by_us(this, topic, name)):
        return f"its id is {found}, and this KafkaTopic's was {known}"
    if others := this.holders.get(found):
        return f"KafkaTopic {', '.join(sorted(others))} has it"
    heir = this.owners.get(name)
    if heir is not None and (heir.get("spec") or {}).get("adopt") is True:
        return f"KafkaTopic {objects.name(heir)} takes it over"
    return None
