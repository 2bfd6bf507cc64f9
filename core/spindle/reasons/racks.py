"""Reasons about racks."""

from spindle.reasons.reason import Reason, Section

SECTIONS = (
    Section(
        "Racks and room",
        "",
        (
            Reason(
                "InsufficientNodes",
                "more brokers are wanted than nodes have room",
                "add nodes with free volumes, ask for fewer, or let brokers share nodes",
                "ticket",
            ),
            Reason(
                "NoZoneLabels",
                "no node has the topology label; brokers are placed without racks",
                "label the nodes, or name another `topologyKey`",
                "ticket",
            ),
            Reason("NodesWithoutZone", "some nodes have no label and get no broker", "label them", "ticket"),
            Reason(
                "MixedRacks",
                "some brokers have a rack and others none",
                "label the nodes of those that have none",
                "ticket",
            ),
            Reason(
                "BrokersWithoutRack",
                "brokers were made without racks, and now there are zones",
                "label the nodes of all brokers, or of none",
                "ticket",
            ),
            Reason(
                "SingleZone",
                "all are in one zone: if it fails, all fail",
                "add nodes in other zones",
                "ticket",
            ),
            Reason(
                "ZoneWithoutBrokers",
                "a zone with room has no broker",
                "the next new broker goes there",
                "ticket",
            ),
            Reason(
                "UnevenSpread",
                "zones differ by more than one broker",
                "the next new brokers even it out",
                "ticket",
            ),
            Reason(
                "ZoneChanged",
                "the label of a broker's node changed",
                "put it back; or stop and start the broker: it then takes the label as it is",
                "ticket",
            ),
            Reason(
                "RackSpreadViolated",
                "partitions stand on fewer racks than they could, since zones or nodes changed, or a disk or broker was lost",
                "what healing crowded is spread by itself, once nothing is to be healed and a disk in another rack takes it; the rest: `spindle rebalance run`, and approve the proposal",
                "ticket",
            ),
            Reason(
                "NodesUnknown",
                "nodes could not be read; nothing is placed meanwhile",
                "the operator's role, or the API server",
                "ticket",
            ),
        ),
    ),
    Section(
        "Nodes",
        "What happens when a node or a zone is drained, and when a node is gone for good, has [a page of its own](../nodes.md). Events: `DrainAllowed`, `BrokerRecreated`.",
        (
            Reason(
                "EvictionDeferred",
                "the broker's node is closed, and another broker is down for a drain: its eviction is refused",
                "that one is back in sync; brokers of one zone can be drained together",
                "ticket",
            ),
            Reason(
                "NodeLost",
                "the node is said to be gone for good, with the broker's disks: what is waited for",
                "the node comes back; or agree, by `spec.acceptDataLoss.node` of the KafkaBroker",
                "ticket",
            ),
            Reason(
                "NodeStillReachable",
                "the node is tainted as out of service, and it is ready, or Kafka hears the broker",
                "take the taint off, or switch the node off",
                "ticket",
            ),
            Reason(
                "LeadershipMoving",
                "a broker is about to go down, and others are about to lead what it leads",
                "nothing: half a minute at most",
                "none",
            ),
        ),
    ),
)
