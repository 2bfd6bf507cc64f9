"""Log dirs that leave a broker (no log dir removed with replicas on it, no start with a log dir missing; docs/safety.md).

Kafka may create replicas on a leaving dir between the last observation and the stop. So the disk stays on its broker's list of log dirs until it is
confirmed to be empty: the broker's next pod is created with the disk, and preflight inspects it while Kafka is stopped. A disk with a replica stays in
use; for an empty one the pod is recreated without it. If Kafka itself has the dir offline, it creates nothing there and no inspection is needed.
"""

from spindle.api import names
from spindle.model import disk_facts, objects
from spindle.model.dir_list import read_list
from spindle.model.pod_disks import mode_in
from spindle.model.reports import inspected
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState

_READ = (disk_facts.OURS, disk_facts.READONLY)  # how inspect reports a readable disk of this cluster


def unconfirmed(broker: SnapshotObject) -> frozenset[str]:
    """Disks that are to be excluded and are not yet confirmed to be empty.

    A re-adopted broker runs with an additional placeholder dir, so it recreates no replica whichever dir it lacks.
    """
    spec = broker["spec"]
    if spec.get("returning"):
        return frozenset()
    absent = [disk for disk in spec.get("disks") or () if disk.get("mode") == disk_facts.ABSENT]
    listed = read_list(spec.get("logDirs")).dirs if absent else {}
    return frozenset(disk["name"] for disk in absent if listed.get(disk["name"]) == disk["directoryId"])


def looked_at(pod: SnapshotObject | None) -> frozenset[str]:
    """Disks that a pod has only to be inspected; none once Kafka ran in the pod."""
    if pod is None or objects.kafka_ever_ran(pod):
        return frozenset()
    return named_in(pod)


def named_in(pod: SnapshotObject) -> frozenset[str]:
    """Disks that a pod's annotation tells preflight to inspect."""
    return frozenset(filter(None, (objects.annotation(pod, names.ANN_LEAVING) or "").split(",")))


def replicas_seen(pod: SnapshotObject | None, disk: str) -> int | None:
    """How many replicas a pod's inspection found on a disk; None before the inspection, or if the disk could not be read."""
    found = inspected(pod).get(disk) or {}
    count = found.get("replicas")
    return int(count) if found.get("state") in _READ and count is not None else None


def seen_empty(state: ClusterState, broker_id: int, disk: str) -> bool:
    """Whether a disk that is to be excluded is certain to hold no replica.

    That is so if it was inspected while Kafka was stopped, or if the running Kafka does not use it.
    """
    pod = state.pods.get(broker_id)
    if pod is None:
        return False
    if disk in looked_at(pod):
        return replicas_seen(pod, disk) == 0
    if not objects.kafka_runs(pod):
        return False
    if mode_in(pod, disk) is None:
        return True  # it is out
    known = (state.kafka.brokers or {}).get(broker_id)
    if known is None or known.fenced:
        return False
    return any(d.path == names.log_dir(disk) and d.error for d in known.log_dirs or ())


def ends_without(state: ClusterState, broker_id: int, disk: str) -> bool:
    """Whether a disk that is already off its broker's list stays unused until the pod that still has it has ended.

    The disk left the list because the Kafka in that pod had it offline. That Kafka takes no dir back, and it is being stopped, so it may not answer any
    more. If the kubelet has restarted it meanwhile, it may have found the disk well.
    """
    pod = state.pods.get(broker_id)
    if pod is None or not objects.deleting(pod) or objects.kafka_restarted(pod):
        return False
    known = (state.kafka.brokers or {}).get(broker_id)
    dirs = (known.log_dirs or ()) if known is not None else ()
    return not any(d.path == names.log_dir(disk) and not d.error for d in dirs)
