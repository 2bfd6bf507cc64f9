"""Acts on what preflight found on the disks: clearances to format, placeholders for unusable disks, and reports to the user.

Clearances follow "no format over the last copy" and "no second bootstrap" (`docs/safety.md`, rules 1 and 13).
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final

from spindle.api import names
from spindle.api.enums import DiskState
from spindle.disks.acceptance import ANN_ACCEPTED, parse
from spindle.disks.rules import Cleared, may_clear, may_format, may_format_voter
from spindle.model import disk_facts, objects
from spindle.model.actions import Patch
from spindle.model.broker_disks import disks_of, in_use_before
from spindle.model.broker_records import BrokerRecords
from spindle.model.claim_release import refuse
from spindle.model.cluster_identity import NodeIdentity, identity_map
from spindle.model.dir_list import read_list
from spindle.model.layout import METADATA_DISK
from spindle.model.plan_builder import PlanBuilder
from spindle.model.replica_index import Key
from spindle.model.reports import inspected, nonce_of
from spindle.model.requests import RestartRequest
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.waiting import Waiting, counted
from spindle.moves.journal_record import note_journal

_REPLACED: Final = (
    "Bring back the original disk, bound to this claim. If it is lost, there is nothing to do: the broker starts without it, Spindle re-replicates "
    "its partitions from other replicas, and then puts the blank disk into use under a new directory id."
)
_REPLACED_ALONE: Final = (
    "Bring back the original disk, bound to this claim. The broker has no other disk to start with: Spindle puts the blank disk into use under a "
    "new directory id when Kafka reports that no data is lost by that, or when you accept the loss by name (the condition DataAtRisk shows how)."
)
NO_UUID: Final = "none"  # recorded for a file system that has no UUID
_VALID: Final = 600  # seconds until a clearance expires, for a preflight version without nonces
_RENEW: Final = 60
_ACTION: Final = "Format"
_UNUSABLE: Final = frozenset(
    {disk_facts.FOREIGN, disk_facts.NOT_MOUNTED, disk_facts.DEAD, disk_facts.READONLY}
)

InspectedDisk = Mapping[str, Any]


def reconcile_disks(
    state: ClusterState,
    builder: PlanBuilder,
    identity: NodeIdentity,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
) -> None:
    """Clear blank disks for formatting, record what was formatted, exclude unusable disks."""
    _note_bootstrap(state, builder)
    note_journal(state, builder)
    for broker_id, broker in state.brokers.items():
        pod = state.pods.get(broker_id)
        if pod is not None and not objects.deleting(pod):
            _reconcile_broker(state, builder, records, wanted, broker, pod)
    fresh: dict[str, dict[str, str]] = {}
    for node_id in state.controller_ids:
        pod = state.pods.get(node_id)
        found = inspected(pod).get(METADATA_DISK)
        if pod is not None and found is not None and not objects.deleting(pod):
            fresh |= _reconcile_controller(state, builder, identity, node_id, pod, found)
    if fresh:
        _record_voters(state, builder, identity, fresh)


def _note_bootstrap(state: ClusterState, builder: PlanBuilder) -> None:
    record = state.config_maps.get(names.identity_map(state.name))
    if record is not None and not state.born and state.kafka.brokers and state.kafka.partitions is not None:
        builder.do(
            Patch(
                kind="ConfigMap",
                name=objects.name(record),
                uid=objects.uid(record),
                body={"metadata": {"annotations": {names.ANN_BORN: "true"}}},
                reason="ClusterIdentityCreated",
                message="Kafka is running for the first time; from now on Spindle checks with Kafka before it formats a disk.",
            )
        )


def _reconcile_broker(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    broker: SnapshotObject,
    pod: SnapshotObject,
) -> None:
    broker_id = int(broker["spec"]["id"])
    report, runs, ready = inspected(pod), objects.kafka_runs(pod), prepared(pod)
    disks = disks_of(broker)
    usable = {
        d["name"]
        for d in disks
        if (report.get(d["name"]) or {}).get("state") in (disk_facts.OURS, disk_facts.BLANK)
        and d.get("mode") != disk_facts.ABSENT
    }
    ours = {name for name in usable if report[name].get("state") == disk_facts.OURS}
    cleared = []
    for disk in disks:
        found = report.get(disk["name"]) or {}
        what = found.get("state")
        if disk.get("mode", disk_facts.ACTIVE) != disk_facts.ACTIVE:
            continue
        # The inspection at the pod's start is outdated if the runtime can no longer create a container with the disk.
        gone = not runs and volume_unreadable(state, disk, pod)
        bad = gone or (what in _UNUSABLE and not runs)
        if bad:
            seen, running = ({}, False) if gone else (found, ready)
            alone = not usable - {disk["name"]}
            _unusable(builder, records, wanted, broker, disk, seen, alone=alone, running=running)
            if not running:
                _exclude_added(state, builder, records, wanted, broker_id, disk, seen)
        elif what == disk_facts.OURS:
            fs_uuid = found.get("fsUuid") or NO_UUID
            if not disk.get("fsUuid") and _is_about(found, disk["directoryId"], fs_uuid):
                records.note_disk(broker_id, disk["name"], fsUuid=fs_uuid)
        elif (
            what == disk_facts.BLANK
            and not ready
            and _clear_broker_disk(
                state, builder, records, wanted, broker_id, disk, found, others=bool(ours - {disk["name"]})
            )
        ):
            cleared.append(_clearance(disk["name"], disk["pvUid"], disk["fsUuid"], disk["directoryId"]))
        if (
            ready
            and what in (disk_facts.OURS, disk_facts.BLANK)
            and _is_about(found, disk["directoryId"], disk.get("fsUuid"))
        ):
            _remember(state, builder, disk["claim"], found)
    _give(state, builder, pod, cleared)


def _clear_broker_disk(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    broker_id: int,
    disk: InspectedDisk,
    found: InspectedDisk,
    *,
    others: bool,
) -> bool:
    """Whether this blank disk may be formatted now; the file system is recorded one pass before the clearance is given.

    "No format over the last copy" (`docs/safety.md`, rule 1) is checked in every pass: the situation may have changed since the file system
    was recorded, and the record may be from an earlier inspection (an evacuated disk keeps its file system, and a recreated claim does not
    show that it was in use).

    Args:
        state, builder, records, wanted: of this pass.
        broker_id: the broker with the disk.
        disk: the recorded entry of the disk.
        found: the inspection result of the pod.
        others: whether the broker has another disk that it can start with.
    """
    thing = f"KafkaBroker/{names.broker_name(state.name, broker_id)}"
    fs_uuid = found.get("fsUuid") or NO_UUID
    if not disk.get("pvUid"):
        return False  # the volume is recorded in the next pass
    if disk.get("fsUuid") and (refusal := _not_as_recorded(state, disk, fs_uuid, others=others)) is not None:
        builder.wait(Waiting.of(_ACTION, f"{thing}/{disk['name']}", refusal))
        return False
    # Before Kafka has run for the first time there is no data. Nor is there on an added disk or on the replacement of an evacuated one
    # ("no log dir removed with replicas on it", rule 5; the directory id is new). Else Kafka must report which replicas the broker has.
    fresh = state.kafka.partitions is None and not state.born
    if fresh and (wait := _until_the_quorum_stands(state, f"{thing}/{disk['name']}")) is not None:
        builder.wait(wait)
        return False
    on_disk = () if fresh or disk.get("added") else _was_on(state, broker_id, disk)
    refusal = may_format(state.kafka, broker_id, on_disk)
    if refusal is not None and others and in_use_before(state.brokers[broker_id], disk):
        # The replicas on its other disks need not wait for the decision about this one.
        _start_without(records, wanted, broker_id, disk["name"])
        return False
    if refusal is not None:
        builder.wait(Waiting.of(_ACTION, f"{thing}/{disk['name']}", refusal))
        return False
    if (
        not others
        and in_use_before(state.brokers[broker_id], disk)
        and state.kafka.partition_index.assigned.get(broker_id)
    ):
        return False  # it gets a new directory id first: Kafka knows the present one as that of a disk with replicas
    if not disk.get("fsUuid"):
        records.note_disk(broker_id, disk["name"], fsUuid=fs_uuid)
        return False
    return True


def _not_as_recorded(
    state: ClusterState, disk: InspectedDisk, fs_uuid: str, *, others: bool
) -> Waiting | None:
    """Why a blank file system is not the recorded one of a disk, or has lost its content; None if it may be formatted.

    ``others``: whether the broker has another disk that it can start with.
    """
    recorded = [Cleared(disk["directoryId"], disk["pvUid"], disk["fsUuid"])]
    refusal = may_clear(disk["directoryId"], disk["pvUid"], fs_uuid, recorded)
    if refusal is not None:
        return replace(refusal, unblocked_by=_REPLACED if others else _REPLACED_ALONE)
    return _content_lost(disk["name"]) if _was_formatted(state, disk["claim"], fs_uuid) else None


def _until_the_quorum_stands(state: ClusterState, thing: str) -> Waiting | None:
    """The wait for the quorum before a broker of a new cluster is formatted and started.

    The broker reads the voters from the metadata log. If a second election truncated that record before it was committed, the broker would
    never find a controller again (Kafka's KRaftControlRecordStateMachine, docs/adr/0032).
    """
    pods = [pod for node_id in state.controller_ids if (pod := state.pods.get(node_id)) is not None]
    ready = sum(objects.container_status(pod, names.CONTAINER_KAFKA).get("ready") is True for pod in pods)
    needed = len(state.controller_ids) // 2 + 1
    if ready >= needed:
        return None
    return Waiting(
        _ACTION,
        thing,
        "QuorumPending",
        f"Disks of new brokers are not formatted yet: {ready} of {counted(len(state.controller_ids), 'controller')} "
        f"{'is' if ready == 1 else 'are'} in a quorum that has committed records; {needed} are needed.",
        f"Nothing to do: Spindle continues when {needed} of them are.",
        quiet=True,
    )


def _was_on(state: ClusterState, broker_id: int, disk: InspectedDisk) -> Collection[Key] | None:
    """The partitions to check for "no format over the last copy" (`docs/safety.md`, rule 1); None for all partitions.

    Empty for a new disk in place of an evacuated one that the broker ran without: then its list of log dirs, which a dir leaves only when it is
    confirmed to be empty, has another disk, whether that one is usable now or not. A broker without another disk ran with the old disk to the end
    and may have got new replicas on it: then all partitions are checked but those whose loss is accepted for every replica.
    """
    broker = state.brokers[broker_id]
    entries = (broker.get("status") or {}).get("disks") or ()
    new = {e.get("name") for e in entries if e.get("state") == DiskState.REPLACING}
    others = [d for d in disks_of(broker) if d["name"] not in new]
    listed = read_list(broker["spec"].get("logDirs")).dirs
    if disk["name"] in new and any(
        d["name"] in listed or d.get("mode", disk_facts.ACTIVE) == disk_facts.ACTIVE for d in others
    ):
        return ()
    everything = state.kafka.partitions
    if everything is None or not _accepted_on(broker):
        return None
    accepted = {i: found for i, each in state.brokers.items() if (found := _accepted_on(each))}
    # Where another broker may still have a replica, that one is elected before an empty one is created.
    given_up = {
        key
        for key in accepted[broker_id]
        if (there := state.kafka.partition_index.by_key.get(key)) is not None
        and all(key in accepted.get(other, ()) for other in there.replicas)
    }
    return {(p.topic, p.index) for p in everything} - given_up


def _accepted_on(broker: SnapshotObject) -> frozenset[Key]:
    """Partitions whose loss on this broker is accepted."""
    acceptances = parse(objects.annotation(broker, ANN_ACCEPTED)).values()
    return frozenset(key for each in acceptances if not each.done for key in each.partitions)


def _reconcile_controller(
    state: ClusterState,
    builder: PlanBuilder,
    identity: NodeIdentity,
    node_id: int,
    pod: SnapshotObject,
    found: InspectedDisk,
) -> dict[str, dict[str, str]]:
    """Clear a controller's blank disk; returns directory id → clearance to record before that."""
    claim = state.claim(node_id, METADATA_DISK)
    volume = state.volume(claim)
    voter = next((v for v in identity.members if v.id == node_id), None)
    if claim is None or volume is None or voter is None:
        return {}
    if objects.annotation(claim, names.ANN_DIRECTORY_ID) != voter.directory_id:
        return {}  # its new directory id is being recorded
    thing = f"Pod/{objects.name(pod)}"
    if prepared(pod):
        if objects.kafka_ever_ran(pod) and _is_about(
            found, voter.directory_id, found.get("fsUuid") or NO_UUID
        ):
            _remember(state, builder, objects.name(claim), found)
        return {}
    if found.get("state") in _UNUSABLE:
        problem = str(found.get("problem") or found["state"])
        builder.wait(Waiting("ActivateDisk", thing, "DiskUnusable", problem, _way_out(found)))
    if found.get("state") != disk_facts.BLANK:
        return {}
    fs_uuid, pv_uid = found.get("fsUuid") or NO_UUID, objects.uid(volume)
    recorded = [Cleared(d, c["pvUid"], c["fsUuid"]) for d, c in identity.clearances.items()]
    formatted = objects.annotation(claim, names.ANN_FS_UUID) is not None
    refusal = may_format_voter(voter.directory_id, pv_uid, fs_uuid, recorded, seen_running=formatted)
    if refusal is not None:
        builder.wait(Waiting.of(_ACTION, thing, refusal))
    elif voter.directory_id not in identity.clearances:
        return {voter.directory_id: {"claim": objects.name(claim), "pvUid": pv_uid, "fsUuid": fs_uuid}}
    else:
        _give(state, builder, pod, [_clearance(METADATA_DISK, pv_uid, fs_uuid, voter.directory_id)])
    return {}


def _record_voters(
    state: ClusterState, builder: PlanBuilder, identity: NodeIdentity, fresh: Mapping[str, Mapping[str, str]]
) -> None:
    """Record which file systems get the voters' directory ids, before they are formatted."""
    record = state.config_maps[names.identity_map(state.name)]
    wanted = replace(identity, clearances={**identity.clearances, **fresh})
    builder.do(
        Patch(
            kind="ConfigMap",
            name=objects.name(record),
            uid=objects.uid(record),
            body={"data": identity_map(state.name, state.namespace, wanted)["data"]},
            resource_version=objects.version(record),
        )
    )


def _clearance(disk: str, pv_uid: str, fs_uuid: str, directory_id: str) -> dict[str, Any]:
    return {
        "disk": disk,
        "pvUid": pv_uid,
        "fsUuid": None if fs_uuid == NO_UUID else fs_uuid,
        "directoryId": directory_id,
    }


def _give(
    state: ClusterState, builder: PlanBuilder, pod: SnapshotObject, cleared: list[dict[str, Any]]
) -> None:
    """Write clearances to the pod, unless they are there already.

    Each contains the nonce of the pod's inspection and the pod's UID, so that it applies to this inspection and to no later one.
    """
    if not cleared:
        return
    nonce = nonce_of(pod)
    if nonce is None:
        wanted = _until(state, pod, cleared)
    else:
        wanted = [entry | {"nonce": nonce, "podUid": objects.uid(pod)} for entry in cleared]
    text = json.dumps(wanted)
    if text == objects.annotation(pod, names.ANN_CLEARANCE):
        return
    disks = ", ".join(entry["disk"] for entry in cleared)
    builder.do(
        Patch(
            kind="Pod",
            name=objects.name(pod),
            uid=objects.uid(pod),
            body={"metadata": {"annotations": {names.ANN_CLEARANCE: text}}},
            reason="DiskCleared",
            message=f"{objects.name(pod)} may format {disks}: blank, and no data is lost.",
        )
    )


def _until(state: ClusterState, pod: SnapshotObject, cleared: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Clearances with an expiry, for preflight versions without nonces; an existing expiry is kept until shortly before it is reached."""
    try:
        existing = json.loads(objects.annotation(pod, names.ANN_CLEARANCE) or "[]")
        times = [entry["expires"] for entry in existing if entry["expires"] > state.now + _RENEW]
    except (ValueError, TypeError, KeyError):
        times = []
    expires = times[0] if times else int(state.now) + _VALID
    return [entry | {"expires": expires} for entry in cleared]


def _remember(state: ClusterState, builder: PlanBuilder, claim_name: str, found: InspectedDisk) -> None:
    """Record on the claim which file system carries the disk's identity now."""
    claim = state.claims.get(claim_name)
    fs_uuid = found.get("fsUuid") or NO_UUID
    if claim is not None and objects.annotation(claim, names.ANN_FS_UUID) is None:
        builder.do(
            Patch(
                kind="PersistentVolumeClaim",
                name=claim_name,
                uid=objects.uid(claim),
                body={"metadata": {"annotations": {names.ANN_FS_UUID: fs_uuid}}},
            )
        )


def _is_about(found: InspectedDisk, directory_id: str, fs_uuid: str | None) -> bool:
    """Whether the report is about the disk on record: a pod that started before the disk was replaced still has the report on the old one."""
    seen = (found.get("identity") or {}).get("directoryId")
    return bool(seen == directory_id) if seen else (found.get("fsUuid") or NO_UUID) == fs_uuid


def _was_formatted(state: ClusterState, claim_name: str, fs_uuid: str) -> bool:
    claim = state.claims.get(claim_name)
    return claim is not None and objects.annotation(claim, names.ANN_FS_UUID) == fs_uuid


def _content_lost(disk: str) -> Waiting:
    return Waiting.refused(
        rule=1,
        reason="DiskContentLost",
        message=f"{disk} is not formatted: it has the same file system as before, but its content is gone.",
        unblocked_by="Restore the content; or create a new file system on it (mkfs), so that it counts as a new disk.",
    )


def prepared(pod: SnapshotObject) -> bool:
    """Whether preflight has succeeded in this pod."""
    ended = (objects.container_status(pod, names.CONTAINER_PREFLIGHT).get("state") or {}).get(
        "terminated"
    ) or {}
    return ended.get("exitCode") == 0


def volume_unreadable(state: ClusterState, disk: InspectedDisk, pod: SnapshotObject) -> bool:
    """Whether the container runtime cannot create a container because it cannot read this disk on the node.

    Its message names the path of the volume on the node or, in a pod that has mounted it, the kubelet's path:
    ``…/volumes/<plugin>/<volume>``.
    """
    volume = state.volume(state.claims.get(disk["claim"]))
    if volume is None:
        return False
    local = ((volume.get("spec") or {}).get("local") or {}).get("path")
    places = [re.escape(local)] if local else []
    places.append(rf"/volumes/[^/\s]+/{re.escape(objects.name(volume))}")
    named = re.compile(rf"(?:{'|'.join(places)})(?![\w.-])")
    waiting = [objects.waiting(pod, container) or {} for container in names.NODE_CONTAINERS]
    return any(
        each.get("reason") == "CreateContainerError" and named.search(str(each.get("message")))
        for each in waiting
    )


def _unusable(
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    broker: SnapshotObject,
    disk: InspectedDisk,
    found: InspectedDisk,
    *,
    alone: bool,
    running: bool,
) -> None:
    """Report a disk that cannot be used; start without it if it was in use before and the broker has another disk."""
    broker_id, name = int(broker["spec"]["id"]), disk["name"]
    problem = str(found.get("problem") or "the node cannot read its path")
    builder.wait(
        Waiting(
            "ActivateDisk",
            f"KafkaBroker/{objects.name(broker)}/{name}",
            "DiskUnusable",
            f"{name}: {problem}",
            _way_out(found),
        )
    )
    # If preflight let Kafka start anyway, Kafka keeps the dir offline and the broker runs.
    if disk.get("fsUuid") and not alone and not running:
        _start_without(records, wanted, broker_id, name)


def _start_without(
    records: BrokerRecords, wanted: dict[int, RestartRequest], broker_id: int, disk: str
) -> None:
    """Start a broker with a placeholder in place of a disk, so that Kafka recreates none of its replicas empty."""
    records.note_disk(broker_id, disk, mode=disk_facts.PLACEHOLDER)
    wanted.setdefault(broker_id, RestartRequest("DiskUnusable", f"it starts without {disk}"))


def _exclude_added(
    state: ClusterState,
    builder: PlanBuilder,
    records: BrokerRecords,
    wanted: dict[int, RestartRequest],
    broker_id: int,
    disk: InspectedDisk,
    found: InspectedDisk,
) -> None:
    """Exclude a disk that was being added and cannot be used: the broker starts without it and is not restarted for it again."""
    claim = state.claims.get(disk["claim"])
    if not disk.get("added") or disk.get("fsUuid") or claim is None:
        return
    builder.do(refuse(claim, str(found.get("problem") or "the node cannot read its path")))
    records.note_disk(broker_id, disk["name"], mode=disk_facts.ABSENT)
    wanted.setdefault(broker_id, RestartRequest("DiskUnusable", f"it starts without {disk['name']}"))


def _way_out(found: InspectedDisk) -> str:
    return str(found.get("wayOut") or "Put the right disk back, mounted and writable.")
