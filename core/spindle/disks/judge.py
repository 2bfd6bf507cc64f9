"""Decides what to do with a disk that was found: use it, format it, start without it, or refuse to start.

See "no disk mistaken for another" (`docs/safety.md`, rule 7).
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spindle.model import disk_facts
from spindle.model.dir_list import DirList
from spindle.model.disk_facts import Clearance, Expected, Found, InspectionId
from spindle.model.disk_identity import Identity, MetaProperties

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


_CONTENTS: Final = (disk_facts.OURS, disk_facts.BLANK, disk_facts.FOREIGN)


class PreflightVerdict(StrEnum):
    """What preflight does with a disk."""

    USE = "use"
    NEEDS_CLEARANCE = "needs-clearance"
    RESUME = "resume"  # a cleared format that was started and only has to be completed
    PLACEHOLDER = "placeholder"  # put a regular file in its place, so that Kafka finds the log dir offline
    OFFLINE = "offline"  # leave it: Kafka detects the error itself and runs without it
    REFUSE = "refuse"


@dataclass(frozen=True)
class Judgement:
    """A verdict on one disk.

    Attributes:
        state: the state in inspect's report.
        reason: one clause on what is wrong; empty if nothing is.
        way_out: what the user does about it.
    """

    verdict: PreflightVerdict
    state: str
    reason: str = ""
    way_out: str = ""


def judge(expected: Expected, found: Found) -> Judgement:
    """Judge one disk by its record and by what was found at its mount point."""
    if expected.mode == disk_facts.PLACEHOLDER:
        return Judgement(PreflightVerdict.PLACEHOLDER, disk_facts.IS_PLACEHOLDER)
    if found.error is not None:
        return _dead(expected, found.error)
    if not found.mounted and not expected.shared_filesystem:
        return Judgement(
            PreflightVerdict.REFUSE,
            disk_facts.NOT_MOUNTED,
            f"{expected.disk} is not mounted: its path is an empty directory on the node's own file system",
            "mount the disk on the node, then delete the pod",
        )
    if (wrong := _wrong_identity(expected, found)) is not None:
        return wrong
    if found.meta is None:
        return _without_meta(expected, found)
    if found.readonly or found.writable is False:
        return _unwritable(
            expected, found, PreflightVerdict.REFUSE if expected.controller else PreflightVerdict.OFFLINE
        )
    return Judgement(PreflightVerdict.USE, disk_facts.OURS)


def content(expected: Expected, found: Found) -> Judgement:
    """The content of a disk, regardless of its condition: ours, blank or foreign, or unknown if it could not be read.

    This verdict alone permits no action. The texts for a foreign disk are those of preflight.
    """
    if found.error is not None or (not found.mounted and not expected.shared_filesystem):
        return Judgement(PreflightVerdict.OFFLINE, disk_facts.UNKNOWN)
    in_use = replace(expected, mode=disk_facts.ACTIVE)
    judgement = judge(in_use, replace(found, readonly=False, writable=True))
    return judgement if judgement.state in _CONTENTS else replace(judgement, state=disk_facts.UNKNOWN)


def may_write_identity(
    expected: Expected, found: Found, clearances: Iterable[Clearance], look: InspectionId
) -> bool:
    """Whether one of the clearances permits formatting this disk now: it must answer this inspection by this pod.

    The file system is compared, not the volume: preflight cannot see which volume it was given.
    """
    return any(
        clearance.disk == expected.disk
        and clearance.directory_id == expected.directory_id
        and (clearance.fs_uuid or None) == found.fs_uuid
        and (clearance.nonce, clearance.pod_uid) == (look.nonce, look.pod_uid)
        for clearance in clearances
    )


def unused(clearances: Iterable[Clearance], used: Collection[str]) -> list[Clearance]:
    """Clearances whose directory id this pod has not written yet: each is used once."""
    return [clearance for clearance in clearances if clearance.directory_id not in used]


def left_out(expected: Iterable[Expected], newer: DirList) -> dict[str, str]:
    """Dirs on the newest list that the broker would start without; disk → directory id.

    See "no start with a log dir missing" (`docs/safety.md`, rule 15). Empty if the broker has a placeholder: while a dir is offline, Kafka
    does not recreate replicas whose directory id it does not know.
    """
    disks = list(expected)
    if any(disk.mode == disk_facts.PLACEHOLDER for disk in disks):
        return {}
    there = {(disk.disk, disk.directory_id) for disk in disks}
    return {name: directory for name, directory in newer.dirs.items() if (name, directory) not in there}


def _dead(expected: Expected, error: str) -> Judgement:
    if expected.controller:
        return Judgement(
            PreflightVerdict.REFUSE,
            disk_facts.DEAD,
            f"the only disk of controller {expected.node_id} does not answer: {error}",
            "replace the disk; the other controllers continue without this one",
        )
    return Judgement(
        PreflightVerdict.OFFLINE,
        disk_facts.DEAD,
        f"{expected.disk} does not answer: {error}",
        "nothing to do for the start: Kafka runs without the disk",
    )


def _unwritable(expected: Expected, found: Found, verdict: PreflightVerdict) -> Judgement:
    if found.readonly:
        reason = f"{expected.disk} is mounted read-only"
        way_out = "look for the cause in the node's kernel log, then remount it read-write"
    else:
        reason = f"Kafka's user has no permission to write to {expected.disk}"
        way_out = (
            "give group 1000 write access to the volume's root, or use a volume type that supports fsGroup"
        )
    return Judgement(verdict, disk_facts.READONLY, reason, way_out)


def _wrong_identity(expected: Expected, found: Found) -> Judgement | None:
    """Refuse a disk that names another cluster, node, disk or directory id, or whose identity cannot be parsed.

    See "no disk mistaken for another" (`docs/safety.md`, rule 7).
    """

    def foreign(reason: str, way_out: str) -> Judgement:
        return Judgement(PreflightVerdict.REFUSE, disk_facts.FOREIGN, reason, way_out)

    if (retired := _retired(expected, found)) is not None:
        return foreign(
            f"in the slot of {expected.disk} is a disk of this broker that was evacuated (directory id {retired}); its data is stale",
            "insert a new disk; or, if this disk is healthy and its data is not needed, create a new file system on it",
        )
    put_back = f"reinsert the disk of broker {expected.node_id}, or wipe this one if its data is not needed"
    if expected.controller:
        put_back = put_back.replace("broker", "controller")
    if found.garbled is not None:
        return foreign(f"{expected.disk}: {found.garbled}", put_back)
    for what, file in ((found.identity, "spindle.json"), (found.pending, "spindle.json.pending")):
        if what is not None and (other := _other(expected, what)) is not None:
            return foreign(f"where {expected.disk} should be, {file} names {other}", put_back)
    if found.meta is not None and (other := _other(expected, found.meta)) is not None:
        return foreign(f"where {expected.disk} should be, meta.properties names {other}", put_back)
    ours = found.identity is not None or found.meta is not None
    if ours and another_filesystem(expected.fs_uuid, found.fs_uuid):
        return foreign(
            f"{expected.disk} has the right identity, but its file system is {found.fs_uuid} instead of {expected.fs_uuid}, which was "
            "formatted: it is a copy and may lack records that were acknowledged since",
            "reinsert the original disk, or wipe the copy",
        )
    return None


def _retired(expected: Expected, found: Found) -> str | None:
    """The retired directory id found on a disk; None if there is none."""
    for carried in (found.identity, found.pending, found.meta):
        if (
            carried is not None
            and (carried.cluster_id, carried.node_id) == (expected.cluster_id, expected.node_id)
            and carried.directory_id in expected.retired
        ):
            return carried.directory_id
    return None


def another_filesystem(recorded: str | None, found: str | None) -> bool:
    """Whether two file systems are certainly different.

    Only real UUIDs prove that: a substitute may change with a reboot, or become a UUID with a newer kernel.
    """
    return (
        recorded is not None
        and found is not None
        and _UUID.fullmatch(recorded) is not None
        and _UUID.fullmatch(found) is not None
        and recorded != found
    )


def _other(expected: Expected, carried: Identity | MetaProperties) -> str | None:
    """The cluster, node, disk or directory id that a disk belongs to instead; None if it belongs here."""
    if carried.cluster_id != expected.cluster_id:
        return f"another cluster, {carried.cluster_id} (this is {expected.cluster_id})"
    if carried.node_id != expected.node_id:
        return f"another node, {carried.node_id} (this is {expected.node_id})"
    if isinstance(carried, Identity) and carried.disk != expected.disk:
        return f"another disk of this node, {carried.disk}"
    if carried.directory_id != expected.directory_id:
        return f"another directory id, {carried.directory_id} (recorded is {expected.directory_id})"
    return None


def _without_meta(expected: Expected, found: Found) -> Judgement:
    """Judge a disk without ``meta.properties``: a blank one, or one whose format was started."""
    if found.identity is not None:
        # Our formats write the identity last, so this disk was in use: it must not be formatted again automatically.
        return Judgement(
            PreflightVerdict.REFUSE,
            disk_facts.FOREIGN,
            f"{expected.disk} is ours, but meta.properties is missing in its log dir",
            "restore the file with the recorded directory id, or wipe the disk if its data is not needed",
        )
    resumes = found.pending is not None and expected.controller
    if found.partitions and not resumes:
        return _unidentified_data(expected, ("log",))
    if found.strangers:
        return _unidentified_data(expected, found.strangers)
    if found.readonly or found.writable is False:
        return _unwritable(expected, found, PreflightVerdict.REFUSE)
    if resumes:
        return Judgement(PreflightVerdict.RESUME, disk_facts.OURS)
    return Judgement(
        PreflightVerdict.NEEDS_CLEARANCE,
        disk_facts.BLANK,
        f"{expected.disk} is blank",
        "nothing to do: the operator clears it for formatting as soon as no data can be lost by that",
    )


def _unidentified_data(expected: Expected, names: tuple[str, ...]) -> Judgement:
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return Judgement(
        PreflightVerdict.REFUSE,
        disk_facts.FOREIGN,
        f"{expected.disk} has no identity but contains data ({shown})",
        "wipe the disk if its data is not needed",
    )
