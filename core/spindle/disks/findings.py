"""Findings of one round of probes, and the table of their verdicts and dwell times, `RULES`."""

import errno as e
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api.enums import DiskVerdict
from spindle.disks.judge import another_filesystem
from spindle.disks.signals import ProbeOutcome, Signals
from spindle.model import disk_facts
from spindle.model.view import STORAGE_ERROR

SUSPECT_LEAVES: Final = 10.0  # seconds that a disk must be healthy before it is no longer Suspect
_FULL: Final = 0.98


@dataclass(frozen=True)
class Rule:
    """The verdict for one finding.

    Attributes:
        verdict: the resulting verdict.
        meaning: for the documentation.
        rounds: consecutive rounds that must show it; the second of two follows at once, to confirm the first.
        after: seconds for which it must last before that.
        suspect_after: seconds after which the disk is Suspect in the meantime.
        leave: seconds that the disk must be healthy before the verdict is withdrawn.
    """

    verdict: DiskVerdict
    meaning: str
    rounds: int = 1
    after: float = 0
    suspect_after: float = 0
    leave: float = 30


RULES: Final[Mapping[str, Rule]] = {
    "NotMounted": Rule(DiskVerdict.MISSING, "nothing is mounted where the disk should be", rounds=2),
    "OtherFileSystem": Rule(DiskVerdict.SWAPPED, "the mounted file system is not the recorded one", rounds=2),
    "ForeignContent": Rule(DiskVerdict.SWAPPED, "the identity on the disk is not the recorded one", rounds=2),
    "IOHung": Rule(
        DiskVerdict.FAILED,
        "no probe returned for `spec.disks.hungAfterSeconds` seconds, and the device completes no other writes either",
    ),
    "WrongData": Rule(DiskVerdict.FAILED, "a probe read back different bytes than it wrote", rounds=2),
    "ReadOnly": Rule(DiskVerdict.FAILED, "the file system is read-only", rounds=2),
    "ProbeError": Rule(DiskVerdict.FAILED, "a probe failed with an error", rounds=2),
    "OfflineFull": Rule(DiskVerdict.FAILED, "Kafka took the log dir offline, and the disk is full", leave=5),
    "LogDirOffline": Rule(
        DiskVerdict.FAILED, "Kafka took the log dir offline although probes succeed", leave=5
    ),
    "NotAnswering": Rule(
        DiskVerdict.SUSPECT,
        "a probe has been pending for half the time after which the disk counts as hung",
        leave=SUSPECT_LEAVES,
    ),
    "Full": Rule(
        DiskVerdict.SUSPECT, "there is no space even for the few bytes of a probe", leave=SUSPECT_LEAVES
    ),
    "NotPermitted": Rule(
        DiskVerdict.SUSPECT, "Kafka's user has no permission to write to the disk", leave=SUSPECT_LEAVES
    ),
    "SlowDevice": Rule(
        DiskVerdict.SLOW,
        "requests take much longer than on the node's other disks",
        rounds=2,
        after=60,
        suspect_after=15,
        leave=120,
    ),
}
BY_KAFKA: Final = ("LogDirOffline", "OfflineFull")
BY_PROBE: Final = ("ProbeError", "WrongData")
ON_RIGHT_DISK: Final = ("Full", "NotPermitted")  # what a probe that returned found on the recorded disk
# A device that keeps completing writes is slow, not hung: the probe's write is queued. No completed write for half of the time is
# sufficient evidence and does not delay the verdict; if that is not known, the write must be pending for 1.5 times as long. A write
# that is pending for three times as long hangs, whatever else the device does.
_QUIET: Final = 0.5
_UNKNOWN: Final = 1.5
_AT_LAST: Final = 3.0
_NO_ROOM: Final = (e.ENOSPC, e.EDQUOT)
_NO_RIGHT: Final = (e.EACCES, e.EPERM)
# These are not the disk's fault: the probing process ran out of a resource.
_OUR_OWN: Final = (e.EMFILE, e.ENFILE, e.ENOMEM, e.EINTR, e.EAGAIN)


@dataclass(frozen=True)
class ProbeSettings:
    """User settings: seconds between rounds, and seconds after which a pending write means a hung disk."""

    interval: float = 2.0
    hung_after: float = 10.0

    @property
    def gap(self) -> float:
        """Seconds without a round after which the agent itself was stopped, so that the time does not count."""
        return 3 * self.interval + 1


@dataclass(frozen=True)
class Finding:
    """The finding of one round; an empty reason means healthy."""

    reason: str = ""
    message: str = ""

    @property
    def rule(self) -> Rule | None:
        """The rule for it; None for a healthy disk."""
        return RULES.get(self.reason)


