"""One disk: combines the reports about it into signals, and these into a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from spindle.api.enums import DiskVerdict, Pressure
from spindle.api.scrub import ScrubPace
from spindle.disks import classify, judge
from spindle.disks.classify import Judged
from spindle.disks.findings import ProbeSettings, stalled
from spindle.disks.signals import Latency, Probe, Signals
from spindle.model import disk_facts
from spindle.model.disk_facts import ACTIVE, Expected, Found
from spindle.moves import rate_control
from spindle_agent import volume
from spindle_agent.probing.messages import Began, Inspected, Probed, QuickChecked, Report, Watch, well
from spindle_agent.scrub.messages import Scrub

_SILENT: Final = 4.0  # seconds without a report after which a check counts as pending
_STEPS: Final = 100  # steps of the reported usage
_MESSAGE: Final = 1000
_ROUNDS: Final = 2.0  # seconds between two rounds of a healthy disk at which nothing happens
_LATE: Final = 1.0  # seconds of timer lag that may mean that the agent is starved
_PENDING_STEP: Final = 5  # seconds; each step causes a write to the API server


@dataclass(frozen=True)
class WatchedDisk:
    """The recorded properties of a disk.

    Attributes:
        ballast: bytes of ballast to keep on it.
        cluster_id: Kafka's cluster id; empty while it is unknown.
        path, root: path of the volume and of the folder around all volumes, as this process sees them.
        in_pod: whether the path is where the kubelet mounts the volume for its broker's pod (`spindle.model.pod_volumes`). Without the pod nothing is
            mounted there, so that says nothing about the disk.
        log_dir: Kafka's path of the log dir on it.
        fs_uuid: recorded UUID of the file system; None if there is none.
        mode: Active, Placeholder or Absent.
        scrub: bytes per second at which its segments are checked, and the days within which each is checked; None for no checks.
        scrub_first: partition folders to check first.
    """

    broker_id: int
    name: str
    directory_id: str
    path: str
    log_dir: str
    fs_uuid: str | None
    mode: str
    root: str = ""
    in_pod: bool = False
    ballast: int = 0
    scrub: tuple[int, int] | None = None
    scrub_first: tuple[str, ...] = ()
    cluster_id: str = ""

    def watch(self, interval: float) -> Watch:
        """The settings for the worker."""
        return Watch(
            path=self.path,
            cluster_id=self.cluster_id,
            node_id=self.broker_id,
            disk=self.name,
            directory_id=self.directory_id,
            interval=interval,
            root=self.root,
            ballast=self.ballast,
            beneath=self.root if self.in_pod else "",
        )


class Disk:
    """One disk's state. Times are seconds of the monotonic clock."""

    def __init__(self, slot: WatchedDisk, now: float) -> None:
        self.slot = slot
        self._watch = classify.DiskTracker()
        self._since = ""
        self._started = now
        self._began: float | None = None
        self._stalled = False
        self.kafka_error: int | None = (
            None  # the broker's error code for the log dir; None without a recent response
        )
        self.probed: Probed | None = None
        self.glanced: QuickChecked | None = None
        self._found: Found | None = None
        self._judgement: tuple[tuple[Found | None, WatchedDisk, bool], tuple[str, str]] | None = None

    # Inputs

    def resume(self, entry: Mapping[str, Any], now: float) -> None:
        """Continue from what was reported before this process started."""
        try:
            verdict = DiskVerdict(entry["verdict"])
        except (KeyError, ValueError):
            return
        earlier = Judged(verdict, str(entry.get("reason", "")), str(entry.get("message", "")), now)
        self._watch = classify.resume(self._signals(Latency(), now).life, earlier)
        self._since = str(entry.get("since", ""))

    def changed(self, slot: WatchedDisk) -> None:
        """The operator changed the recorded properties."""
        if slot.path != self.slot.path:
            self._found = (
                None  # what was at the former path says nothing about this one, which may not answer at all
            )
        self.slot = slot

    def started(self, now: float) -> None:
        """A new worker reports from now on; nothing is pending."""
        self._started, self._began, self.glanced, self.probed = now, None, None, None

    def take(self, report: Report) -> bool:
        """Process a report; returns whether the verdict should be updated now."""
        if isinstance(report, Began):
            self._began = report.at
            return False
        if isinstance(report, Probed):
            self._began, self.probed = None, report
            return True
        if isinstance(report, Inspected):
            self._found = report.found
            return False  # the quick check that follows updates the verdict
        if not isinstance(report, QuickChecked):
            return False
        before, self.glanced = self.glanced, report
        return not self._goes_on_well(before, report)

    def _goes_on_well(self, before: QuickChecked | None, report: QuickChecked) -> bool:
        """Whether a healthy disk was as healthy at the last check, and the last round was a moment ago: a probe brings the next one."""
        return (
            before is not None
            and well(before)
            and well(report)
            and self._began is None
            and self.judged is not None
            and self.judged.verdict is DiskVerdict.HEALTHY
            and self._watch.round_at is not None
            and report.at - self._watch.round_at < _ROUNDS
            and report.late < _LATE
            and _fill(before) == _fill(report)
        )

    # Results

    def scrubbing(self) -> Scrub | None:
        """Settings for the process that checks its segments; None if they are not to be read at all or not now."""
        slot, judged = self.slot, self.judged
        well = judged is not None and judged.verdict is DiskVerdict.HEALTHY and self.ours
        if slot.scrub is None or slot.mode != ACTIVE or not well:
            return None
        return Scrub(
            path=slot.path,
            cluster_id=slot.cluster_id,
            node_id=slot.broker_id,
            disk=slot.name,
            directory_id=slot.directory_id,
            rate=slot.scrub[0],
            every_days=slot.scrub[1],
            first=list(slot.scrub_first),
        )

    def assess(self, latency: Latency, now: float, settings: ProbeSettings, *, starved: bool = False) -> bool:
        """Update the verdict; returns whether the disk should be probed again at once.

        Args:
            latency: latency of its device.
            now: seconds of the monotonic clock.
            settings: how its cluster wants disks to be watched.
            starved: whether the agent gets too little CPU to distinguish slow from hung disks.
        """
        before = self._watch.judged
        signals = self._signals(latency, now, starved=starved)
        made = classify.step(self._watch, signals, now, settings)
        self._watch = made.watch
        self._stalled = stalled(signals, now, settings, self._watch.awake_since)
        after = self._watch.judged
        if after is not None and (before is None or before.verdict is not after.verdict or not self._since):
            self._since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return made.again

    @property
    def judged(self) -> Judged | None:
        """The current verdict; None before the first."""
        return self._watch.judged

    @property
    def ours(self) -> bool:
        """Whether the mounted disk has the recorded identity."""
        return self._content()[0] == disk_facts.OURS

    @property
    def device(self) -> str | None:
        """``major:minor`` of the mounted device."""
        return self._found.device if self._found is not None else None

    @property
    def unwatched(self) -> str:
        """Why it cannot be looked at now, as a sentence; empty if it can, or if that is not known yet."""
        checked = self.glanced
        if not self.slot.in_pod or checked is None or checked.errno:
            return ""
        if not checked.readable:
            return f"The agent may not open {self.slot.path}: its user or its groups lack the right."
        if not checked.mounted:
            return "The kubelet has not mounted the volume for the pod of its broker."
        return ""

    def ready(self, now: float) -> bool:
        """Whether the first check and write have completed, or have been pending for long enough."""
        return (self.glanced is not None and self._found is not None) or now - self._started > _SILENT

    def pending(self, now: float) -> float:
        """Seconds for which a write or the worker's next report has been pending; 0 if nothing is pending."""
        waits = now - self._began if self._began is not None else 0.0
        heard = self.glanced.at if self.glanced is not None else self._started
        return max(waits, now - heard if now - heard > _SILENT else 0.0)

    def pressure(self, latency: Latency, now: float) -> Pressure:
        """I/O pressure on the disk: of the device as a whole, and of the latest probe's write, which waits like every producer's."""
        probed = self.probed.seconds if self.probed is not None and not self.probed.skipped else 0.0
        odd = self.judged is not None and self.judged.verdict not in (
            DiskVerdict.HEALTHY,
            DiskVerdict.SUSPECT,
        )
        probe_ms = 1000 * max(probed, self.pending(now))
        return rate_control.pressure(latency.own_ms, probe_ms=probe_ms, far=latency.far or odd)

    def _pending_write(self, now: float) -> dict[str, int]:
        """Start and duration of the pending write; empty unless it is stalled.

        The duration is coarse but keeps growing, so that a later reader sees that the same write is still pending.
        """
        if not self._stalled:
            return {}
        heard = self.glanced.at if self.glanced is not None else self._started
        since = heard if self._began is None else self._began
        return {
            "pendingWrite": int(since * 1000),
            "pendingSeconds": int((now - since) / _PENDING_STEP) * _PENDING_STEP,
        }

    def entry(self, latency: Latency, now: float) -> dict[str, Any] | None:
        """The disk's entry in ``status.observed.disks``; None before the first verdict."""
        judged = self.judged
        if judged is None or self.unwatched:
            return None
        found = self._found or Found(mounted=False)
        content, _ = self._content()
        fields = {
            "name": self.slot.name,
            "verdict": judged.verdict.value,
            "reason": judged.reason or None,
            "message": judged.message[:_MESSAGE] or None,
            "since": self._since,
            "stalled": self._stalled or None,
            **self._pending_write(now),
            "content": content,
            "fsUuid": found.fs_uuid if self._mounted else None,
            "device": found.source if self._mounted else None,
            "latencyMs": coarse(latency.own_ms),
            "ballastBytes": self._ballast(),
        }
        return {key: value for key, value in fields.items() if value is not None} | _fill(self.glanced)

    def _ballast(self) -> int | None:
        """Present bytes of ballast; None if none is wanted or it was not checked yet."""
        return self.probed.ballast if self.slot.ballast and self.probed is not None else None

    @property
    def _mounted(self) -> bool:
        return self.glanced is not None and self.glanced.mounted

    def _signals(self, latency: Latency, now: float, *, starved: bool = False) -> Signals:
        slot, checked = self.slot, self.glanced
        found = self._found
        content, reason = self._content()
        readable = checked is not None and checked.readable
        mounted = checked.mounted if checked is not None and readable else None
        if self.unwatched:
            return Signals(directory_id=slot.directory_id, mode=slot.mode)
        return Signals(
            directory_id=slot.directory_id,
            mode=slot.mode,
            mounted=mounted,
            fs_uuid=found.fs_uuid if found is not None and mounted else None,
            recorded_fs_uuid=slot.fs_uuid,
            read_only=checked.readonly if checked is not None and mounted and not checked.errno else None,
            probe=self._probe(now),
            latency=latency,
            kafka_error=self.kafka_error,
            capacity_bytes=checked.total_bytes or None if checked is not None else None,
            used_bytes=checked.used_bytes if checked is not None and checked.total_bytes else None,
            content=content,
            content_reason=reason,
            starved=starved,
        )

    def _probe(self, now: float) -> Probe:
        """The most severe result of checks and writes."""
        checked, probed = self.glanced, self.probed
        if checked is not None and checked.errno:
            return Probe.error(checked.errno, "check", volume.describe(checked.errno), checked.at)
        if self._began is not None:
            return Probe.pending(self._began, "write")
        heard = checked.at if checked is not None else self._started
        if now - heard > _SILENT:
            return Probe.pending(heard, "check")
        if probed is None or checked is None or not checked.readable:
            return Probe()
        if probed.wrong:
            return Probe.wrong(probed.at)
        if probed.errno:
            return Probe.error(probed.errno, probed.doing, volume.describe(probed.errno), probed.at)
        # If nothing may be written, only the checks count.
        return Probe.ok()

    def _content(self) -> tuple[str, str]:
        """What is on the disk, and why it does not belong to this broker."""
        given = self._found, self.slot, self._mounted
        if self._judgement is None or self._judgement[0] != given:
            self._judgement = given, self._judge_content()
        return self._judgement[1]

    def _judge_content(self) -> tuple[str, str]:
        found, slot = self._found, self.slot
        if found is None:
            return disk_facts.UNKNOWN, ""
        carried = found.identity or found.pending or found.meta
        expected = Expected(
            # For a while the cluster id may be that of a former cluster of the same name: then nothing is written, but the disk is not foreign. A
            # directory id is unique: a disk with the recorded one belongs to this cluster.
            cluster_id=carried.cluster_id if carried is not None else "",
            node_id=slot.broker_id,
            disk=slot.name,
            directory_id=slot.directory_id,
            fs_uuid=slot.fs_uuid,
            shared_filesystem=self._mounted,
        )
        judgement = judge.content(expected, found)
        return judgement.state, judgement.reason


