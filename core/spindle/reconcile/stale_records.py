"""KafkaBrokers that know less of their broker's log dirs than its claims and disks do: edited by hand, or put back as they once were.

The list of log dirs goes from the record to the claims, and by the pod to the disks (rule 15). So a record that is older than what it gave out is not
the one that gave it. Nor does an entry of a disk ever go while the list names its dir. Started by such a record the broker would be without a dir and
make its replicas anew, empty; it counts as one that was found again by its claims.
"""

from collections.abc import Mapping

from spindle.cluster import names
from spindle.disks.dir_list import NO_LIST, DirList, newest, parse_list, read_list
from spindle.reconcile import objects
from spindle.reconcile.reports import listed_on_disks
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState


def is_readopted(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a broker's record has yet to be completed by what its claims and disks know."""
    return bool(broker["spec"].get("returning")) or is_stale(state, broker)


def is_stale(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a record lacks a disk that is listed, or its list is older than one that it gave out."""
    spec = broker["spec"]
    mine = read_list(spec.get("logDirs"))
    if mine.dirs.keys() - {disk["name"] for disk in spec.get("disks") or ()}:
        return True
    return given_out(state, broker).generation > mine.generation


def given_out(state: ClusterState, broker: SnapshotObject) -> DirList:
    """The newest list that a broker's claims, or its disks as its pod looked at them, carry."""
    told = {_carried(state.claims, disk["claim"]) for disk in broker["spec"].get("disks") or ()}
    pod = state.pods.get(int(broker["spec"]["id"]))
    # Preflight lets no Kafka start without a dir that is on a newer list.
    on_disks = NO_LIST if pod is None or objects.kafka_runs(pod) else listed_on_disks(pod)
    return newest([on_disks, *(parse_list(text) for text in told if text)])


def _carried(claims: Mapping[str, SnapshotObject], name: str) -> str | None:
    claim = claims.get(name)
    return objects.annotation(claim, names.ANN_LOG_DIRS) if claim is not None else None
