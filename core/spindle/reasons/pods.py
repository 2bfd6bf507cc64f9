"""Reasons about pods."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Pods that do not start",
        "",
        (
            Reason(
                "InsufficientVolumes",
                "no node has the volumes that the pod needs",
                "provide volumes of that class and size on one node",
                "ticket",
            ),
            Reason("NoStorageClass", "none is named and there is no default", "name one", "ticket"),
            Reason(
                "Unschedulable", "no node takes the pod", "what the scheduler says, in the message", "ticket"
            ),
            Reason(
                "ImagePullFailed",
                "the image cannot be pulled",
                "correct `version`, `image` or the pull secrets",
                "ticket",
            ),
            Reason(
                "KafkaCrashed",
                "Kafka ends soon after its start",
                "its last words are in the message",
                "ticket",
            ),
            Reason(
                "DisksFull",
                "Kafka ends soon after its start, and every disk that it has is full",
                "free space on its disks, or enlarge a file system; Kafka is tried again by itself",
                "ticket",
            ),
            Reason(
                "PreflightFailed",
                "preflight does not let Kafka start",
                "it says which disk and why",
                "ticket",
            ),
            Reason(
                "InspectionFailed",
                "the disks could not be looked at: nothing can be written to the pod's own folder on its node, for example",
                "as the message says: free space where the kubelet keeps its pods; it is tried again by itself",
                "ticket",
            ),
            Reason(
                "NodeNotReady",
                "the pod's node does not answer",
                "it comes back by itself with the node",
                "ticket",
            ),
            Reason(
                "NodeUnreachable",
                "the pod is being deleted and its node does not answer",
                "the node comes back, or is declared gone",
                "ticket",
            ),
            Reason(
                "DependenciesMissing",
                "the pod waits for its ConfigMap or Secret",
                "nothing: they are made",
                "none",
            ),
            Reason(
                "ClaimBeingDeleted",
                "one of its claims is being deleted",
                "it goes on when the claim is gone",
                "ticket",
            ),
            Reason(
                "NameConflict",
                "something that is not of this KafkaCluster stands under the name of a Secret, account, Service, pod or other object that it needs; it is neither used nor changed nor deleted ([whose is what](../security.md#whose-is-what))",
                "delete it if nobody needs it, or give the KafkaCluster another name; the message says how to tell that it is the cluster's own after all",
                "ticket",
            ),
            Reason(
                "OrphanedObject",
                "an object of a former KafkaCluster, broker or user of this name is there still; a new one is made when it is gone",
                "nothing: Kubernetes' garbage collector takes it away; if it stays, delete it",
                "none",
            ),
            Reason(
                "OrphanedPod",
                "a pod looks like one of this cluster and has no KafkaBroker",
                "delete it if nobody needs it",
                "ticket",
            ),
        ),
    ),
    Section(
        "Listeners",
        "",
        (
            Reason(
                "AddressPending",
                "it is not known where clients find a broker's [listener](../listeners.md); the broker runs without it",
                "the load balancer or the node gets its address",
                "ticket",
            ),
        ),
    ),
    Section(
        "Not in this version",
        "",
        (
            Reason(
                "VersionNotSupported",
                "this version of Spindle does not run that release of Kafka. A cluster that runs stays with the release that it has, and is looked after as ever, the rest of the spec carried out; a new one is not made",
                "",
                "none",
            ),
            Reason(
                "CannotRead",
                "something could not be read, or the namespace holds [more than may be read](../security.md#what-one-kafkacluster-may-cost-the-others) for one KafkaCluster; nothing is changed meanwhile",
                "",
                "none",
            ),
        ),
    ),
)
