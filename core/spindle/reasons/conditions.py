"""Reasons of conditions that say how a whole cluster is, and of the operator's own work."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Conditions of a KafkaCluster",
        "[Operations](../operations.md#at-a-glance) says what each condition means. `Ready` and `Stalled` also have the reason of the entry in `status.waiting` that matters most; the tables below have these.",
        (
            Reason(
                "MinIsrMet",
                "every partition has a leader and at least `min.insync.replicas` in-sync replicas",
            ),
            Reason(
                "OfflinePartitions",
                "partitions have no leader, so clients can neither read nor write them",
                "bring back a broker or disk with an in-sync replica; `DataAtRisk` and `status.waiting` say which",
                "page",
            ),
            Reason(
                "PartitionsUnderMinIsr",
                "partitions have fewer than `min.insync.replicas` in-sync replicas, so Kafka rejects writes with acks=all. For a proposal: it starts no further moves, and is stopped after half an hour",
                "bring the brokers and disks of the other replicas back; a later rebalance run plans again what was stopped",
                "page",
            ),
            Reason("AllInSync", "all brokers and controllers run and are in sync"),
            Reason(
                "RolloutInProgress",
                "other nodes are restarting, or it is not this node's turn: [brokers of one rack restart together, controllers one at a time](../rolling.md)",
                "nothing: it is next when those before it are back in sync",
                "none",
            ),
            Reason(
                "NodesJoining",
                "all brokers and controllers that ran before are in sync, and new ones start",
                "nothing: they start",
                "none",
            ),
            Reason(
                "NotAllInSync",
                "some brokers or controllers are not in sync, and none of them is being restarted; the message names them",
                "see `status.waiting` and the pods that the message names",
                "ticket",
            ),
            Reason(
                "DisksFailed",
                "disks failed, and their replicas are being re-replicated on others",
                "nothing: `status.waiting` names what needs you",
                "none",
            ),
            Reason(
                "BrokersStopped",
                "an administrator stopped brokers with `spec.maintenance.stopped`",
                "start them when the maintenance is done: `spindle broker start`",
                "ticket",
            ),
            Reason(
                "Starting",
                "Kafka starts for the first time, or not all nodes run yet. For a KafkaUser: it is being created",
                "nothing: `status.waiting` names what needs you",
                "none",
            ),
            Reason(
                "Deleting",
                "the object is being deleted, and Spindle removes what it created for it",
                "nothing: it ends",
                "none",
            ),
            Reason(
                "Working",
                "Spindle carries out actions, or waits for a node that restarts or for replicas that move",
                "nothing: it ends",
                "none",
            ),
            Reason(
                "Waiting",
                "the spec is not in effect yet; the message has the first entry of `status.waiting`",
                "nothing: if it lasts, the condition `Stalled` becomes True",
                "none",
            ),
            Reason("Settled", "the spec is in effect"),
            Reason(
                "Paused",
                "`spec.paused` is true, so Spindle changes nothing",
                "nothing: set `spec.paused` to false when you want Spindle to continue",
                "none",
            ),
            Reason(
                "Stalled",
                "Spindle does not continue, because only a user can unblock it",
                "do what the condition `Stalled` says",
                "ticket",
            ),
            Reason("NotStalled", "nothing waits for a user"),
            Reason("AllHealthy", "every disk is a log dir in use"),
            Reason(
                "NotAllHealthy",
                "some disks are not log dirs in use; the message names them with their states",
                "see `status.disks` of the KafkaBrokers and the entries of these disks in `status.waiting`",
                "ticket",
            ),
            Reason("EnoughCopies", "every partition has a leader and enough in-sync replicas"),
            Reason(
                "Offline",
                "the reason of `DataAtRisk` for partitions without a leader: clients can neither read nor write them",
                "bring back a broker or disk with an in-sync replica",
                "page",
            ),
            Reason(
                "KafkaUnknown",
                "Kafka does not answer, or does not report what Spindle has to know",
                "make sure that the brokers and controllers run; Spindle asks again",
                "ticket",
            ),
        ),
    ),
    Section(
        "The operator",
        "What an event says whose reason ends in `Failed` and begins with an action is in [failed actions](#failed-actions).",
        (
            Reason(
                "InvalidSpec",
                "the API server accepted a spec, but this version of Spindle cannot read it. Spindle changes nothing",
                "correct the field that the message names, or install the CRDs of the chart's version",
                "ticket",
            ),
            Reason(
                "VersionNotSupported",
                "this version of Spindle does not run that release of Kafka. A running cluster keeps its release, and Spindle manages it as before and applies the rest of the spec; a new cluster is not created",
                "set `spec.version` to a supported release, or upgrade Spindle",
                "ticket",
            ),
            Reason(
                "CannotRead",
                "the operator could not read something, or the namespace has [more than it may read](../security.md#what-one-kafkacluster-may-cost-the-others) for one KafkaCluster. It changes nothing until it can",
                "correct the operator's role, or remove what is too much; otherwise wait until the API server answers",
                "ticket",
            ),
            Reason(
                "ReconcileFailed",
                "a reconciliation failed because of an error in the operator. It is retried",
                "report the error; the operator's log has the details",
                "ticket",
            ),
            Reason(
                "WatchMissedChanges",
                "the API server did not report changes of objects that the operator watches; it found them when it listed the objects anew. Nothing was done on the old state",
                "see whether a proxy or load balancer between the operator and the API server drops data; nothing else is needed",
                "ticket",
            ),
            Reason(
                "ReconcileTimeout",
                "a reconciliation took too long and was stopped. It is retried at growing intervals, and other clusters are not affected",
                "see whether Kafka and the API server respond slowly; the operator's log has the details",
                "ticket",
            ),
        ),
    ),
)
