"""The demo: from nothing to a Kafka cluster on a real Kubernetes on this machine, with the commands shown."""
