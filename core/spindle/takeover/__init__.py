"""Takes over a cluster from another operator, with its disks and data.

`strimzi` computes a `plan` from the objects in Kubernetes, `spec` translates the Kafka resource, `volumes` decides what may be done with a
disk, `claims` decides whether a volume may get another claim, `manifests` builds the objects of the migration, `downtime` estimates how long Kafka is down,
and `converted` turns KafkaTopics and KafkaUsers into those of Spindle. Nothing here formats or deletes data. Until Spindle has started Kafka on a disk,
the migration can be undone.
"""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("claims", "converted", "downtime", "manifests", "plan", "strimzi", "volumes")
