"""``spindle-preflight inspect`` and ``spindle-preflight run``, the two init containers of a Kafka pod; and ``takeover``."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from spindle.disks.judge import Judgement, PreflightVerdict, judge, left_out, may_write_identity, unused
from spindle.model import inspection
from spindle.model.dir_list import NO_LIST, DirList, newest
from spindle.model.disk_facts import Expected, Found, InspectionId
from spindle.model.disk_identity import Identity
from spindle.model.layout import Layout
from spindle.takeover import volumes
from spindle_agent.preflight import handover, inputs, look, prepare, takeover
from spindle_agent.preflight.inputs import Node

_POLL_SECONDS: Final = 0.5
_REMIND_SECONDS: Final = 30.0


@dataclass
class _Disk:
    """One disk in its current state."""

    expected: Expected
    found: Found
    judgement: Judgement


class RefusedError(Exception):
    """Kafka must not start; the text says why and how to resolve it."""


@dataclass
class _Preflight:
    layout: Layout
    node: Node
    expected: list[Expected]
    formatted: list[str] = field(default_factory=list)

    def look(self, *, probe: bool) -> list[_Disk]:
        """Inspect all disks again."""
        found = look.look_at_all(self.layout, self.expected, probe=probe)
        return [
            _Disk(disk, what, judge(disk, what))
            for disk in self.expected
            for what in [found.get(disk.disk, Found(mounted=False))]
        ]

    def run(self) -> list[_Disk]:
        """Prepare everything for Kafka's start; waits for clearances without a time-out.

        Raises:
            RefusedError: a disk must not be used, but cannot be left out either.
        """
        reminded = 0.0
        while True:
            disks = self.look(probe=True)
            self.check(disks)
            clearances = unused(inputs.read_clearances(self.layout), prepare.used_clearances(self.layout))
            waiting, leaving = [], inputs.read_leaving(self.layout)
            for disk in disks:
                if disk.expected.disk in leaving and not _holds(disk):
                    waiting.append(disk)
                elif disk.judgement.verdict is PreflightVerdict.RESUME:
                    self.format(disk)
                elif disk.judgement.verdict is PreflightVerdict.NEEDS_CLEARANCE:
                    if may_write_identity(disk.expected, disk.found, clearances, self.answered()):
                        self.format(disk)
                    else:
                        waiting.append(disk)
            if not waiting:
                break
            if time.monotonic() - reminded > _REMIND_SECONDS:
                reminded = time.monotonic()
                for disk in waiting:
                    _say(_reminder(disk))
            time.sleep(_POLL_SECONDS)  # noqa: TID251 - the kubelet replaces the file without telling
        self.finish(disks)
        return disks

    def answered(self) -> InspectionId:
        """The inspection by this pod that a clearance must refer to.

        Raises:
            RefusedError: the inspection stored nothing.
        """
        try:
            return inputs.read_look(self.layout)
        except (OSError, KeyError, ValueError) as error:
            raise RefusedError(
                f"the result of this pod's disk inspection cannot be read from the pod's folder ({error}), so new and old clearances cannot be distinguished. "
                "To resolve: delete the pod; its successor inspects the disks again."
            ) from error

    def check(self, disks: list[_Disk]) -> None:
        """Check that Kafka may be started with these disks, once all are formatted.

        Raises:
            RefusedError: a disk must not be used, or one is missing.
        """
        if refused := [disk for disk in disks if disk.judgement.verdict is PreflightVerdict.REFUSE]:
            raise RefusedError("; ".join(_sentence(disk.judgement) for disk in refused))
        if missing := left_out(self.expected, self.newer(disks)):
            raise RefusedError(_without(missing))

    def newer(self, disks: list[_Disk]) -> DirList:
        """The newest list of log dirs on this broker's disks, if it is newer than the operator's."""
        ours = (disk for disk in disks if (on := disk.found.identity) is not None and self.mine(on))
        found = newest(disk.found.log_dirs for disk in ours)
        given = inputs.read_log_dirs(self.layout)
        return found if found.generation > given.generation else NO_LIST

    def mine(self, on: Identity) -> bool:
        """Whether a disk belongs to this broker."""
        return (on.cluster_id, on.node_id) == (self.node.cluster_id, self.node.node_id)

    def format(self, disk: _Disk) -> None:
        """Format a blank disk for this broker."""
        _say(
            f"formatting {disk.expected.disk}, file system {disk.found.fs_uuid}, as {disk.expected.directory_id}"
        )
        if self.born_by_tool(disk.expected):
            prepare.begin_controller_format(self.layout, disk.expected, disk.found)
            handover.write_format_args(self.layout, self.node)
        else:
            prepare.format_log_dir(self.layout, disk.expected, disk.found)
        prepare.remember_used(self.layout, disk.expected.directory_id)
        self.formatted.append(disk.expected.disk)

    def born_by_tool(self, disk: Expected) -> bool:
        """Whether this is a voter of the initial quorum, whose disk Kafka's tool formats with more than ``meta.properties``."""
        return self.node.controller and any(
            (voter.id, voter.directory_id) == (disk.node_id, disk.directory_id) for voter in self.node.voters
        )

    def finish(self, disks: list[_Disk]) -> None:
        """Do everything that needs no clearance."""
        usable, given = [], inputs.read_log_dirs(self.layout)
        for disk in disks:
            if disk.judgement.verdict is PreflightVerdict.PLACEHOLDER:
                prepare.place_placeholder(self.layout, disk.expected)
            elif disk.judgement.verdict is PreflightVerdict.USE:
                prepare.adopt(self.layout, disk.expected, disk.found, given)
                usable.append(disk.expected)
            elif disk.judgement.verdict is PreflightVerdict.OFFLINE:
                _say(f"{disk.judgement.reason}; {disk.judgement.way_out}")
        if not self.node.controller:
            prepare.prepare_metadata_dir(self.layout, self.node.cluster_id, self.node.node_id)
            for path in prepare.set_strays_aside(self.layout, usable):
                _say(f"renamed stray folder {path}: a newer dir of this broker holds the partition too")
        handover.hand_over(self.layout, self.node, self.expected)


