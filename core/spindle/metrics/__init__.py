"""The list of all metrics, and the operator's metrics of a KafkaCluster as a pure function of one pass."""