WELL: Final = Finding()
OFFLINE_AND_FULL: Final = Finding("OfflineFull", "Kafka took the log dir offline; the disk is full.")


def find(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> Finding | None:
    """The most severe finding of this round; None if it shows nothing either way."""
    return (
        _wrong_disk(signals)
        or _hung(signals, now, settings, awake_since)
        or _error(signals)
        or _offline(signals)
        or _lesser(signals, now, settings, awake_since)
    )


def _wrong_disk(signals: Signals) -> Finding | None:
    if signals.mounted is False:
        return Finding("NotMounted", "Nothing is mounted where the disk should be.")
    if signals.mode == disk_facts.ABSENT:
        return None  # the disk is waiting for its replacement
    recorded = signals.recorded_fs_uuid
    if another_filesystem(recorded, signals.fs_uuid):
        return Finding(
            "OtherFileSystem", f"File system {signals.fs_uuid} is mounted; the recorded one is {recorded}."
        )
    if recorded is not None and signals.content == disk_facts.FOREIGN:
        return Finding("ForeignContent", _sentence(signals.content_reason or "it is not the recorded disk"))
    return None


def _waits(signals: Signals, now: float, awake_since: float) -> float | None:
    """Seconds that the probe has been pending while the agent was observing; None if no probe is pending."""
    probe = signals.probe
    if probe.outcome is not ProbeOutcome.PENDING:
        return None
    return now - max(probe.since if probe.since is not None else now, awake_since)


def _hung(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> Finding | None:
    waits = _waits(signals, now, awake_since)
    if waits is None or waits < settings.hung_after:
        return None
    quiet = signals.latency.quiet
    sure = waits >= _UNKNOWN * settings.hung_after if quiet is None else quiet >= _QUIET * settings.hung_after
    if not sure and waits < _AT_LAST * settings.hung_after:
        return None
    doing = signals.probe.doing or "probe"
    return Finding(
        "IOHung", f"The disk does not answer: a {doing} has been pending for {settings.hung_after:g} s."
    )


def stalled(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> bool:
    """Whether a probe is pending, and has been for at least half of the time after which the disk counts as hung."""
    waits = _waits(signals, now, awake_since)
    return waits is not None and waits >= settings.hung_after / 2


def _error(signals: Signals) -> Finding | None:
    probe = signals.probe
    if probe.outcome is ProbeOutcome.WRONG:
        return Finding("WrongData", "The disk returned different bytes than had been written.")
    wrong = probe.outcome is ProbeOutcome.ERROR and probe.errno not in (*_NO_ROOM, *_NO_RIGHT, *_OUR_OWN)
    if signals.read_only or (wrong and probe.errno == e.EROFS):
        return Finding("ReadOnly", "The file system is read-only.")
    if not wrong:
        return None
    name = e.errorcode.get(probe.errno, f"error {probe.errno}") if probe.errno is not None else ""
    words = ", ".join(part for part in (probe.text, name) if part) or "an error"
    return Finding("ProbeError", f"A {probe.doing or 'probe'} failed with {words}.")


def _offline(signals: Signals) -> Finding | None:
    """Kafka's report, for an active log dir: a placeholder or a blank disk is offline by design."""
    if signals.kafka_error != STORAGE_ERROR or signals.mode != disk_facts.ACTIVE:
        return None
    if signals.content not in (disk_facts.OURS, disk_facts.UNKNOWN):
        return None
    if no_room(signals):
        return OFFLINE_AND_FULL
    return Finding("LogDirOffline", "Kafka took the log dir offline although the disk answers.")


def no_room(signals: Signals) -> bool:
    """Whether the disk is full: a probe found no space for its few bytes, or nearly all of the file system is used."""
    probe, capacity, used = signals.probe, signals.capacity_bytes, signals.used_bytes
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_ROOM:
        return True
    return bool(capacity) and used is not None and used >= _FULL * (capacity or 0)


def _lesser(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> Finding | None:
    probe = signals.probe
    if stalled(signals, now, settings, awake_since):
        return Finding(
            "NotAnswering",
            f"A {probe.doing or 'probe'} has been pending for more than {settings.hung_after / 2:g} s.",
        )
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_ROOM:
        return Finding("Full", "The disk is full: there is no space even for a probe.")
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_RIGHT:
        return Finding("NotPermitted", "Kafka's user has no permission to write to the disk.")
    if signals.latency.far:
        return None if signals.starved else Finding("SlowDevice", _slow_message(signals))
    return WELL if probe.outcome is ProbeOutcome.OK else None


def _slow_message(signals: Signals) -> str:
    own, peers = signals.latency.own_ms or 0.0, signals.latency.peers_ms or 0.0
    return f"A request takes {own:.0f} ms; on the node's other disks it takes {peers:.0f} ms."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