def main() -> None:
    """Entry point; exits without waiting for threads that a hung disk blocks."""
    # The first process of a container ignores signals without a handler, and this one may wait for days.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    command = sys.argv[1] if len(sys.argv) == 2 else ""
    layout = Layout(os.environ.get("SPINDLE_ROOT", ""))
    if command == "inspect":
        status = inspect(layout)
    elif command == "run":
        status = run(layout)
    elif command == "takeover":
        status = take_over(os.environ.get(volumes.ENV_ORDER, ""))
    else:
        _say("usage: spindle-preflight inspect|run|takeover")
        status = 2
    sys.stdout.flush()
    os._exit(status)


def inspect(layout: Layout) -> int:
    """Report the state of the disks. Changes nothing on a disk; problems are part of the report.

    It fails, with a termination message, only if it cannot store its nonce for preflight; the kubelet retries.
    """
    try:
        nonce = inputs.begin_look(layout)
    except OSError as error:
        text = _unwritten(error)
        _say(text)
        _terminate(text)
        return 1
    try:
        preflight = _read(layout)
        disks = preflight.look(probe=False)
        text = inspection.render([_entry(disk) for disk in disks], preflight.newer(disks), nonce)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = inspection.render([])
        _say(f"the disks could not be inspected: {error!r}")
    _say(text)
    _terminate(text)
    return 0


def run(layout: Layout) -> int:
    """Prepare the disks and hand over to Kafka; returns 1 with a termination message if Kafka must not start."""
    try:
        preflight = _read(layout)
        disks = preflight.run()
    except RefusedError as refused:
        text = str(refused)
    except (OSError, ValueError, KeyError, TypeError) as error:
        text = f"preflight failed: {error!r}"
    else:
        _terminate(
            inspection.render(
                [_entry(disk, formatted=disk.expected.disk in preflight.formatted) for disk in disks]
            )
        )
        _say("Kafka may start")
        return 0
    _say(text)
    _terminate(text)
    return 1


