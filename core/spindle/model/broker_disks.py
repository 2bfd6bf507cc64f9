"""The disks of a KafkaBroker and the list of its log dirs."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from spindle.model.dir_list import NO_LIST, DirList, read_list
from spindle.model.dir_removal import ends_without, seen_empty
from spindle.model.disk_facts import ABSENT, ACTIVE
from spindle.model.pod_disks import mode_in
from spindle.model.snapshot import SnapshotObject
from spindle.model.stale_records import is_readopted
from spindle.model.state import ClusterState


def list_of(state: ClusterState, broker: SnapshotObject) -> DirList:
    """The list of a broker's log dirs: the one on record, or its successor.

    A leaving dir stays on it until it is confirmed to be empty. Whether the record of a re-adopted broker is complete is not known yet, so its
    list does not change.
    """
    before = read_list(broker["spec"].get("logDirs"))
    if is_readopted(state, broker):
        return before
    dirs = {
        disk["name"]: disk["directoryId"]
        for disk in disks_of(broker)
        if (disk.get("fsUuid") or before.dirs.get(disk["name"]) == disk["directoryId"])
        and (disk.get("mode") != ABSENT or _may_hold(state, broker, disk, before))
    }
    return before.changed_to(dirs) if dirs or before else NO_LIST


def _may_hold(state: ClusterState, broker: SnapshotObject, disk: Mapping[str, Any], before: DirList) -> bool:
    """Whether a disk that is to be excluded may still hold replicas: it is listed, or in the pod, and not confirmed to be empty."""
    broker_id, name = int(broker["spec"]["id"]), str(disk["name"])
    listed = before.dirs.get(name) == disk["directoryId"]
    there = mode_in(state.pods.get(broker_id), name) == ACTIVE
    if before and not listed and ends_without(state, broker_id, name):
        return False
    return (listed or there) and not seen_empty(state, broker_id, name)


def in_use_before(broker: SnapshotObject, disk: Mapping[str, Any]) -> bool:
    """Whether a disk without a file system on record was in use: the list of log dirs has its directory id.

    That is so for a re-adopted broker if the claim of the disk had been recreated before. A blank disk is then not the one that was in use.
    """
    if disk.get("fsUuid"):
        return False
    listed = read_list((broker.get("spec") or {}).get("logDirs")).dirs
    return bool(listed.get(disk["name"]) == disk["directoryId"])


def disks_of(broker: SnapshotObject) -> list[Mapping[str, Any]]:
    """The disks of a KafkaBroker in the order of their numbers: disk2 before disk10."""
    disks: Sequence[Mapping[str, Any]] = (broker.get("spec") or {}).get("disks") or ()
    return [disks[place] for place in _order(tuple([disk["name"] for disk in disks]))]


@lru_cache(maxsize=1024)
def _order(disks: tuple[str, ...]) -> tuple[int, ...]:
    """Places of disks in the order of their numbers. Nearly all brokers have disks of the same names."""
    return tuple(sorted(range(len(disks)), key=lambda place: (len(disks[place]), disks[place])))
