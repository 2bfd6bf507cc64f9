"""What may be done with a disk that was found: use it, format it, start without it, or refuse to start (rule 7)."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from spindle.disks import facts
from spindle.disks.dir_list import DirList
from spindle.disks.facts import Clearance, Expected, Found, InspectionId
from spindle.disks.identity import Identity, MetaProperties

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


_CONTENTS: Final = (facts.OURS, facts.BLANK, facts.FOREIGN)


class PreflightVerdict(StrEnum):
    """What to do with a disk."""

    USE = "use"
    NEEDS_CLEARANCE = "needs-clearance"
    RESUME = "resume"  # a format that was cleared and begun, and that only has to be finished
    PLACEHOLDER = "placeholder"  # put a regular file in its place
    OFFLINE = "offline"  # leave it: Kafka finds out by itself, and runs without it
    REFUSE = "refuse"


@dataclass(frozen=True)
class Judgement:
    """A verdict on one disk.

    Attributes:
        state: the word for it in inspect's report.
        reason: one sentence on what is wrong; empty if nothing is.
        way_out: what a person can do about it.
    """

    verdict: PreflightVerdict
    state: str
    reason: str = ""
    way_out: str = ""


def judge(expected: Expected, found: Found) -> Judgement:
    """Judge one disk by what it is on record as and what was found in its place."""
    if expected.mode == facts.PLACEHOLDER:
        return Judgement(PreflightVerdict.PLACEHOLDER, facts.IS_PLACEHOLDER)
    if found.error is not None:
        return _dead(expected, found.error)
    if not found.mounted and not expected.shared_filesystem:
        return Judgement(
            PreflightVerdict.REFUSE,
            facts.NOT_MOUNTED,
            f"{expected.disk} is not mounted: its path leads to an empty folder on the node's own file system",
            "mount the disk on the node, then delete the pod",
        )
    if (wrong := _mix_up(expected, found)) is not None:
        return wrong
    if found.meta is None:
        return _without_meta(expected, found)
    if found.readonly or found.writable is False:
        return _unwritable(
            expected, found, PreflightVerdict.REFUSE if expected.controller else PreflightVerdict.OFFLINE
        )
    return Judgement(PreflightVerdict.USE, facts.OURS)


def content(expected: Expected, found: Found) -> Judgement:
    """What is on a disk, whatever it is good for: ours, blank or foreign, or unknown if it could not be read.

    Nothing is to be done on this verdict alone; the words for a foreign disk are those of preflight.
    """
    if found.error is not None or (not found.mounted and not expected.shared_filesystem):
        return Judgement(PreflightVerdict.OFFLINE, facts.UNKNOWN)
    in_use = replace(expected, mode=facts.ACTIVE)
    judgement = judge(in_use, replace(found, readonly=False, writable=True))
    return judgement if judgement.state in _CONTENTS else replace(judgement, state=facts.UNKNOWN)


def may_write_identity(
    expected: Expected, found: Found, clearances: Iterable[Clearance], look: InspectionId
) -> bool:
    """Whether one of the clearances lets this very disk be formatted now: it must answer this very look of this very pod.

    The file system is compared, not the volume: preflight can't see which volume it was given.
    """
    return any(
        clearance.disk == expected.disk
        and clearance.directory_id == expected.directory_id
        and (clearance.fs_uuid or None) == found.fs_uuid
        and (clearance.nonce, clearance.pod_uid) == (look.nonce, look.pod_uid)
        for clearance in clearances
    )


def unused(clearances: Iterable[Clearance], used: Collection[str]) -> list[Clearance]:
    """Clearances whose directory id was not written by this pod already: each is used once."""
    return [clearance for clearance in clearances if clearance.directory_id not in used]


def left_out(expected: Iterable[Expected], newer: DirList) -> dict[str, str]:
    """Rule 15: dirs on the newest list that a broker would start without; disk → directory id.

    None where it has a placeholder besides: with a dir offline Kafka makes no replica anew whose directory id it does not know.
    """
    disks = list(expected)
    if any(disk.mode == facts.PLACEHOLDER for disk in disks):
        return {}
    there = {(disk.disk, disk.directory_id) for disk in disks}
    return {name: directory for name, directory in newer.dirs.items() if (name, directory) not in there}


def _dead(expected: Expected, error: str) -> Judgement:
    if expected.controller:
        return Judgement(
            PreflightVerdict.REFUSE,
            facts.DEAD,
            f"the only disk of controller {expected.node_id} does not answer: {error}",
            "replace the disk; the other controllers go on without this one",
        )
    return Judgement(
        PreflightVerdict.OFFLINE,
        facts.DEAD,
        f"{expected.disk} does not answer: {error}",
        "nothing to do for the start: Kafka runs without it",
    )


def _unwritable(expected: Expected, found: Found, verdict: PreflightVerdict) -> Judgement:
    if found.readonly:
        reason = f"{expected.disk} is mounted read-only"
        way_out = "look into the node's kernel log for why; mount it read-write again"
    else:
        reason = f"{expected.disk} can't be written by Kafka's user"
        way_out = "let the volume's root belong to group 1000, or use a volume type that honours fsGroup"
    return Judgement(verdict, facts.READONLY, reason, way_out)


def _mix_up(expected: Expected, found: Found) -> Judgement | None:
    """Rule 7: what names another cluster, node, disk or directory id, and what can't be understood, is left alone."""

    def foreign(reason: str, way_out: str) -> Judgement:
        return Judgement(PreflightVerdict.REFUSE, facts.FOREIGN, reason, way_out)

    if (retired := _retired(expected, found)) is not None:
        return foreign(
            f"in the slot of {expected.disk} is a disk of this broker that was evacuated (directory id {retired}): what is "
            "on it is out of date",
            "put a new disk in; or, if this one is well and nobody needs what is on it, make a new file system on it",
        )
    put_back = (
        f"put the disk of broker {expected.node_id} back, or wipe this one if nobody needs what is on it"
    )
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
            f"{expected.disk} carries the right identity, but is file system {found.fs_uuid}; the one that was formatted "
            f"is {expected.fs_uuid}: a copy may lack records that were acknowledged since",
            "put the original back, or wipe the copy",
        )
    return None