def _fill(sizes: QuickChecked | None) -> dict[str, int]:
    if sizes is None or not sizes.mounted or not sizes.total_bytes:
        return {}
    used = round(_STEPS * sizes.used_bytes / sizes.total_bytes) * sizes.total_bytes // _STEPS
    return {"capacityBytes": sizes.total_bytes, "usedBytes": used}


def pace_of(spec: Mapping[str, Any]) -> tuple[int, int] | None:
    """Bytes per second and days from a KafkaBroker's spec; None if segments are not to be checked."""
    scrub = spec.get("scrub")
    if scrub is None:
        return None
    default = ScrubPace()
    rate = int(scrub.get("bytesPerSecond") or default.bytes_per_second)
    return rate, int(scrub.get("everyDays") or default.every_days)


def first_of(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """Partition folders to check first, from a KafkaBroker's spec."""
    entries = (spec.get("scrub") or {}).get("first") or ()
    return tuple(f"{entry['topic']}-{entry['partition']}" for entry in entries)


def coarse(milliseconds: float | None) -> int | None:
    """Round down to 1, 2, 5, 10, 20, 50 …, so that small changes do not cause status writes."""
    if milliseconds is None:
        return None
    step = 1
    while True:
        for factor in (1, 2, 5):
            if milliseconds < factor * step:
                return _below(factor, step)
        step *= 10


def _below(factor: int, step: int) -> int:
    if factor == 1:
        return 0 if step == 1 else step // 2
    return step if factor == 2 else 2 * step
