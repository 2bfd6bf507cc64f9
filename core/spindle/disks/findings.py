"""What one round of probes shows by itself, and what each finding leads to: the one table of dwell times, `RULES`."""

import errno as e
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spindle.cluster.view import STORAGE_ERROR
from spindle.disks import facts
from spindle.disks.judge import another_filesystem
from spindle.disks.signals import DiskVerdict, ProbeOutcome, Signals

SUSPECT_LEAVES: Final = 10.0  # seconds that a disk must be well before it is no longer Suspect
_FULL: Final = 0.98


@dataclass(frozen=True)
class Rule:
    """What one finding leads to.

    Attributes:
        verdict: that it comes to in the end.
        meaning: for the manual.
        rounds: rounds in succession that must have it; the second of two is made at once, to confirm the first.
        after: seconds for which it must hold before that.
        suspect_after: seconds after which the disk is Suspect meanwhile.
        leave: seconds that the disk must be well before the verdict goes.
    """

    verdict: DiskVerdict
    meaning: str
    rounds: int = 1
    after: float = 0
    suspect_after: float = 0
    leave: float = 30


RULES: Final[Mapping[str, Rule]] = {
    "NotMounted": Rule(DiskVerdict.MISSING, "nothing is mounted where the disk should be", rounds=2),
    "OtherFileSystem": Rule(
        DiskVerdict.SWAPPED, "another file system is mounted than is on record", rounds=2
    ),
    "ForeignContent": Rule(
        DiskVerdict.SWAPPED, "the disk's identity is not the one that is on record", rounds=2
    ),
    "IOHung": Rule(
        DiskVerdict.FAILED,
        "no probe came back for `spec.disks.hungAfterSeconds` seconds, and the device finishes no write of anybody else",
    ),
    "WrongData": Rule(DiskVerdict.FAILED, "a probe read back other bytes than it wrote", rounds=2),
    "ReadOnly": Rule(DiskVerdict.FAILED, "the file system is read-only", rounds=2),
    "ProbeError": Rule(DiskVerdict.FAILED, "a probe was answered with an error", rounds=2),
    "OfflineFull": Rule(
        DiskVerdict.FAILED, "Kafka gave the log dir up, and the disk has no room left", leave=5
    ),
    "LogDirOffline": Rule(DiskVerdict.FAILED, "Kafka gave the log dir up, though probes go well", leave=5),
    "NotAnswering": Rule(
        DiskVerdict.SUSPECT, "a probe takes half the time after which the disk is hung", leave=SUSPECT_LEAVES
    ),
    "Full": Rule(DiskVerdict.SUSPECT, "not even the few bytes of a probe find room", leave=SUSPECT_LEAVES),
    "NotPermitted": Rule(DiskVerdict.SUSPECT, "Kafka's user may not write to the disk", leave=SUSPECT_LEAVES),
    "SlowDevice": Rule(
        DiskVerdict.SLOW,
        "requests take far longer than on the node's other disks",
        rounds=2,
        after=60,
        suspect_after=15,
        leave=120,
    ),
}
BY_KAFKA: Final = ("LogDirOffline", "OfflineFull")
BY_PROBE: Final = ("ProbeError", "WrongData")
# A device that goes on finishing writes is slow, not hung: ours waits its turn. Half of the time without any is enough of a
# sign, and no hang is told later for it; where that is not known, ours has to wait for half as long again. What waits for
# three times as long hangs, whatever the device does otherwise.
_QUIET: Final = 0.5
_UNKNOWN: Final = 1.5
_AT_LAST: Final = 3.0
_NO_ROOM: Final = (e.ENOSPC, e.EDQUOT)
_NO_RIGHT: Final = (e.EACCES, e.EPERM)
# Of these the disk is innocent: the one who probes ran out of something.
_OUR_OWN: Final = (e.EMFILE, e.ENFILE, e.ENOMEM, e.EINTR, e.EAGAIN)


@dataclass(frozen=True)
class ProbeSettings:
    """What the user may set: seconds between rounds, and after which a pending write is a hung disk."""

    interval: float = 2.0
    hung_after: float = 10.0

    @property
    def gap(self) -> float:
        """Seconds without a round after which we ourselves stood still, and no time counts."""
        return 3 * self.interval + 1


