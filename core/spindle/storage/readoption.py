"""Re-adopted brokers, rebuilt from their claims, and the lists of log dirs without which no broker starts.

Safety rule "no start with a log dir missing" (``docs/safety.md``). The claims may come from an old backup, and some may be missing. A broker that starts
without one of its dirs recreates the replicas on it empty; with any dir offline, Kafka recreates no replica whose directory id it does
not know (KIP-858). So a re-adopted broker runs with a placeholder dir next to its disks until all replicas assigned to it were found.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.brokers.claim_annotations import list_on, retired_of
from spindle.brokers.records import missing_disk
from spindle.disks.acceptance import ANN_ACCEPTED, parse
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of, list_of
from spindle.model.broker_records import BrokerRecords
from spindle.model.dir_list import DirList, newest, read_list
from spindle.model.events import Event
from spindle.model.ids import uuid_from_entropy
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key, ReplicaIndex, names_of
from spindle.model.reports import listed_on_disks
from spindle.model.snapshot import SnapshotObject
from spindle.model.stale_records import is_readopted, is_stale
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted, some

_ACTION: Final = "LocateDisks"
_PATIENCE: Final = 60.0  # seconds until a replica that no disk shows counts as being on a missing disk


def reconcile_readoption(state: ClusterState, builder: PlanBuilder, records: BrokerRecords) -> None:
    """Complete the records of re-adopted brokers, and keep every broker's list of log dirs up to date."""
    replica_index = ReplicaIndex(state.kafka)
    for broker_id, broker in state.brokers.items():
        if objects.deleting(broker):
            continue
        if is_stale(state, broker):
            _readopt(state, builder, records, broker_id, broker)
        if is_readopted(state, broker):
            _complete(state, builder, records, replica_index, broker_id, broker)
            continue
        wanted = list_of(state, broker)
        if wanted and wanted.document() != broker["spec"].get("logDirs"):
            records.note(broker_id, logDirs=wanted.document())
        _annotate_pod(state, builder, broker_id, wanted)


def _readopt(
    state: ClusterState, builder: PlanBuilder, records: BrokerRecords, broker_id: int, broker: SnapshotObject
) -> None:
    """Treat a broker whose record is older than its claims or disks as re-adopted: its record is completed from them."""
    if broker["spec"].get("returning"):
        return
    mine = [claim for disk in disks_of(broker) if (claim := state.claims.get(disk["claim"])) is not None]
    retired = list(dict.fromkeys([*retired_of(mine), *(broker["spec"].get("retired") or ())]))
    records.note(broker_id, returning=True, retired=retired)
    name = objects.name(broker)
    builder.events.append(
        Event(
            "Warning",
            "RecordOutdated",
            f"KafkaBroker {name} lacks log dirs that its claims or disks list: it was edited, or restored from an old copy. Spindle completes it "
            f"from them, and {name} restarts with a placeholder dir next to its disks until all its replicas are found.",
            "KafkaBroker",
            name,
            objects.uid(broker),
        )
    )


def _annotate_pod(state: ClusterState, builder: PlanBuilder, broker_id: int, wanted: DirList) -> None:
    """Put the list on the pod, whose preflight writes it to the disks."""
    pod = state.pods.get(broker_id)
    if pod is None or objects.deleting(pod) or not wanted or objects.kafka_runs(pod):
        return  # a pod whose preflight has ended does not need it
    if objects.annotation(pod, names.ANN_LOG_DIRS) != wanted.text():
        body = {"metadata": {"annotations": {names.ANN_LOG_DIRS: wanted.text()}}}
        builder.do(Patch(kind="Pod", name=objects.name(pod), uid=objects.uid(pod), body=body))


