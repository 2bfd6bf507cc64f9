"""Random faults on the testbed: real Kubernetes, real Kafka, real disks, a load with acks=all, and everything read back."""
