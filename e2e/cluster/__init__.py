"""The testbed: a real multi-node Kubernetes on one machine, without Docker."""
