"""Reasons about changes of the spec: disks, brokers, configuration, versions."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Adding, removing and expanding disks",
        "[Adding, removing and expanding disks](../change-disks.md) describes the procedure and its progress.",
        (
            Reason(
                "DisksAdded",
                "disks were added to a broker; also the reason of the restart with which the broker begins to use them",
            ),
            Reason(
                "InsufficientVolumesOnNode",
                "a broker is to get a disk, but its node has no free volume that fits",
                "provide a volume there, or set `disks.count` back",
                "ticket",
            ),
            Reason(
                "ClassNotLocal",
                "a pool has `disks.all`, and its StorageClass has a provisioner or binds claims at once, so that no volume belongs to a node",
                "write `disks.count` and `disks.size` instead, or add a pool with a class of local volumes",
                "ticket",
            ),
            Reason(
                "NodeUnknown",
                "a broker is to get a disk, but its node is not known or does not exist",
                "bring the node back",
                "ticket",
            ),
            Reason(
                "VolumeNotBound",
                "the claim of a disk that is to be added has no volume yet",
                "see why its provisioner creates none",
                "ticket",
            ),
            Reason(
                "VolumeNotOnNode",
                "the volume of a disk that is to be added cannot be mounted on the broker's node",
                "use a StorageClass with `volumeBindingMode: WaitForFirstConsumer`; with `disks.all`, delete the claim that the message names, so that another "
                "volume of the node takes its place",
                "ticket",
            ),
            Reason(
                "VolumeUnavailable",
                "the local volume that is recorded for a new disk is not listed or cannot be reserved now; of a broker or KafkaCluster that is deleted: it may be reserved, and is not listed",
                "if it was deleted, create it again with the same name; if it is gone for good, run `spindle volume forget VOLUME`, or delete the claim that the message names: another volume, or none, is used then",
                "ticket",
            ),
            Reason(
                "VolumeStaysReserved",
                "a KafkaBroker was deleted, and a volume that Spindle did not reserve stays reserved for one of its claims, which does not exist: it may be kept with data (`spindle volume rebind`); `spindle volume reuse VOLUME` lets it be bound again",
            ),
            Reason(
                "DiskInspectionPending",
                "the agent has not reported yet on a disk that is to be added",
                "nothing: it reports within seconds",
                "none",
            ),
            Reason(
                "ClaimNameConflict",
                "a claim with the name that the disk to be added would have already exists",
                "delete it if its data is not needed",
                "ticket",
            ),
            Reason(
                "ExpansionNotSupported",
                "`size` was raised, but volumes of that StorageClass cannot be expanded",
                "replace the disks with larger ones, one at a time; or use a StorageClass with `allowVolumeExpansion`; or add disks",
                "ticket",
            ),
            Reason("VolumeExpansionStarted", "a claim asks for more space"),
            Reason(
                "VolumeExpansionInProgress",
                "claims ask for the new size, and their volumes do not have it yet",
                "nothing: they are expanded while Kafka runs",
                "none",
            ),
            Reason(
                "InsufficientSpaceForDiskRemoval",
                "`disks.count` was lowered, but the replicas on the disk fit nowhere else",
                "free space, add brokers or disks, or set the count back",
                "ticket",
            ),
        ),
    ),
    Section(
        "Adding and removing brokers",
        "[Adding and removing brokers and pools](../scaling.md) describes the procedure and its progress. Each disk of a broker that is removed has the event `ScaleInStarted`.",
        (
            Reason(
                "InsufficientBrokers",
                "brokers are to be removed, but a topic has more replicas than brokers would be left",
                "keep more brokers, or lower the replication factor of the topic",
                "ticket",
            ),
            Reason(
                "ConfigNeedsMoreBrokers",
                "brokers are to be removed, but `spec.config` asks for a higher replication factor than brokers would be left",
                "lower that setting first",
                "ticket",
            ),
            Reason(
                "InsufficientRacks",
                "the last broker of a rack is to be removed, but partitions have a replica in each rack",
                "choose other brokers with `maintenance.removeFirst`, or keep more",
                "ticket",
            ),
            Reason(
                "InsufficientSpaceToScaleIn",
                "brokers are to be removed, but their replicas fit nowhere else",
                "free space, add disks or brokers, or set `replicas` back",
                "ticket",
            ),
            Reason(
                "ReplicasOnBroker",
                "a broker that is to be removed still has replicas, or some are on their way to it",
                "nothing: they are moved away",
                "none",
            ),
            Reason(
                "EligibleLeaderReplicas",
                "a broker that is to be removed is an eligible leader replica (ELR) of partitions, so it may still be needed as their leader",
                "nothing: it is removed when their other replicas catch up",
                "none",
            ),
            Reason("ScaledIn", "a broker is stopped because it is being removed"),
            Reason(
                "BrokerStillRegistered",
                "a removed broker is stopped, but still registered in Kafka",
                "nothing: it takes seconds",
                "none",
            ),
            Reason("BrokerUnregistered", "a stopped broker without replicas was unregistered from Kafka"),
            Reason("BrokerRemoved", "the KafkaBroker of a removed broker was deleted"),
        ),
    ),
    Section(
        "Configuration",
        "[Configuration](../configuration.md) says which settings are applied without a restart.",
        (
            Reason(
                "InvalidConfig",
                "the spec has a setting that its release of Kafka does not know or would not start with. Nothing of that spec is applied; Spindle manages the cluster by the previous one",
                "correct or remove the setting, as the message says; after a change of `spec.version` alone you can also set the version back",
                "ticket",
            ),
            Reason(
                "InvalidPodTemplate",
                "a [pod template](../pod-template.md), or the metadata of claims or Services, names something that Spindle owns, or would lower the pod's security level. Nothing of that spec is applied; Spindle manages the cluster by the previous one",
                "correct the field as the message says",
                "ticket",
            ),
            Reason(
                "PodTemplateUnchecked",
                "the API server has not checked the pod with a changed [pod template](../pod-template.md) yet; no pod is stopped before",
                "nothing: it takes seconds",
                "none",
            ),
            Reason(
                "PodTemplateRefused",
                "the API server, or an admission webhook, would refuse the pod with the changed [pod template](../pod-template.md), so the running pod is not stopped",
                "correct the template, or the policy or webhook that the message names; Spindle has the pod checked again every minute",
                "ticket",
            ),
            Reason(
                "ConfigApplied",
                "settings were applied without a restart, to a broker or to the whole cluster",
            ),
            Reason("SpecChanged", "a broker or controller restarts because its configuration changed"),
            Reason(
                "DynamicConfigRejected",
                "a running broker, or the cluster (a default for all brokers), was sent a setting more than half a minute ago and has not applied it; the event `TuneFailed` has Kafka's error",
                "correct the setting in the spec, or remove it. Otherwise a broker is restarted with it after some minutes; a cluster default stays as it was",
                "ticket",
            ),
            Reason(
                "DynamicConfigNotReverted",
                "the KafkaCluster is being deleted, or a broker removed, and its dynamic settings are not removed yet",
                "nothing: they are removed; after three minutes the deletion continues without that, and the record of them stays",
                "none",
            ),
            Reason(
                "UncleanElectionsEnabled",
                "`unclean.leader.election.enable` was set to true for the whole cluster, and the spec does not have it",
                "delete the setting with `kafka-configs.sh`, or write it into the spec",
                "ticket",
            ),
            Reason(
                "ConfigOverridden",
                "another client set a setting of the spec to another value, on a running broker or for all brokers; Spindle leaves that value",
                "delete it with `kafka-configs.sh`, or write the same value into the spec",
                "ticket",
            ),
        ),
    ),
    Section(
        "Versions",
        "An upgrade replaces the pods first and raises `metadata.version` later; until then you can downgrade: [Upgrading Kafka](../upgrade.md).",
        (
            Reason(
                "Soaking",
                "all nodes run the new release, and `metadata.version` waits for `spec.rolling.soakHours`",
                "nothing: the time passes",
                "none",
            ),
            Reason(
                "MetadataVersionRaised", "`metadata.version` was raised; a downgrade is no longer possible"
            ),
            Reason(
                "DowngradeNotSupported",
                "the earlier release cannot read the current `metadata.version`, or it is not known how far that was raised",
                "set `spec.version` back",
                "ticket",
            ),
        ),
    ),
)
