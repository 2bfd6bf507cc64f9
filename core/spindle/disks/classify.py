"""From signals to a verdict: one state machine per disk, with every dwell time in `RULES`.

There are three triggers per disk: Suspect, Slow and Failed (which covers Missing and Swapped). Each turns on when
its finding has lasted long enough, and off when the disk has been healthy long enough, so a borderline signal changes
nothing. The verdict is the worst trigger that is on. A trigger that turns on for the third time within ten minutes stays on until half
an hour after the last finding: a flapping disk gets one stable verdict.

A round in which nothing could be observed changes no trigger, and its time does not count. While the observer is starved, this also applies to
rounds that show only that something takes long: what is pending may hang, or may not be scheduled.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from spindle.api.enums import DiskVerdict
from spindle.disks.findings import (
    BY_KAFKA,
    BY_PROBE,
    OFFLINE_AND_FULL,
    ON_RIGHT_DISK,
    RULES,
    SUSPECT_LEAVES,
    Finding,
    ProbeSettings,
    find,
    no_room,
)
from spindle.disks.signals import ProbeOutcome, Signals
from spindle.model import disk_facts

FLAPPING: Final = "Flapping"
FLAPS: Final = 3  # times that a trigger turns on within the window before it is held
# The same, including changes between bad verdicts; replacing a disk by hand causes up to five of them.
TURNS: Final = 12
WINDOW_SECONDS: Final = 600.0
HOLD_SECONDS: Final = 1800.0
STRIKES: Final = 3  # non-consecutive bad rounds that count as a confirmation
STRIKE_SECONDS: Final = 60.0
_REASON_SETTLES: Final = 10.0  # a trigger that is on adopts a new reason after this time


# Reasons for verdicts whose recorded reason this version does not know.
_LIKELY: Final = {
    DiskVerdict.FAILED: "ProbeError",
    DiskVerdict.MISSING: "NotMounted",
    DiskVerdict.SWAPPED: "OtherFileSystem",
    DiskVerdict.SLOW: "SlowDevice",
    DiskVerdict.SUSPECT: "NotAnswering",
}


@dataclass(frozen=True)
class Judged:
    """A verdict.

    Attributes:
        reason: CamelCase, one of `RULES` or `FLAPPING`; empty while the disk is healthy.
        message: one sentence; it stays the same as long as the verdict and the reason do.
        since: when the verdict was reached.
    """

    verdict: DiskVerdict
    reason: str = ""
    message: str = ""
    since: float = 0.0


@dataclass(frozen=True)
class Trigger:
    """One of the three triggers.

    Attributes:
        finding: why it is on; None while it is off.
        run: consecutive rounds with a finding, of which `run_since` was the first.
        reason, reason_since, reason_run: the same for the latest reason alone.
        well_since: start of the current period without a finding.
        risen, turned: times within the window at which it turned on, or changed to another bad verdict while on.
        held: whether it turned on too often and is therefore kept on.
    """

    finding: Finding | None = None
    run: int = 0
    run_since: float = 0.0
    reason: str = ""
    reason_since: float = 0.0
    reason_run: int = 0
    well_since: float | None = None
    risen: tuple[float, ...] = ()
    turned: tuple[float, ...] = ()
    held: bool = False


@dataclass(frozen=True)
class DiskTracker:
    """The state kept for one disk. Start with ``DiskTracker()``, or with `resume` after a restart.

    Attributes:
        generation: `Signals.life` of the disk that this state is about.
        filesystem: UUID of the file system that this state is about, if the slot waits for a replacement; empty while none is known.
        round_at: time of the latest round.
        awake_since: start of the current sequence of rounds without a gap, in none of which the observer was starved.
        strikes: times of the latest bad rounds.
        probe_at: when the latest counted probe returned.
        judged: the current verdict; None until a round has observed something.
    """

    generation: str = ""
    filesystem: str = ""
    round_at: float | None = None
    awake_since: float = 0.0
    strikes: tuple[float, ...] = ()
    probe_at: float | None = None
    failed: Trigger = field(default_factory=Trigger)
    slow: Trigger = field(default_factory=Trigger)
    suspect: Trigger = field(default_factory=Trigger)
    judged: Judged | None = None


@dataclass(frozen=True)
class WatchStep:
    """Result of a round.

    Attributes:
        again: probe this disk again at once, before anything is reported: that confirms or clears a first error.
    """

    watch: DiskTracker
    again: bool = False


def resume(life: str, earlier: Judged) -> DiskTracker:
    """A tracker that continues from what was reported before, so that an agent restart does not make a disk healthy.

    Args:
        life: `Signals.life` of the disk.
        earlier: the verdict reported before; its time is on the clock of the following rounds.
    """
    verdict = earlier.verdict
    known = earlier.reason in RULES or earlier.reason == FLAPPING
    reason = earlier.reason if known else _LIKELY.get(verdict, "")
    on = Trigger(finding=Finding(reason, earlier.message), held=reason == FLAPPING)
    return DiskTracker(
        generation=life,
        judged=earlier,
        failed=on if verdict.bad else Trigger(),
        slow=on if verdict is DiskVerdict.SLOW else Trigger(),
        suspect=on if verdict is DiskVerdict.SUSPECT else Trigger(),
    )


def step(watch: DiskTracker, signals: Signals, now: float, settings: ProbeSettings) -> WatchStep:
    """One round: updates the tracker with the current signals."""
    watch = _about(watch, signals)
    still = watch.round_at is None or now - watch.round_at > settings.gap
    awake_since = now if still or signals.starved else watch.awake_since
    watch = replace(watch, round_at=now, awake_since=awake_since)
    if still:
        watch = _unseen(watch)
    finding = find(signals, now, settings, watch.awake_since)
    if _is_unconfirmed(watch, signals, finding) and no_room(signals):
        finding = OFFLINE_AND_FULL  # it filled up after Kafka took it offline, and that is why Kafka does not run again
    if _silent(watch, signals, finding):
        return WatchStep(_unseen(watch))
    if finding is None or _already_counted(watch, signals, finding):
        return WatchStep(watch)
    watch = _count(watch, finding, now)
    watch = replace(
        watch,
        probe_at=signals.probe.at,
        failed=_failed(watch, finding, now),
        slow=_slow(watch.slow, finding, now),
        suspect=_suspect(watch.suspect, finding, now),
    )
    rule = finding.rule
    unsure = rule is not None and rule.verdict.bad and watch.failed.finding is None
    judged = _judged(watch, now)
    if judged is not watch.judged:
        watch = replace(watch, judged=judged)
    return WatchStep(watch, again=unsure and watch.failed.run == 1)


def _about(watch: DiskTracker, signals: Signals) -> DiskTracker:
    """The tracker of the disk that is there now: a new one for another disk, because the findings so far are not about it.

    The disk that was recorded here gets no new tracker when it returns: it must have been healthy for long enough.
    """
    if watch.generation != signals.life:
        watch = DiskTracker(generation=signals.life)
    if signals.mode != disk_facts.ABSENT:
        return watch
    before, now = watch.filesystem, signals.fs_uuid
    if before and now and now not in (before, signals.recorded_fs_uuid):
        return DiskTracker(generation=signals.life, filesystem=now)
    filesystem = before or now or signals.recorded_fs_uuid or ""
    return watch if filesystem == before else replace(watch, filesystem=filesystem)


# --- triggers ---------------------------------------------------------------------------------------------------------


def _silent(watch: DiskTracker, signals: Signals, finding: Finding | None) -> bool:
    """Whether nothing could be observed in this round, so that its time must not count."""
    if finding is None:
        return signals.starved or signals.probe.outcome is not ProbeOutcome.PENDING
    return _is_unconfirmed(watch, signals, finding)


def _is_unconfirmed(watch: DiskTracker, signals: Signals, finding: Finding | None) -> bool:
    """Whether the disk counts as failed by a report of Kafka that Kafka neither confirms nor withdraws, as its broker is down."""
    on = watch.failed.finding
    return (
        finding is not None
        and (finding.rule is None or not finding.rule.verdict.bad)
        and on is not None
        and on.reason in BY_KAFKA
        and signals.mode == disk_facts.ACTIVE
        and signals.kafka_error is None
    )


def _already_counted(watch: DiskTracker, signals: Signals, finding: Finding) -> bool:
    """Whether the round only repeats an error that was already counted and that needs another probe to confirm it."""
    probe = signals.probe
    return (
        watch.failed.finding is None
        and finding.reason in BY_PROBE
        and probe.at is not None
        and probe.at == watch.probe_at
    )


def _unseen(watch: DiskTracker) -> DiskTracker:
    """A run of findings ends at a gap in observation; what is on stays on."""
    return replace(
        watch, failed=_broken(watch.failed), slow=_broken(watch.slow), suspect=_broken(watch.suspect)
    )


def _broken(trigger: Trigger) -> Trigger:
    return _without_run(trigger, None)


def _without_run(trigger: Trigger, well_since: float | None) -> Trigger:
    """The trigger itself if nothing changes, as in nearly every round of a healthy disk."""
    if not trigger.run and not trigger.reason and not trigger.reason_run and trigger.well_since == well_since:
        return trigger
    return replace(trigger, run=0, reason="", reason_run=0, well_since=well_since)


def _count(watch: DiskTracker, finding: Finding, now: float) -> DiskTracker:
    strikes = tuple(at for at in watch.strikes if now - at < STRIKE_SECONDS)
    if finding.rule is not None and finding.rule.verdict.bad:
        strikes = (*strikes, now)[-STRIKES:]
    return watch if strikes == watch.strikes else replace(watch, strikes=strikes)


def _failed(watch: DiskTracker, finding: Finding, now: float) -> Trigger:
    rule = finding.rule
    if rule is None or not rule.verdict.bad:
        # A suspect disk is neither bad nor healthy. But a probe that found no space, say, was on the right disk.
        odd = rule is not None and rule.verdict is DiskVerdict.SUSPECT
        right = finding.reason in ON_RIGHT_DISK and _is_wrong_disk(watch.failed)
        return _broken(watch.failed) if odd and not right else _well(watch.failed, now)
    trigger = _seen(watch.failed, finding, now)
    on = trigger.finding
    if on is None:
        sure = trigger.run >= rule.rounds or len(watch.strikes) >= STRIKES
        return _rise(trigger, finding, now) if sure else trigger
    before = RULES.get(on.reason)
    changed = before is not None and before.verdict is not rule.verdict
    if changed and not trigger.held and trigger.reason_run >= rule.rounds:
        return _rise(trigger, finding, now)
    return trigger if changed else _settle(trigger, finding, now)


def _is_wrong_disk(trigger: Trigger) -> bool:
    rule = trigger.finding.rule if trigger.finding is not None else None
    return rule is not None and rule.verdict in (DiskVerdict.MISSING, DiskVerdict.SWAPPED)


def _slow(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    rule = finding.rule
    if rule is None or rule.verdict is not DiskVerdict.SLOW:
        return _well(trigger, now)
    trigger = _seen(trigger, finding, now)
    if trigger.finding is not None:
        return _settle(trigger, finding, now)
    sure = trigger.run >= rule.rounds and now - trigger.run_since >= rule.after
    return _rise(trigger, finding, now) if sure else trigger


def _suspect(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    rule = finding.rule
    if rule is None:
        return _well(trigger, now)
    trigger = _seen(trigger, finding, now)
    if trigger.finding is not None:
        return _settle(trigger, finding, now)
    sure = now - trigger.run_since >= rule.suspect_after
    return _rise(trigger, finding, now) if sure else trigger


def _seen(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    """Count one more round with a finding."""
    same = trigger.reason == finding.reason and trigger.reason_run > 0
    return replace(
        trigger,
        run=trigger.run + 1,
        run_since=trigger.run_since if trigger.run else now,
        reason=finding.reason,
        reason_since=trigger.reason_since if same else now,
        reason_run=trigger.reason_run + 1 if same else 1,
        well_since=None,
    )


def _well(trigger: Trigger, now: float) -> Trigger:
    """Count one more round without a finding."""
    since = now if trigger.well_since is None else trigger.well_since
    trigger = _without_run(trigger, since)
    if trigger.finding is None or now - since < _leave(trigger):
        return trigger
    return replace(trigger, finding=None, held=False)


def _leave(trigger: Trigger) -> float:
    if trigger.held:
        return HOLD_SECONDS
    rule = trigger.finding.rule if trigger.finding is not None else None
    return rule.leave if rule is not None else SUSPECT_LEAVES


def _rise(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    """Turn the trigger on, or change it to another bad verdict; if that happens too often, it is held as it is."""
    risen = tuple(at for at in trigger.risen if now - at < WINDOW_SECONDS)
    turned = tuple(at for at in trigger.turned if now - at < WINDOW_SECONDS)
    if trigger.finding is None:
        risen = (*risen, now)
    else:
        turned = (*turned, now)
    held = len(risen) >= FLAPS or len(risen) + len(turned) >= TURNS
    return replace(trigger, finding=finding, risen=risen, turned=turned, held=held)


def _settle(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    """Adopt another reason for the same verdict once it has lasted."""
    if trigger.finding is not None and trigger.finding.reason == finding.reason:
        return trigger
    if trigger.held or now - trigger.reason_since < _REASON_SETTLES:
        return trigger
    return replace(trigger, finding=finding)


# --- the verdict ------------------------------------------------------------------------------------------------------


def _judged(watch: DiskTracker, now: float) -> Judged:
    verdict, reason, message = _worst(watch)
    before = watch.judged
    if before is not None and before.verdict is verdict:
        if before.reason == reason:
            return before
        return Judged(verdict, reason, message, before.since)
    return Judged(verdict, reason, message, now)


def _worst(watch: DiskTracker) -> tuple[DiskVerdict, str, str]:
    if (on := watch.failed.finding) is not None:
        rule = on.rule
        if watch.failed.held or rule is None:
            return DiskVerdict.FAILED, FLAPPING, _flapping_message(on)
        return rule.verdict, on.reason, on.message
    for verdict, trigger in ((DiskVerdict.SLOW, watch.slow), (DiskVerdict.SUSPECT, watch.suspect)):
        if (on := trigger.finding) is not None:
            if trigger.held:
                return verdict, FLAPPING, _flapping_message(on)
            return verdict, on.reason, on.message
    return DiskVerdict.HEALTHY, "", ""


def _flapping_message(last: Finding) -> str:
    if last.reason == FLAPPING or last.reason not in RULES:
        return last.message
    return (
        f"The disk fails and recovers too often within {WINDOW_SECONDS / 60:.0f} minutes. The verdict stays until the disk has "
        f"been healthy for {HOLD_SECONDS / 60:.0f} minutes. Last finding: {last.message}"
    )
