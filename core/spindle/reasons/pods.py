"""Reasons about pods, objects and listeners."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Pods that do not start",
        "",
        (
            Reason(
                "InsufficientVolumes",
                "no node has the volumes that the pod needs",
                "provide volumes of that StorageClass and size on one node",
                "ticket",
            ),
            Reason(
                "NoStorageClass",
                "the spec names no StorageClass, and the Kubernetes cluster has no default",
                "name one in the spec, or set a default",
                "ticket",
            ),
            Reason(
                "Unschedulable",
                "the scheduler finds no node for the pod",
                "do what the scheduler's message says; a pod whose local volumes are on a node needs that node",
                "ticket",
            ),
            Reason(
                "NodeInUse",
                "the local volumes of a pod are on a node where another broker (or controller) of the cluster runs, and the two do not share a node. Another node does not help",
                "set `spec.scheduling.sharedNodes` to true, then delete the pod that runs there, as the entry says",
                "ticket",
            ),
            Reason(
                "ImagePullFailed",
                "the node cannot pull the image",
                "correct `version`, `image` or the pull secrets",
                "ticket",
            ),
            Reason(
                "KafkaCrashed",
                "Kafka exits soon after its start",
                "correct the cause, which the message names",
                "ticket",
            ),
            Reason(
                "AddedContainerFailed",
                "a sidecar or init container of a [pod template](../pod-template.md) does not run, so the pod is not ready",
                "correct the container in the pod template, or remove it",
                "ticket",
            ),
            Reason(
                "StartDeadlineExceeded",
                "Kafka runs in a broker's pod, but has not joined the cluster within `spec.rolling.backWithinSeconds`, or within two minutes if a disk did not answer before the start; time in which it loads its logs does not count. Most often a disk does not answer",
                "correct the cause: replace the disk that the entry names, or see the pod's log; then delete the pod",
                "page",
            ),
            Reason(
                "BrokerOutOfSync",
                "Kafka runs in a broker's pod, but for five minutes the controllers have fenced it, or replicas on it have not been in sync; nothing else is known to be wrong with it",
                "check the network between the named node and those of the controllers and other brokers, network policies included; a broker whose replicas only catch up slowly needs nothing",
                "ticket",
            ),
            Reason(
                "DisksFull",
                "Kafka exits soon after its start, and all of its disks are full",
                "free space on the disks, or enlarge a file system; Kafka then starts by itself",
                "page",
            ),
            Reason(
                "PreflightFailed",
                "the preflight container checked the disks and does not let Kafka start",
                "correct the disk that the message names",
                "ticket",
            ),
            Reason(
                "InspectionFailed",
                "the pod could not inspect its disks, for example because it cannot write to its own directory on the node",
                "do what the message says, for example free space where the kubelet keeps its pods; the pod tries again by itself",
                "ticket",
            ),
            Reason(
                "DependenciesMissing",
                "the pod waits for its ConfigMap or Secret",
                "nothing: Spindle creates them",
                "none",
            ),
            Reason(
                "ClaimBeingDeleted",
                "a claim of the pod is being deleted",
                "wait until the claim is gone; if it stays, see what still uses it",
                "ticket",
            ),
        ),
    ),
    Section(
        "Pods and objects",
        "",
        (
            Reason(
                "PodCreated",
                "a pod was created; also the reason in `status.start` of a broker that started in a new pod",
            ),
            Reason(
                "ContainerRestarted",
                "the reason in `status.start` of a broker whose container restarted in the same pod",
            ),
            Reason(
                "SchedulingChanged",
                "a pod that has no node yet is recreated, because the nodes that it must leave to others have changed",
            ),
            Reason("PodEnded", "a pod ended (the message says why) and is recreated"),
            Reason(
                "InSync",
                "the readiness gate of a pod: the broker is in sync, or the controller has caught up",
            ),
            Reason(
                "NotInSync",
                "the readiness gate of a pod: the broker is not in sync, or the controller has not caught up",
                "nothing: it catches up",
                "none",
            ),
            Reason(
                "StopDeadlineExceeded",
                "a pod is being deleted and has not ended two minutes after its grace period. Most often its process waits in the kernel for a disk that does not answer; no successor is created before it has ended",
                "replace the disk that the entry names, or find it in the kernel log of the node and remove it; otherwise restart the node",
                "page",
            ),
            Reason("LabelsRestored", "labels of a pod were changed, and Spindle restored them"),
            Reason("Restored", "another client changed an object that Spindle owns, and Spindle restored it"),
            Reason(
                "NameConflict",
                "an object that does not belong to this KafkaCluster has the name that a Secret, ServiceAccount, Service, pod or other object of it needs. Spindle neither uses nor changes nor deletes it ([whose is what](../security.md#whose-is-what)). For a KafkaUser: its Secret, or its name in Kafka, is already in use",
                "delete the object if it is not needed, or choose another name for the KafkaCluster or KafkaUser; the message says how to tell that the object belongs to it after all",
                "ticket",
            ),
            Reason(
                "RequestRefused",
                "the API server refuses a request of Spindle: a ResourceQuota is exceeded, an admission webhook or policy denies it, a PodDisruptionBudget forbids an eviction, or a right is missing. The entry has the server's message. Spindle tries again in each reconciliation. If the server refuses the status of the KafkaCluster itself, only an event, the operator's log and the metric `spindle_actions_total` tell it",
                "permit it, as the entry says: raise the quota, change the policy, or give the operator its rights again",
                "ticket",
            ),
            Reason(
                "ManyChanges",
                "there are more changes than one reconciliation makes: 200 of a kind that nothing else depends on, and 1,000 in all. The others follow",
                "nothing: they follow",
                "none",
            ),
            Reason(
                "OrphanedObject",
                "an object of an earlier KafkaCluster, broker or user of this name still exists; a new one is created when it is gone",
                "delete it if the garbage collector of Kubernetes does not remove it soon",
                "ticket",
            ),
            Reason(
                "OrphanedPod",
                "a pod looks like one of this cluster but has no KafkaBroker",
                "delete it if it is not needed",
                "ticket",
            ),
            Reason(
                "BrokerRecordRetained",
                "a user deleted a KafkaBroker of the spec. It is the record of a broker, so it stays",
                "start the broker",
                "ticket",
            ),
            Reason(
                "PodsTerminating",
                "pods still stop, because the KafkaCluster is being deleted, or because a pod was deleted",
                "nothing: they end",
                "none",
            ),
            Reason("ClusterDeleted", "a pod is stopped because its KafkaCluster is being deleted"),
            Reason(
                "ClaimDeleted",
                "a claim is deleted; the message says why: `spec.deleteClaims`, a removed disk or a removed broker",
            ),
            Reason(
                "VolumeRetained",
                "the reclaim policy of a volume was set to Retain before its claim is deleted, so that its data is kept",
            ),
        ),
    ),
    Section(
        "Listeners",
        "[Listeners](../listeners.md) describes how clients find the brokers.",
        (
            Reason(
                "AddressPending",
                "the address at which clients reach a broker is not known yet; the broker runs without that listener",
                "wait until the load balancer or the node gets its address; if it does not, see why",
                "ticket",
            ),
            Reason(
                "ListenerAddress",
                "the address of a broker for clients is known or has changed; a running broker is restarted to advertise it",
            ),
            Reason(
                "GatewayApiMissing",
                "a listener of type tlsroute needs TLSRoutes, which the API server does not know; brokers run and have the listener",
                "[install the Gateway API's CRDs, 1.5 or later](../listeners.md#through-a-gateway)",
                "ticket",
            ),
            Reason(
                "RouteNotAccepted",
                "a Gateway does not lead clients to brokers; the message has what its controller says",
                "[do what the message says](../listeners.md#through-a-gateway)",
                "ticket",
            ),
            Reason(
                "RoutesUnknown",
                "TLSRoutes could not be read; Spindle neither creates nor deletes any",
                "see the operator's log; after an upgrade of the image alone, update the chart",
                "ticket",
            ),
            Reason(
                "ListenerCertificateCopied",
                "the certificate of a listener was taken from the Secret that the spec names; brokers load it without a restart",
            ),
            Reason(
                "ListenerCertificateReloaded",
                "a running broker presents the new certificate of a listener",
            ),
            Reason(
                "ListenerCertificateRemoved",
                "copies of certificates are deleted, because no broker uses them any more",
            ),
            Reason(
                "ListenerCertificateInvalid",
                "the certificate in the Secret that a listener names cannot be used; brokers keep the one that they have",
                "[do what the message says](../listeners.md#a-certificate-of-your-own)",
                "ticket",
            ),
            Reason(
                "ListenerCertificateLacksHosts",
                "the certificate of a listener is not valid for hosts that brokers advertise, so clients that verify host names cannot connect to them",
                "renew it with these names, or change `advertisedHostTemplate`",
                "ticket",
            ),
            Reason(
                "ListenerCertificateExpiring",
                "less than a fifth of the validity of a listener's certificate is left, and its Secret holds no newer one",
                "renew it where it is issued",
                "ticket",
            ),
            Reason(
                "ListenerCertificateSpreading",
                "brokers still present the previous certificate of a listener",
                "nothing: the nodes receive the new one, and the brokers load it",
                "none",
            ),
            Reason(
                "ListenerRemoved",
                "the Service of a listener is deleted, because no listener of the spec needs it any more",
            ),
        ),
    ),
)
