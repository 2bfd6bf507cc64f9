"""The demo: creates a Kafka cluster on a real Kubernetes on this machine, and shows each command."""
