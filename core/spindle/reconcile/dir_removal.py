"""Log dirs on their way out of a broker (rules 5 and 15): nothing may have come to stand there between the last look and the stop.

A disk that is to be left out stays on its broker's list of log dirs until that is confirmed. While it is there, the broker's next pod is made
with the disk, and preflight looks at it while no Kafka runs: a disk that holds a replica is used, for one that holds none the pod waits, and
is made anew without it. Where Kafka itself has the dir offline nothing can come to stand there, and no such look is needed.
"""

from spindle.cluster import names
from spindle.disks import facts
from spindle.disks.dir_list import read_list
from spindle.reconcile import objects
from spindle.reconcile.pod_disks import mode_in
from spindle.reconcile.reports import inspected
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState

_READ = (facts.OURS, facts.READONLY)  # what inspect calls a disk of ours that can be read


def unconfirmed(broker: SnapshotObject) -> frozenset[str]:
    """Disks that are to be left out, and of which nobody has seen yet that nothing stands on them.

    A broker that was found again runs with a placeholder dir besides, so it makes nothing anew whatever it lacks.
    """
    spec = broker["spec"]
    if spec.get("returning"):
        return frozenset()
    listed = read_list(spec.get("logDirs")).dirs
    return frozenset(
        disk["name"]
        for disk in spec.get("disks") or ()
        if disk.get("mode") == facts.ABSENT and listed.get(disk["name"]) == disk["directoryId"]
    )


def looked_at(pod: SnapshotObject | None) -> frozenset[str]:
    """Disks that a pod was made with only to look at them; none once Kafka ran in it."""
    if pod is None or objects.kafka_ever_ran(pod):
        return frozenset()
    return named_in(pod)


def named_in(pod: SnapshotObject) -> frozenset[str]:
    """Disks that a pod's annotation tells preflight to look at."""
    return frozenset(filter(None, (objects.annotation(pod, names.ANN_LEAVING) or "").split(",")))


def replicas_seen(pod: SnapshotObject | None, disk: str) -> int | None:
    """How many replicas a pod's first look found on a disk; None if there was none yet, or the disk could not be read."""
    found = inspected(pod).get(disk) or {}
    count = found.get("replicas")
    return int(count) if found.get("state") in _READ and count is not None else None


def seen_empty(state: ClusterState, broker_id: int, disk: str) -> bool:
    """Whether nothing can have come to stand on a disk that is to be left out, unseen by the passes while its broker runs.

    So it is if it was looked at while Kafka was stopped, or if the Kafka that runs is without it.
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