def _retired(expected: Expected, found: Found) -> str | None:
    """The retired directory id that a disk carries."""
    for carried in (found.identity, found.pending, found.meta):
        if (
            carried is not None
            and (carried.cluster_id, carried.node_id) == (expected.cluster_id, expected.node_id)
            and carried.directory_id in expected.retired
        ):
            return carried.directory_id
    return None


def another_filesystem(recorded: str | None, found: str | None) -> bool:
    """Whether two file systems are surely not the same one.

    Only real UUIDs prove that: a stand-in may change with a reboot, or become a UUID with a newer kernel.
    """
    return (
        recorded is not None
        and found is not None
        and _UUID.fullmatch(recorded) is not None
        and _UUID.fullmatch(found) is not None
        and recorded != found
    )


def _other(expected: Expected, carried: Identity | MetaProperties) -> str | None:
    """Whom a disk belongs to if not here; None if it belongs here."""
    if carried.cluster_id != expected.cluster_id:
        return f"another cluster, {carried.cluster_id} (this is {expected.cluster_id})"
    if carried.node_id != expected.node_id:
        return f"another node, {carried.node_id} (this is {expected.node_id})"
    if isinstance(carried, Identity) and carried.disk != expected.disk:
        return f"another disk of this node, {carried.disk}"
    if carried.directory_id != expected.directory_id:
        return f"another directory id, {carried.directory_id} (on record is {expected.directory_id})"
    return None


def _without_meta(expected: Expected, found: Found) -> Judgement:
    """Nobody's disk, or one whose format was begun."""
    if found.identity is not None:
        # Our formats write the identity last, so this disk was in use: to format it again is not a matter of course.
        return Judgement(
            PreflightVerdict.REFUSE,
            facts.FOREIGN,
            f"{expected.disk} is ours, but its log dir has lost its meta.properties",
            "restore the file with the directory id on record, or wipe the disk if nobody needs what is on it",
        )
    resumes = found.pending is not None and expected.controller
    if found.partitions and not resumes:
        return _strangers(expected, ("log",))
    if found.strangers:
        return _strangers(expected, found.strangers)
    if found.readonly or found.writable is False:
        return _unwritable(expected, found, PreflightVerdict.REFUSE)
    if resumes:
        return Judgement(PreflightVerdict.RESUME, facts.OURS)
    return Judgement(
        PreflightVerdict.NEEDS_CLEARANCE,
        facts.BLANK,
        f"{expected.disk} is blank",
        "the operator clears it for formatting as soon as no data can be lost by that",
    )


def _strangers(expected: Expected, names: tuple[str, ...]) -> Judgement:
    shown = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
    return Judgement(
        PreflightVerdict.REFUSE,
        facts.FOREIGN,
        f"{expected.disk} carries no identity, but somebody's data ({shown})",
        "empty the disk if nobody needs what is on it",
    )