def _complete(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    replica_index: ReplicaIndex,
    broker_id: int,
    broker: SnapshotObject,
) -> None:
    """The next step of a re-adopted broker: complete its record from its disks and claims, then check that all replicas are there."""
    disks = {disk["name"]: disk for disk in disks_of(broker)}
    mine = {
        name: claim for name, disk in disks.items() if (claim := state.claims.get(disk["claim"])) is not None
    }
    pod = state.pods.get(broker_id)
    before = read_list(broker["spec"].get("logDirs"))
    known = newest([before, list_on(mine.values()), listed_on_disks(pod)])
    if known.generation > before.generation:
        records.note(broker_id, logDirs=known.document())
    changed = _follow(state, records, broker, disks, known) | _follow_claims(
        records, broker, disks, mine, known
    )
    for name, disk in disks.items():
        if disk.get("mode") == disk_facts.PLACEHOLDER and name not in mine:
            builder.wait(_missing(broker, disk))
        elif name in mine and objects.lost(mine[name]):
            builder.wait(_claim_lost(broker, disk))
    lost = replica_index.lost(broker_id)
    there = replica_index.brokers.get(broker_id)
    if (
        changed
        or lost is None
        or there is None
        or there.fenced
        or not _has_placeholder(replica_index, broker_id)
    ):
        return
    if not lost - _accepted_losses(replica_index, broker, disks):
        records.note(broker_id, returning=False)  # not None: the record was created with it
        return
    builder.wait(wait := _incomplete(broker, lost))
    explained = any(disk.get("mode") == disk_facts.PLACEHOLDER for disk in disks.values())
    if (
        state.waited(wait.key) > _PATIENCE
        and not explained
        and not _may_hold(replica_index, broker_id, disks)
    ):
        _add_missing_disk(state, records, broker_id, disks)


def _follow(
    state: ClusterState,
    records: BrokerRecords,
    broker: SnapshotObject,
    disks: Mapping[str, Mapping[str, Any]],
    known: DirList,
) -> bool:
    """Put the newest list on record; returns whether that changed anything."""
    broker_id = int(broker["spec"]["id"])
    retired = list(broker["spec"].get("retired") or ())
    changed = False
    for name, directory_id in known.dirs.items():
        disk = disks.get(name)
        if disk is None:
            entry = missing_disk(state, broker_id, name, directory_id)
            there = entry["claim"] in state.claims
            records.add_disk(broker_id, entry | ({"mode": disk_facts.ACTIVE} if there else {}))
            changed = True
        elif disk["directoryId"] != directory_id:
            if disk["directoryId"] not in retired:
                retired.append(disk["directoryId"])
                records.note(broker_id, retired=retired)
            mode = disk_facts.ACTIVE if disk["claim"] in state.claims else disk_facts.PLACEHOLDER
            records.note_disk(broker_id, name, directoryId=directory_id, fsUuid=None, mode=mode)
            changed = True
        elif (
            disk.get("mode") == disk_facts.ABSENT
            and disk["claim"] in state.claims
            and known != read_list(broker["spec"].get("logDirs"))
        ):
            records.note_disk(broker_id, name, mode=disk_facts.ACTIVE, added=None)
            changed = True
    return changed


def _follow_claims(
    records: BrokerRecords,
    broker: SnapshotObject,
    disks: Mapping[str, Mapping[str, Any]],
    mine: Mapping[str, SnapshotObject],
    known: DirList,
) -> bool:
    """Where no list has a disk, trust its claim, also one that a user corrected or restored; returns whether that changed anything."""
    changed = False
    for name, claim in mine.items():
        carried = objects.annotation(claim, names.ANN_DIRECTORY_ID)
        if name in known.dirs or not carried or carried in (broker["spec"].get("retired") or ()):
            continue
        if carried != disks[name]["directoryId"]:
            fresh: dict[str, Any] = {"directoryId": carried, "mode": disk_facts.ACTIVE, "fsUuid": None}
            records.note_disk(int(broker["spec"]["id"]), name, **fresh)
            changed = True
    return changed


