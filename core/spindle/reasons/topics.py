"""Reasons about KafkaTopics."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Topics",
        "[Topics as resources](../topics.md) describes what Spindle does for a KafkaTopic.",
        (
            Reason("TopicCreated", "the topic of a KafkaTopic was created"),
            Reason("TopicAdopted", "a KafkaTopic with `adopt: true` took over a topic that existed already"),
            Reason("PartitionsAdded", "a topic got more partitions, as its KafkaTopic says"),
            Reason(
                "TopicConfigured",
                "settings of a topic were set as its KafkaTopic says, or removed when it no longer has them",
            ),
            Reason(
                "TopicRemoved", "a topic was deleted with its KafkaTopic, whose `deletionPolicy` is Delete"
            ),
            Reason(
                "TopicRetained",
                "a KafkaTopic that had `deletionPolicy: Delete` was deleted, and the topic stays; the message says why",
            ),
            Reason(
                "TopicPending",
                "the topic is being created or changed",
                "nothing: Spindle continues",
            ),
            Reason(
                "NameTaken",
                "a topic of that name exists and is not the KafkaTopic's, or another KafkaTopic has it",
                "set `spec.adopt` to true to take the topic over, or choose another name; of two KafkaTopics, delete one",
                "ticket",
            ),
            Reason(
                "PartitionsCannotShrink",
                "`spec.partitions` is lower than the number of partitions that the topic has",
                "set it to that number, or create a topic with fewer partitions and copy the records",
                "ticket",
            ),
            Reason("ReplicasReduced", "replicas of a topic left it, because its KafkaTopic asks for fewer"),
            Reason("ReplicasChanged", "every partition has as many replicas as the KafkaTopic says"),
            Reason(
                "ReplicasChanging",
                "the topic is getting [more or fewer replicas](../topics.md#replication-factor); the message says how far it is",
                "nothing: Spindle continues",
            ),
            Reason(
                "ReplicasBelowMinIsr",
                "`spec.replicas` is below `min.insync.replicas` of the topic, so nothing is changed",
                "raise `spec.replicas`, or lower `min.insync.replicas` in `spec.config`",
                "ticket",
            ),
            Reason(
                "ReplicasNotPlaceable",
                "the topic is to have more replicas than there are brokers, or no disk of a rack without one has room",
                "start or add brokers, free space, or lower `spec.replicas`",
                "ticket",
            ),
            Reason(
                "ReplicaRemovalPending",
                "a replica that is to leave stays, because not all others are in sync on brokers that stay up, or they are fewer than `min.insync.replicas`",
                "bring the other replicas back in sync; uncordon the nodes of their brokers",
                "ticket",
            ),
            Reason(
                "TopicRejected",
                "Kafka did not accept a change of the topic; the message has its error",
                "correct in the spec what Kafka rejects, for example by a policy; Spindle tries again in each pass",
                "ticket",
            ),
            Reason(
                "TopicsUnknown",
                "the KafkaTopics cannot be listed. Spindle changes no topic for them, and a KafkaCluster that is being deleted waits, so that none is left with a finalizer",
                "correct what keeps the operator from listing them: the CRD, its role, the API server",
                "ticket",
            ),
        ),
    ),
)
