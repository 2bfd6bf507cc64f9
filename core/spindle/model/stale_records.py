"""KafkaBrokers that list fewer log dirs than their claims and disks do: edited by hand, or restored from an old copy.

The list of log dirs is copied from the record to the claims and, through the pod, to the disks ("no start with a log dir missing", docs/safety.md). So a
record with an older list than its copies is not the one that wrote them, and the entry of a disk is never removed while the list has its dir. A broker started
from such a record would lack a dir and recreate its replicas empty. It is therefore treated like a broker that is readopted from its claims.
"""

from collections.abc import Mapping

from spindle.api import names
from spindle.model import objects
from spindle.model.dir_list import NO_LIST, DirList, newest, parse_list, read_list
from spindle.model.reports import listed_on_disks
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState


def is_readopted(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a broker's record still has to be completed from its claims and disks."""
    return bool(broker["spec"].get("returning")) or is_stale(state, broker)


def is_stale(state: ClusterState, broker: SnapshotObject) -> bool:
    """Whether a record lacks a listed disk, or has an older list than its copies."""
    return state.once(broker, state.stale, _is_stale)


def _is_stale(state: ClusterState, broker: SnapshotObject) -> bool:
    spec = broker["spec"]
    mine = read_list(spec.get("logDirs"))
    if mine.dirs.keys() - {disk["name"] for disk in spec.get("disks") or ()}:
        return True
    return given_out(state, broker).generation > mine.generation


def given_out(state: ClusterState, broker: SnapshotObject) -> DirList:
    """The newest list on a broker's claims, or on its disks as its pod inspected them."""
    return state.once(broker, state.given_out, _given_out)


def _given_out(state: ClusterState, broker: SnapshotObject) -> DirList:
    told = {_carried(state.claims, disk["claim"]) for disk in broker["spec"].get("disks") or ()}
    pod = state.pods.get(int(broker["spec"]["id"]))
    # Preflight starts no Kafka without a dir that is on a newer list.
    on_disks = NO_LIST if pod is None or objects.kafka_runs(pod) else listed_on_disks(pod)
    return newest([on_disks, *(parse_list(text) for text in told if text)])


def _carried(claims: Mapping[str, SnapshotObject], name: str) -> str | None:
    claim = claims.get(name)
    return objects.annotation(claim, names.ANN_LOG_DIRS) if claim is not None else None
