"""From signals to a verdict: one state machine per disk, with every dwell time in `RULES`.

Three triggers stand over each other, for Suspect, Slow and Failed (which covers Missing and Swapped). Each goes on when
its finding has held for long enough and off when the disk has been well for long enough, so a signal at the edge moves
nothing; the verdict is the worst that is on. A trigger that went on a third time within ten minutes stays on for half
an hour after the last finding: a flapping disk ends in one verdict.

A round in which nothing could be seen moves no trigger, and no time runs over it. While whoever looks is starved himself, that goes for each
round that shows no more than that something takes long: what waits then may hang, or its turn does not come.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from spindle.disks import facts
from spindle.disks.findings import BY_KAFKA, BY_PROBE, RULES, SUSPECT_LEAVES, Finding, ProbeSettings, find
from spindle.disks.signals import DiskVerdict, ProbeOutcome, Signals

FLAPPING: Final = "Flapping"
FLAPS: Final = 3  # times that a trigger goes on within the window before it is held
# The same, with its changes of kind; whoever exchanges a disk by hand makes up to five each time.
TURNS: Final = 12
WINDOW_SECONDS: Final = 600.0
HOLD_SECONDS: Final = 1800.0
STRIKES: Final = 3  # bad rounds, not in succession, that are as good as confirmed
STRIKE_SECONDS: Final = 60.0
_REASON_SETTLES: Final = 10.0  # a trigger that is on takes over a new reason after so long


# Reasons for verdicts whose own reason this version does not know.
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
    """One of the three.

    Attributes:
        finding: why it is on; None while it is off.
        run: rounds in succession with a finding, of which `run_since` was the first.
        reason, reason_since, reason_run: the same for the latest reason alone.
        well_since: begin of the present stretch without a finding.
        risen, turned: times within the window at which it went on, or changed its kind while it was on.
        held: whether it went on too often, and is on for long.
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
    """All that is remembered of one disk. Begin with ``DiskTracker()``, or with `resume` after a restart.

    Attributes:
        generation: `Signals.life` of the disk that it is about.
        round_at: when the latest round was.
        awake_since: begin of the present stretch of rounds without a gap, in none of which whoever looks was starved.
        strikes: when the latest bad rounds were.
        probe_at: when the latest probe came back that was counted.
        judged: the present verdict; None until a first round saw something.
    """

    generation: str = ""
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
    """What a round led to.

    Attributes:
        again: probe this disk again at once, before anything is reported: that confirms or clears a first error.
    """

    watch: DiskTracker
    again: bool = False


def resume(life: str, earlier: Judged) -> DiskTracker:
    """A watch that goes on from what was reported before, so that a restart does not make a disk well.

    Args:
        life: `Signals.life` of the disk.
        earlier: what was reported; its time on the clock of the rounds to come.
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
    """One round: what was remembered, what is seen now, and what that comes to."""
    if watch.generation != signals.life:
        watch = DiskTracker(generation=signals.life)
    still = watch.round_at is None or now - watch.round_at > settings.gap
    awake_since = now if still or signals.starved else watch.awake_since
    watch = replace(watch, round_at=now, awake_since=awake_since)
    if still:
        watch = _unseen(watch)
    finding = find(signals, now, settings, watch.awake_since)
    if _silent(watch, signals, finding):
        return WatchStep(_unseen(watch))
    if finding is None or _told_before(watch, signals, finding):
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
    return WatchStep(replace(watch, judged=_judged(watch, now)), again=unsure and watch.failed.run == 1)


# --- triggers ---------------------------------------------------------------------------------------------------------


def _silent(watch: DiskTracker, signals: Signals, finding: Finding | None) -> bool:
    """Whether the round is one in which nothing could be seen, so that time must not run over it."""
    probe = signals.probe
    if finding is None:
        return signals.starved or probe.outcome is not ProbeOutcome.PENDING
    # While its broker restarts, Kafka's own word is neither repeated nor taken back.
    on = watch.failed.finding
    return (
        (finding.rule is None or not finding.rule.verdict.bad)
        and on is not None
        and on.reason in BY_KAFKA
        and signals.mode == facts.ACTIVE
        and signals.kafka_error is None
    )


def _told_before(watch: DiskTracker, signals: Signals, finding: Finding) -> bool:
    """Whether the round only repeats an error that was counted, and that needs another probe to be sure."""
    probe = signals.probe
    return (
        watch.failed.finding is None
        and finding.reason in BY_PROBE
        and probe.at is not None
        and probe.at == watch.probe_at
    )


def _unseen(watch: DiskTracker) -> DiskTracker:
    """No run goes on over what was not seen; what is on stays on."""
    return replace(
        watch, failed=_broken(watch.failed), slow=_broken(watch.slow), suspect=_broken(watch.suspect)
    )


def _broken(trigger: Trigger) -> Trigger:
    return replace(trigger, run=0, reason="", reason_run=0, well_since=None)


def _count(watch: DiskTracker, finding: Finding, now: float) -> DiskTracker:
    strikes = tuple(at for at in watch.strikes if now - at < STRIKE_SECONDS)
    if finding.rule is not None and finding.rule.verdict.bad:
        strikes = (*strikes, now)[-STRIKES:]
    return replace(watch, strikes=strikes)


def _failed(watch: DiskTracker, finding: Finding, now: float) -> Trigger:
    rule = finding.rule
    if rule is None or not rule.verdict.bad:
        # What is Suspect is not bad, and not well either.
        odd = rule is not None and rule.verdict is DiskVerdict.SUSPECT
        return _broken(watch.failed) if odd else _well(watch.failed, now)
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
    """One more round with a finding."""
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
    """One more round without one."""
    since = now if trigger.well_since is None else trigger.well_since
    trigger = replace(trigger, run=0, reason="", reason_run=0, well_since=since)
    if trigger.finding is None or now - since < _leave(trigger):
        return trigger
    return replace(trigger, finding=None, held=False)


def _leave(trigger: Trigger) -> float:
    if trigger.held:
        return HOLD_SECONDS
    rule = trigger.finding.rule if trigger.finding is not None else None
    return rule.leave if rule is not None else SUSPECT_LEAVES


def _rise(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    """The trigger goes on, or changes its kind; too often, and it is held as it is."""
    risen = tuple(at for at in trigger.risen if now - at < WINDOW_SECONDS)
    turned = tuple(at for at in trigger.turned if now - at < WINDOW_SECONDS)
    if trigger.finding is None:
        risen = (*risen, now)
    else:
        turned = (*turned, now)
    held = len(risen) >= FLAPS or len(risen) + len(turned) >= TURNS
    return replace(trigger, finding=finding, risen=risen, turned=turned, held=held)


def _settle(trigger: Trigger, finding: Finding, now: float) -> Trigger:
    """A trigger that is on takes over another reason of the same kind once that has lasted."""
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
            return DiskVerdict.FAILED, FLAPPING, _held_words(on)
        return rule.verdict, on.reason, on.message
    for verdict, trigger in ((DiskVerdict.SLOW, watch.slow), (DiskVerdict.SUSPECT, watch.suspect)):
        if (on := trigger.finding) is not None:
            if trigger.held:
                return verdict, FLAPPING, _held_words(on)
            return verdict, on.reason, on.message
    return DiskVerdict.HEALTHY, "", ""


def _held_words(last: Finding) -> str:
    if last.reason == FLAPPING or last.reason not in RULES:
        return last.message
    return (
        f"It comes and goes, too often within {WINDOW_SECONDS / 60:.0f} minutes. The verdict stays until the disk has "
        f"been well for {HOLD_SECONDS / 60:.0f} minutes. At last: {last.message}"
    )
