"""Reasons about changes."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Disks added, removed and grown",
        "What happens then, and what you see of it, has [a page of its own](../change-disks.md).",
        (
            Reason(
                "InsufficientVolumesOnNode",
                "a broker is to get a disk, and its node has no free volume that fits",
                "provide one there, or set `disks.count` back",
                "ticket",
            ),
            Reason(
                "NodeUnknown",
                "a broker is to get a disk, and its node is not known, or not there",
                "the node is back",
                "ticket",
            ),
            Reason(
                "VolumeNotBound",
                "the claim of a disk that is to be added has no volume yet",
                "its provisioner makes one",
                "ticket",
            ),
            Reason(
                "VolumeNotOnNode",
                "the volume of a disk that is to be added cannot be mounted on the broker's node",
                "a StorageClass that waits for the first consumer",
                "ticket",
            ),
            Reason(
                "DiskInspectionPending",
                "the agent has not said yet how a disk is that is to be added",
                "nothing: it does",
                "none",
            ),
            Reason(
                "ClaimNameConflict",
                "a claim is there already with the name that a disk to be added would have",
                "delete it if nobody needs its data",
                "ticket",
            ),
            Reason(
                "ExpansionNotSupported",
                "`size` was raised, and volumes of that class do not grow",
                "larger disks, one after the other; or a class with `allowVolumeExpansion`; or more disks",
                "ticket",
            ),
            Reason(
                "VolumeExpansionInProgress",
                "claims ask for the new size, and their volumes are not there yet",
                "nothing: they grow while Kafka runs",
                "none",
            ),
            Reason(
                "InsufficientSpaceForDiskRemoval",
                "`disks.count` was lowered, and what stands on the disk has no place elsewhere",
                "free space, add brokers or disks, or set the count back",
                "ticket",
            ),
        ),
    ),
    Section(
        "Brokers added and removed",
        "What happens then, and what you see of it, has [a page of its own](../scaling.md). Events: `BrokerPlaced`, `BrokerReadopted`, `ScaleInStarted` for each disk, `ScaledIn`, `BrokerUnregistered`, `BrokerRemoved`; `RecordOutdated` for a KafkaBroker that was edited, or put back from an old copy, and lacks disks that its claims list.",
        (
            Reason(
                "InsufficientBrokers",
                "brokers are to go, and a topic has more replicas than brokers would be left",
                "keep more, or give the topic fewer replicas",
                "ticket",
            ),
            Reason(
                "ConfigNeedsMoreBrokers",
                "brokers are to go, and `spec.config` asks for more copies than brokers would be left",
                "lower that first",
                "ticket",
            ),
            Reason(
                "InsufficientRacks",
                "the last broker of a rack is to go, and partitions have a replica in each rack",
                "let others go first (`maintenance.removeFirst`), or keep more",
                "ticket",
            ),
            Reason(
                "InsufficientSpaceToScaleIn",
                "brokers are to go, and what stands on them has no place elsewhere",
                "free space, add disks or brokers, or set `replicas` back",
                "ticket",
            ),
            Reason(
                "ReplicasOnBroker",
                "a broker that leaves still holds replicas, or some are on their way",
                "nothing: they are moved off",
                "none",
            ),
            Reason(
                "EligibleLeaderReplicas",
                "a broker that leaves may still have to lead partitions",
                "their other replicas catch up",
                "ticket",
            ),
            Reason(
                "BrokerStillRegistered",
                "a broker that has left is stopped, and Kafka still counts it",
                "nothing: it takes seconds",
                "none",
            ),
            Reason(
                "UnknownPoolClaims",
                "the KafkaCluster was applied again, and there are disks of brokers whose pool is not in the spec and not on record",
                "put the pool back; it may be removed when its brokers run, which are emptied then",
                "ticket",
            ),
            Reason(
                "ClaimMissing",
                "a broker was found again by its claims, and one of its disks has none; it runs without that disk and makes no empty replicas",
                "put the claim back for the volume that the message names; else its replicas are made anew from the others",
                "ticket",
            ),
            Reason(
                "ClaimLost",
                "a broker was found again by its claims, and Kubernetes does not bind one of them to its volume (phase `Lost`): as a rule it was applied with the annotations of an earlier binding",
                "delete that claim, take `uid` out of the volume's `spec.claimRef`, and apply the claim again without annotations that begin with `pv.kubernetes.io/`",
                "ticket",
            ),
            Reason(
                "ReplicasNotFound",
                "a broker was found again, and replicas that Kafka has on it are on none of its disks",
                "put the claim of the missing disk back; or correct `spindle.dev/directory-id` of a claim that is older than its disk",
                "ticket",
            ),
            Reason(
                "JournalNotFound",
                "the ConfigMap `<cluster>-moves` is not listed: deleted, or without its label",
                "nothing: its label is put back, or a new one is made",
                "none",
            ),
            Reason(
                "JournalDeleted",
                "it was deleted by hand, and records what is still to be put back",
                "nothing: it is kept until that is done",
                "none",
            ),
            Reason(
                "JournalLost",
                "it is gone with what it recorded; settings and missing replicas that may be Spindle's are named",
                "put them right with Kafka's tools, or say by the annotation that they are as they should be",
                "ticket",
            ),
            Reason(
                "PoolNotFound",
                "brokers belong to a pool that is neither in the spec nor on record",
                "put the pool back; then it may be removed",
                "ticket",
            ),
        ),
    ),
    Section(
        "Configuration",
        "What is applied while Kafka runs and what takes a restart has [a page of its own](../configuration.md).",
        (
            Reason(
                "InvalidConfig",
                "the spec has a setting that its release of Kafka does not know or would not start with; nothing of that spec is carried out, the cluster is looked after by the one before",
                "write the setting as the message says, or take it out; after a change of `spec.version` alone, that may go back instead",
                "ticket",
            ),
            Reason(
                "SpecNotAllowed",
                "the spec asks for something that [reaches beyond Kafka](../security.md#what-a-kafkacluster-may-ask-for) and that nobody allowed: an image, an option of the JVM, a class, a Secret, or more than 5,000 disks together; nothing of that spec is carried out, the cluster is looked after by the one before",
                "take it out; or its owner labels the Secret or claim; or whoever installed Spindle widens `allow` in the chart's values",
                "ticket",
            ),
            Reason(
                "AllowedForCompatibility",
                "the same, but it was in use before it was checked, or before the list was narrowed: it goes on, and does not come back once it is changed. Or KafkaUsers have [rights that reach far](../users.md#rights-that-reach-far) which nobody allowed",
                "take it out, or have it allowed, in your own time; each KafkaUser says which rights",
                "ticket",
            ),
            Reason(
                "DynamicConfigRejected",
                "a running broker, or the cluster as a whole (a default for all brokers), was told a setting half a minute ago and has not taken it; the event `TuneFailed` has Kafka's words",
                "correct the setting in the spec, or take it out; else a broker is restarted with it after some minutes; a default of the cluster stays as it was",
                "ticket",
            ),
            Reason(
                "DynamicConfigNotReverted",
                "the KafkaCluster is deleted, or a broker leaves, and it has not yet given up what was set on it while it ran",
                "nothing: it does; after three minutes it goes, and the record stays",
                "none",
            ),
            Reason(
                "UncleanElectionsEnabled",
                "`unclean.leader.election.enable` was set to true for the whole cluster, and the spec does not name it",
                "delete it with `kafka-configs.sh`, or write it into the spec",
                "ticket",
            ),
            Reason(
                "ConfigOverridden",
                "a setting of the spec was set to something else on a running broker, or for all, by somebody else; it is left as it is",
                "delete it with `kafka-configs.sh`, or write the same into the spec",
                "ticket",
            ),
        ),
    ),
    Section(
        "Versions",
        "Pods first, `metadata.version` after a while, the way back until then: [a page of its own](../upgrade.md).",
        (
            Reason(
                "Soaking",
                "all nodes run the new release, and `metadata.version` waits for `spec.rolling.soakHours`",
                "nothing: the time passes",
                "none",
            ),
            Reason(
                "DowngradeNotSupported",
                "an earlier release could not read what `metadata.version` stands for, or it is not known how far that was raised",
                "set `spec.version` back",
                "ticket",
            ),
        ),
    ),
)