def _accepted_losses(
    replica_index: ReplicaIndex, broker: SnapshotObject, disks: Mapping[str, Mapping[str, Any]]
) -> frozenset[Key]:
    """Partitions without any copy whose loss a user accepted together with a disk that is out of use: they are recreated empty.

    With the placeholder there, Kafka creates no replica of them (`ReplicaManager`: their dir is unknown), so they would be missing for
    ever. A disk goes out of use only when each of its replicas is elsewhere or its loss was accepted (safety rule "no format over the
    last copy", ``docs/safety.md``).
    """
    out = {name for name, disk in disks.items() if disk.get("mode") == disk_facts.ABSENT}
    accepted = parse(objects.annotation(broker, ANN_ACCEPTED))
    keys = {
        key for name, loss in accepted.items() if name in out and not loss.done for key in loss.partitions
    }
    return frozenset(
        key
        for key in keys
        if (found := replica_index.partitions.get(key)) is not None and found.leader is None
    )


def _has_placeholder(replica_index: ReplicaIndex, broker_id: int) -> bool:
    """Whether the answering Kafka process is the one with the placeholder."""
    path = names.log_dir(names.PLACEHOLDER_DIR)
    return any(log_dir.path == path for log_dir in replica_index.dirs(broker_id) or ())


def _may_hold(replica_index: ReplicaIndex, broker_id: int, disks: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether one of the broker's disks is offline and may hold the missing replicas."""
    offline = {log_dir.path for log_dir in replica_index.dirs(broker_id) or () if log_dir.error}
    return any(names.log_dir(name) in offline for name in disks)


def _add_missing_disk(
    state: ClusterState, records: BrokerRecords, broker_id: int, disks: Mapping[str, Mapping[str, Any]]
) -> None:
    """Add an entry for the missing disk that must hold these replicas, so that it is healed as a dead disk."""
    name = next(name for i in range(len(disks) + 1) if (name := names.disk_name(i)) not in disks)
    directory_id = uuid_from_entropy(state.snap.entropy, "missing", str(broker_id), name)
    records.add_disk(broker_id, missing_disk(state, broker_id, name, directory_id))


def _missing(broker: SnapshotObject, disk: Mapping[str, Any]) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        _ACTION,
        f"KafkaBroker/{name}/{disk['name']}",
        "ClaimMissing",
        f"{name} was readopted without claim {disk['claim']}. The claim belongs to the volume whose spindle.json names broker "
        f"{broker['spec']['id']}, {disk['name']}, directory id {disk['directoryId']}. {name} runs without this disk and creates no empty replicas.",
        f"Restore claim {disk['claim']} (from a backup, with spec.volumeName of that volume): Spindle then uses the disk again. Without it the "
        "disk counts as dead, and Spindle re-replicates its replicas from the others.",
    )


def _claim_lost(broker: SnapshotObject, disk: Mapping[str, Any]) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        _ACTION,
        f"PersistentVolumeClaim/{disk['claim']}",
        "ClaimLost",
        f"{name} was readopted, and claim {disk['claim']} is Lost: Kubernetes does not bind it to its volume. This happens when a claim is "
        "applied with the annotations of an earlier binding.",
        f"Delete claim {disk['claim']}, run for its volume: spindle volume rebind VOLUME (removes uid from spec.claimRef), and apply the claim again "
        "without the annotations that begin with pv.kubernetes.io/, with spec.volumeName of the volume. Spindle then uses the disk again.",
    )


def _incomplete(broker: SnapshotObject, lost: frozenset[Key]) -> Waiting:
    name = objects.name(broker)
    return Waiting(
        _ACTION,
        f"KafkaBroker/{name}",
        "ReplicasNotFound",
        f"{name} was readopted, and {counted(len(lost), 'replica')} that Kafka assigns to it {'is' if len(lost) == 1 else 'are'} on none of its disks: "
        f"{some(names_of(lost))}. It keeps a placeholder dir, so that Kafka recreates none of them empty.",
        "Restore the claim of the disk that holds them. If a claim's annotation spindle.dev/directory-id is older than its "
        "disk, set it to the directory.id in the disk's log/meta.properties. Without that, Spindle re-replicates them from the other replicas; where there "
        "is none, the condition DataAtRisk says how to accept their loss.",
    )
