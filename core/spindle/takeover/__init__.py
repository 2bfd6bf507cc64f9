"""A cluster that another operator made becomes ours, with its disks as they are.

`strimzi` reads what stands in Kubernetes and makes a `plan` of it, `volumes` says what may be done with what stands on a disk, and `manifests`
are the objects in between. Nothing here formats or deletes data; until the KafkaCluster is applied, all of it can be undone.
"""
