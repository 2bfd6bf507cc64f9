"""``spindle doctor``: checks a Kubernetes cluster before a KafkaCluster is applied."""
