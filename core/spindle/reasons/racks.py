"""Reasons about racks, placement and nodes."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Racks and placement",
        "Zones of nodes become [racks of brokers](../nodes.md).",
        (
            Reason(
                "InsufficientNodes",
                "the spec asks for more brokers than there are nodes with space for one",
                "add nodes with free volumes, ask for fewer brokers, or let brokers share nodes",
                "ticket",
            ),
            Reason(
                "NoZoneLabels",
                "no node has the topology label, so brokers are placed without racks",
                "label the nodes, or name another `topologyKey`",
                "ticket",
            ),
            Reason(
                "NodesWithoutZone",
                "some nodes lack the topology label and get no broker",
                "label these nodes",
                "ticket",
            ),
            Reason(
                "MixedRacks",
                "some brokers have a rack and others have none",
                "label the nodes of the brokers without a rack",
                "ticket",
            ),
            Reason(
                "BrokersWithoutRack",
                "the brokers were created without racks, and now the nodes have zones",
                "label the nodes of all brokers, or of none",
                "ticket",
            ),
            Reason(
                "SingleZone",
                "all brokers are in one zone: if it fails, all of them fail",
                "add nodes in other zones",
                "ticket",
            ),
            Reason(
                "ZoneWithoutBrokers",
                "a zone has space for brokers but has none",
                "nothing: the next new broker goes there",
                "none",
            ),
            Reason(
                "UnevenSpread",
                "the number of brokers differs by more than one between zones",
                "nothing: the next new brokers even it out",
                "none",
            ),
            Reason(
                "ZoneChanged",
                "the zone label of a broker's node changed",
                "restore the label; or stop and start the broker, which then takes the new zone as its rack",
                "ticket",
            ),
            Reason(
                "RackSpreadViolated",
                "partitions are on fewer racks than they could be, because zones or nodes changed or a disk or broker was lost",
                "Spindle itself spreads replicas that healing put on too few racks, once no disk is failed and a disk in another rack has space; for the others, run `spindle rebalance run` and approve the proposal",
                "ticket",
            ),
            Reason(
                "BrokersPending",
                "no broker is placed yet",
                "nothing: brokers are placed as soon as the nodes are known",
                "none",
            ),
            Reason("Spread", "brokers are spread over the racks as evenly as possible"),
            Reason(
                "NodesUnknown",
                "the operator cannot read the nodes, and places no broker until it can",
                "correct the operator's role, or wait until the API server answers",
                "ticket",
            ),
            Reason("BrokerPlaced", "a new broker got its pool, its disks and, if nodes have zones, its rack"),
        ),
    ),
    Section(
        "Nodes",
        "[Nodes and zones](../nodes.md) describes drains and lost nodes.",
        (
            Reason(
                "DrainAllowed",
                "the pod may be evicted together with others: its node is cordoned, and no partition falls below `min.insync.replicas`",
            ),
            Reason(
                "EvictionDeferred",
                "the broker's node is cordoned, but brokers of another zone are down, or other brokers are down for a drain, so the eviction of this one is refused",
                "uncordon the nodes of the brokers that are down; this one follows when they are back in sync. Brokers of one zone can be drained together",
                "ticket",
            ),
            Reason(
                "NodeLost",
                "the node was declared lost, with the broker's disks. The message says what Spindle waits for before it recreates the broker elsewhere",
                "bring the node back, or accept the loss with `spec.acceptDataLoss.node` of the KafkaBroker",
                "ticket",
            ),
            Reason(
                "NodeStillReachable",
                "the node has the out-of-service taint, but it is ready or Kafka gets heartbeats from the broker",
                "remove the taint, or switch the node off",
                "ticket",
            ),
            Reason(
                "NodeNotReady",
                "the node of the pod does not answer",
                "bring the node back; the pod recovers with it",
                "ticket",
            ),
            Reason(
                "NodeUnreachable",
                "the pod is being deleted, and its node does not answer",
                "bring the node back, or [declare it lost](../nodes.md)",
                "ticket",
            ),
            Reason(
                "BrokerRecreated",
                "the broker starts on another node: its old node is lost, and no replica is assigned to its disks any more",
            ),
            Reason(
                "ClockSkew",
                "the clock of a node differs by more than ten seconds from the operator's",
                "synchronize the clock of that node with NTP ([clocks](../agent.md#clocks))",
                "ticket",
            ),
            Reason(
                "OperatorClockSkew",
                "the operator's clock differs from those of all nodes with brokers, so the times that it writes are wrong, in certificates, too",
                "synchronize the clock of the operator's node with NTP",
                "ticket",
            ),
            Reason(
                "NotComparedYet",
                "no agent has renewed its Lease since the operator started, so clocks are not compared yet",
                "nothing: the agents renew their Leases within seconds",
                "none",
            ),
            Reason("WithinTenSeconds", "the clocks of the nodes are within ten seconds of the operator's"),
        ),
    ),
)