def take_over(order: str) -> int:
    """Convert another operator's volumes as requested; returns 1 with the reason as termination message if a volume is refused."""
    try:
        findings = takeover.carry_out(volumes.parse_order(order))
        text = volumes.report(findings)
        refused = any(finding.refusal for finding in findings)
    except (OSError, ValueError) as error:
        text, refused = json.dumps({"refused": f"the volumes could not be converted: {error}"}), True
    _say(text)
    _terminate(text)
    return 1 if refused else 0


def _read(layout: Layout) -> _Preflight:
    node = inputs.read_node(layout)
    return _Preflight(layout, node, inputs.read_disks(layout, node))


def _entry(disk: _Disk, *, formatted: bool = False) -> Mapping[str, Any]:
    found, identity = disk.found, disk.found.identity or disk.found.pending
    carried = found.meta
    entry: dict[str, Any] = {
        "name": disk.expected.disk,
        "state": disk.judgement.state,
        "fsUuid": found.fs_uuid,
        "fsType": found.fs_type,
        "device": found.device,
        "mount": found.source,
        "totalBytes": found.total_bytes,
        "usedBytes": found.used_bytes,
        "replicas": found.replicas,
        "identity": None,
        "problem": f"{disk.judgement.reason}." if disk.judgement.reason else None,
        "wayOut": f"{disk.judgement.way_out[:1].upper()}{disk.judgement.way_out[1:]}."
        if disk.judgement.way_out
        else None,
    }
    if identity is not None:
        entry["identity"] = {
            "clusterId": identity.cluster_id,
            "nodeId": identity.node_id,
            "disk": identity.disk,
            "directoryId": identity.directory_id,
        }
    elif carried is not None:
        entry["identity"] = {
            "clusterId": carried.cluster_id,
            "nodeId": carried.node_id,
            "disk": None,
            "directoryId": carried.directory_id,
        }
    if formatted:
        entry["formatted"] = True
    return entry


def _holds(disk: _Disk) -> bool:
    """Whether a disk that was to be left out must be used after all, because it now holds a replica."""
    return disk.judgement.verdict is PreflightVerdict.USE and disk.found.replicas > 0


def _reminder(disk: _Disk) -> str:
    """What preflight is waiting for."""
    if disk.judgement.verdict is PreflightVerdict.USE:
        return f"{disk.expected.disk} holds no replicas and is to be left out: the operator recreates the pod without it"
    return f"{disk.judgement.reason} (file system {disk.found.fs_uuid}): {disk.judgement.way_out}"


def _unwritten(error: OSError) -> str:
    return (
        f"the pod's emptyDir (on the node's file system) cannot be written: {error.strerror or error}. The disks were not "
        "inspected. To resolve: free space on the kubelet's file system, or repair it; preflight retries automatically."
    )


def _sentence(judgement: Judgement) -> str:
    return f"{judgement.reason}. To resolve: {judgement.way_out}." if judgement.reason else ""


def _without(missing: Mapping[str, str]) -> str:
    named = ", ".join(f"{name} (directory id {directory})" for name, directory in sorted(missing.items()))
    return (
        f"this broker's disks list {named} among its log dirs, but the broker would start without it: Kafka would recreate the replicas there as empty ones. "
        "To resolve: restore a newer backup of the claims, and delete the broker's pod when the KafkaBroker names these disks."
    )


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - an init container's log is its output


def _terminate(text: str) -> None:
    path = Path(os.environ.get("SPINDLE_TERMINATION_LOG", "/dev/termination-log"))
    try:
        path.write_bytes(text.encode()[: inspection.LIMIT])
    except OSError as error:
        _say(f"writing the termination message failed: {error}")


if __name__ == "__main__":
    main()
