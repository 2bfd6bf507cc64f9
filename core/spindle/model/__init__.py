"""What the phases of a pass share: the view of Kafka and Kubernetes, the replica index, safety rules that several rooms check, actions and waits."""