@dataclass(frozen=True)
class Finding:
    """What one round shows; no reason means well."""

    reason: str = ""
    message: str = ""

    @property
    def rule(self) -> Rule | None:
        """The rule for it, None for well."""
        return RULES.get(self.reason)


WELL: Final = Finding()


def find(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> Finding | None:
    """What this round shows by itself, the gravest first; None while it shows nothing either way."""
    return (
        _not_ours(signals)
        or _hung(signals, now, settings, awake_since)
        or _error(signals)
        or _given_up(signals)
        or _lesser(signals, now, settings, awake_since)
    )


def _not_ours(signals: Signals) -> Finding | None:
    if signals.mounted is False:
        return Finding("NotMounted", "Nothing is mounted where the disk should be.")
    if signals.mode == facts.ABSENT:
        return None  # the slot waits for a new disk
    recorded = signals.recorded_fs_uuid
    if another_filesystem(recorded, signals.fs_uuid):
        return Finding(
            "OtherFileSystem", f"File system {signals.fs_uuid} is mounted; the one on record is {recorded}."
        )
    if recorded is not None and signals.content == facts.FOREIGN:
        return Finding("ForeignContent", _sentence(signals.content_reason or "it is not the disk on record"))
    return None


def _waits(signals: Signals, now: float, awake_since: float) -> float | None:
    """Seconds that the probe has been pending while we watched; None if it is not."""
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
    """Whether a probe has been pending for half of the time after which the disk is hung, or longer, and still is."""
    waits = _waits(signals, now, awake_since)
    return waits is not None and waits >= settings.hung_after / 2


def _error(signals: Signals) -> Finding | None:
    probe = signals.probe
    if probe.outcome is ProbeOutcome.WRONG:
        return Finding("WrongData", "The disk read back other bytes than had been written.")
    wrong = probe.outcome is ProbeOutcome.ERROR and probe.errno not in (*_NO_ROOM, *_NO_RIGHT, *_OUR_OWN)
    if signals.read_only or (wrong and probe.errno == e.EROFS):
        return Finding("ReadOnly", "The file system is read-only.")
    if not wrong:
        return None
    name = e.errorcode.get(probe.errno, f"error {probe.errno}") if probe.errno is not None else ""
    words = ", ".join(part for part in (probe.text, name) if part) or "an error"
    return Finding("ProbeError", f"The disk answered a {probe.doing or 'probe'} with {words}.")


def _given_up(signals: Signals) -> Finding | None:
    """Kafka's word, where the slot is a log dir of ours: a placeholder, or a blank disk's, is offline by design."""
    if signals.kafka_error != STORAGE_ERROR or signals.mode != facts.ACTIVE:
        return None
    if signals.content not in (facts.OURS, facts.UNKNOWN):
        return None
    if _no_room(signals):
        return Finding("OfflineFull", "Kafka has given the log dir up; the disk is full.")
    return Finding("LogDirOffline", "Kafka has given the log dir up, though the disk answers.")


def _no_room(signals: Signals) -> bool:
    probe, capacity, used = signals.probe, signals.capacity_bytes, signals.used_bytes
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_ROOM:
        return True
    return bool(capacity) and used is not None and used >= _FULL * (capacity or 0)


def _lesser(signals: Signals, now: float, settings: ProbeSettings, awake_since: float) -> Finding | None:
    probe = signals.probe
    if stalled(signals, now, settings, awake_since):
        return Finding(
            "NotAnswering", f"A {probe.doing or 'probe'} is taking more than {settings.hung_after / 2:g} s."
        )
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_ROOM:
        return Finding("Full", "The disk is full: not even a probe finds room.")
    if probe.outcome is ProbeOutcome.ERROR and probe.errno in _NO_RIGHT:
        return Finding("NotPermitted", "Kafka's user may not write to the disk.")
    if signals.latency.far:
        return None if signals.starved else Finding("SlowDevice", _slow_words(signals))
    return WELL if probe.outcome is ProbeOutcome.OK else None


def _slow_words(signals: Signals) -> str:
    own, peers = signals.latency.own_ms or 0.0, signals.latency.peers_ms or 0.0
    return f"A request takes {own:.0f} ms, on the node's other disks {peers:.0f} ms."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
