"""KafkaBrokers and their claims: which brokers exist, on which nodes, in which racks; the cluster's identity."""
