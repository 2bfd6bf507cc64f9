"""What probes see, and what it comes to."""

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from spindle.api.enums import DiskVerdict
from spindle.disks.classify import FLAPPING, HOLD_SECONDS, DiskTracker, Judged, resume, step
from spindle.disks.findings import RULES, ProbeSettings
from spindle.disks.signals import Latency, Probe, Signals, compare
from spindle.model import disk_facts

F = "0a1b2c3d-0000-4000-8000-00000000000f"
G = "0a1b2c3d-0000-4000-8000-000000000010"
GOOD = Signals(
    directory_id="d",
    mounted=True,
    fs_uuid=F,
    recorded_fs_uuid=F,
    read_only=False,
    probe=Probe.ok(),
    kafka_error=0,
    capacity_bytes=1000,
    used_bytes=10,
    content=disk_facts.OURS,
)
EIO = replace(GOOD, probe=Probe.error(errno.EIO, "fsync", "Input/output error"))
FULL = replace(GOOD, probe=Probe.error(errno.ENOSPC, "write"))
OFFLINE = replace(GOOD, kafka_error=56)
SLOW = replace(GOOD, latency=Latency(400.0, 4.0, far=True))
BLIND = replace(GOOD, mounted=None, read_only=None, probe=Probe(), kafka_error=None)


class Disk:
    """A disk that is watched; a round every two seconds."""

    def __init__(self, watch: DiskTracker | None = None, at: float = 1000.0) -> None:
        self.watch = watch or DiskTracker()
        self.now = at
        self.tuning = ProbeSettings()
        self.changes: list[tuple[float, str, str]] = []

    def see(self, signals: Signals) -> bool:
        """One round, and at once another one if it is asked for."""
        made = step(self.watch, signals, self.now, self.tuning)
        if made.again:
            made = step(made.watch, signals, self.now, self.tuning)
        before, self.watch = self.watch.judged, made.watch
        after = self.watch.judged
        if after is not None and (before is None or before.verdict is not after.verdict):
            self.changes.append((self.now, str(after.verdict), after.reason))
        return made.again

    def during(self, seconds: float, signals: Signals | Callable[[float], Signals]) -> "Disk":
        end = self.now + seconds
        while self.now < end:
            self.see(signals(self.now) if callable(signals) else signals)
            self.now += self.tuning.interval
        return self

    @property
    def said(self) -> tuple[str, str]:
        assert self.watch.judged is not None
        return str(self.watch.judged.verdict), self.watch.judged.reason


def hangs(since: float, quiet: float | None = 60.0) -> Signals:
    return replace(GOOD, probe=Probe.pending(since, "fsync"), latency=Latency(quiet=quiet))


def test_a_good_disk_is_healthy_from_the_first_round() -> None:
    assert Disk().during(2, GOOD).said == ("Healthy", "")


def test_nothing_is_said_before_something_was_seen() -> None:
    disk = Disk().during(20, BLIND)
    assert disk.watch.judged is None
    assert disk.during(2, hangs(disk.now)).watch.judged is None


@pytest.mark.parametrize(
    ("signals", "said"),
    [
        pytest.param(EIO, ("Failed", "ProbeError"), id="io-error"),
        pytest.param(replace(GOOD, probe=Probe.wrong()), ("Failed", "WrongData"), id="wrong-data"),
        pytest.param(replace(GOOD, read_only=True), ("Failed", "ReadOnly"), id="read-only"),
        pytest.param(
            replace(GOOD, probe=Probe.error(errno.EROFS, "write")), ("Failed", "ReadOnly"), id="erofs"
        ),
        pytest.param(replace(GOOD, mounted=False), ("Missing", "NotMounted"), id="missing"),
        pytest.param(replace(GOOD, fs_uuid=G), ("Swapped", "OtherFileSystem"), id="other-file-system"),
        pytest.param(
            replace(GOOD, content=disk_facts.FOREIGN, content_reason="it names another cluster"),
            ("Swapped", "ForeignContent"),
            id="foreign",
        ),
        pytest.param(OFFLINE, ("Failed", "LogDirOffline"), id="kafka-gave-up"),
        pytest.param(replace(FULL, kafka_error=56), ("Failed", "OfflineFull"), id="full-and-given-up"),
        pytest.param(replace(OFFLINE, used_bytes=990), ("Failed", "OfflineFull"), id="nearly-full"),
        pytest.param(FULL, ("Suspect", "Full"), id="full"),
        pytest.param(
            replace(GOOD, probe=Probe.error(errno.EACCES, "write")),
            ("Suspect", "NotPermitted"),
            id="not-permitted",
        ),
        pytest.param(
            replace(GOOD, probe=Probe.error(errno.EMFILE, "write")), ("Healthy", ""), id="our-own-trouble"
        ),
        pytest.param(BLIND, ("Healthy", ""), id="nothing-seen"),
        pytest.param(
            replace(OFFLINE, mode=disk_facts.PLACEHOLDER), ("Healthy", ""), id="offline-by-its-placeholder"
        ),
        pytest.param(
            replace(OFFLINE, content=disk_facts.BLANK, recorded_fs_uuid=None),
            ("Healthy", ""),
            id="not-yet-in-use",
        ),
        pytest.param(
            replace(GOOD, fs_uuid=G, mode=disk_facts.ABSENT, content=disk_facts.BLANK),
            ("Healthy", ""),
            id="new-disk-in-a-slot-that-waits",
        ),
        pytest.param(replace(GOOD, fs_uuid=None), ("Healthy", ""), id="no-uuid-to-be-had"),
    ],
)
def test_one_round_and_its_confirmation(signals: Signals, said: tuple[str, str]) -> None:
    assert Disk().during(4, GOOD).during(2, signals).said == said


def test_an_error_that_is_not_confirmed_is_suspect_and_passes() -> None:
    disk = Disk().during(4, GOOD)
    made = step(disk.watch, EIO, disk.now, disk.tuning)
    assert made.again
    disk.watch = step(made.watch, GOOD, disk.now, disk.tuning).watch
    assert disk.said == ("Suspect", "ProbeError")
    disk.now += 2
    assert disk.during(40, GOOD).said == ("Healthy", "")


def test_an_error_told_again_is_no_confirmation() -> None:
    disk = Disk().during(4, GOOD)
    first = replace(GOOD, probe=Probe.error(errno.EIO, "write", at=disk.now))
    assert step(disk.watch, first, disk.now, disk.tuning).again
    disk.during(10, first)
    assert disk.said == ("Suspect", "ProbeError")
    disk.see(replace(GOOD, probe=Probe.error(errno.EIO, "write", at=disk.now)))
    assert disk.said == ("Failed", "ProbeError")


def test_errors_that_are_never_confirmed_add_up() -> None:
    disk = Disk().during(4, GOOD)
    for _ in range(3):
        disk.watch = step(disk.watch, EIO, disk.now, disk.tuning).watch
        disk.watch = step(disk.watch, GOOD, disk.now, disk.tuning).watch
        disk.now += 6
    assert disk.said == ("Failed", "ProbeError")


def test_a_disk_that_does_not_answer_is_suspect_then_hung() -> None:
    disk = Disk().during(10, GOOD)
    froze = disk.now
    disk.during(60, hangs(froze))
    assert [(at - froze, *said) for at, *said in disk.changes[1:]] == [
        (6.0, "Suspect", "NotAnswering"),
        (10.0, "Failed", "IOHung"),
    ]
    disk.during(28, GOOD)
    assert disk.said == ("Failed", "IOHung")
    assert disk.during(6, GOOD).said == ("Healthy", "")


@pytest.mark.parametrize(
    ("quiet", "after"),
    [
        pytest.param(60.0, 10.0, id="nobody-writes"),
        pytest.param(5.0, 10.0, id="nobody-since-a-while"),
        pytest.param(4.9, 30.0, id="others-write"),
        pytest.param(0.0, 30.0, id="others-write-now"),
        pytest.param(None, 16.0, id="not-known"),
    ],
)
def test_a_device_that_finishes_writes_is_slow_not_hung(quiet: float | None, after: float) -> None:
    disk = Disk().during(10, GOOD)
    froze = disk.now
    disk.during(60, hangs(froze, quiet))
    assert [(at - froze, *said) for at, *said in disk.changes[1:]] == [
        (6.0, "Suspect", "NotAnswering"),
        (after, "Failed", "IOHung"),
    ]


def test_a_hang_that_begins_behind_others_writes_is_told_no_later_than_half_of_the_time_after() -> None:
    disk = Disk().during(10, GOOD)
    froze = disk.now
    disk.during(60, lambda now: hangs(froze, max(0.0, now - froze - 9.0)))
    assert disk.changes[-1] == (froze + 14.0, "Failed", "IOHung")


def test_time_in_which_we_stood_still_does_not_count() -> None:
    disk = Disk().during(4, GOOD)
    froze = disk.now
    disk.now += 100
    disk.see(hangs(froze))
    assert disk.said == ("Healthy", "")
    disk.now += 2
    assert disk.during(12, hangs(froze)).said == ("Failed", "IOHung")


def test_slow_writes_that_end_are_no_hung_disk() -> None:
    disk = Disk().during(4, GOOD)
    for _ in range(20):
        disk.during(4, hangs(disk.now)).during(2, GOOD)
    assert disk.said == ("Healthy", "")
    assert len(disk.changes) == 1


def test_slow_needs_to_last_and_leaves_late() -> None:
    disk = Disk().during(4, GOOD)
    began = disk.now
    disk.during(100, SLOW)
    assert [(at - began, *said) for at, *said in disk.changes[1:]] == [
        (16.0, "Suspect", "SlowDevice"),
        (60.0, "Slow", "SlowDevice"),
    ]
    assert disk.during(100, GOOD).said == ("Slow", "SlowDevice")
    assert disk.during(40, GOOD).said == ("Healthy", "")


def test_what_kafka_said_stands_while_it_cannot_be_asked() -> None:
    disk = Disk().during(4, GOOD).during(10, OFFLINE)
    assert disk.during(300, replace(GOOD, kafka_error=None)).said == ("Failed", "LogDirOffline")
    assert disk.during(8, GOOD).said == ("Healthy", "")


def test_a_disk_that_fills_up_after_kafka_took_it_offline_is_full_also_while_kafka_is_down() -> None:
    disk = Disk().during(4, OFFLINE)
    assert disk.said == ("Failed", "LogDirOffline")
    assert disk.during(20, replace(FULL, kafka_error=None)).said == ("Failed", "OfflineFull")
    assert disk.during(300, replace(GOOD, kafka_error=None)).said == ("Failed", "OfflineFull")
    assert disk.during(20, GOOD).said == ("Healthy", "")


def test_odd_is_not_well() -> None:
    disk = Disk().during(4, GOOD).during(4, EIO)
    assert disk.during(120, FULL).said == ("Failed", "ProbeError")


def test_a_full_disk_that_is_put_back_is_not_swapped_any_more() -> None:
    disk = Disk().during(4, FULL).during(20, replace(GOOD, fs_uuid=G))
    assert disk.said == ("Swapped", "OtherFileSystem")
    assert disk.during(60, FULL).said == ("Suspect", "Full")


def test_unseen_rounds_neither_heal_nor_harm() -> None:
    disk = Disk().during(4, GOOD).during(4, EIO).during(20, GOOD).during(60, BLIND)
    assert disk.said == ("Failed", "ProbeError")
    assert disk.during(28, GOOD).said == ("Failed", "ProbeError")
    assert disk.during(6, GOOD).said == ("Healthy", "")


def test_a_flapping_disk_ends_in_one_verdict() -> None:
    disk = Disk().during(4, GOOD)
    for _ in range(20):
        disk.during(4, EIO).during(40, GOOD)
    assert disk.said == ("Failed", FLAPPING)
    assert [said for _, *said in disk.changes] == [
        ["Healthy", ""],
        ["Failed", "ProbeError"],
        ["Healthy", ""],
        ["Failed", "ProbeError"],
        ["Healthy", ""],
        ["Failed", FLAPPING],
    ]
    disk.during(HOLD_SECONDS - 60, GOOD)
    assert disk.said == ("Failed", FLAPPING)
    assert disk.during(70, GOOD).said == ("Healthy", "")


def test_a_disk_between_two_kinds_of_bad_ends_in_one_verdict() -> None:
    disk = Disk().during(4, GOOD)
    for _ in range(30):
        disk.during(4, EIO).during(4, replace(GOOD, mounted=False))
    assert disk.said == ("Failed", FLAPPING)
    assert len(disk.changes) < 14


def test_a_disk_exchanged_twice_by_hand_is_no_flapping_one() -> None:
    disk, pulled, other = Disk().during(4, GOOD), replace(GOOD, mounted=False), replace(GOOD, fs_uuid=G)
    for _ in range(2):
        disk.during(20, EIO).during(20, pulled).during(20, other).during(20, pulled).during(20, OFFLINE)
        assert disk.during(60, GOOD).said == ("Healthy", "")


def test_pulled_after_it_died_is_missing() -> None:
    disk = Disk().during(4, EIO).during(10, replace(GOOD, mounted=False))
    assert disk.said == ("Missing", "NotMounted")


def test_a_new_reason_of_the_same_kind_is_told_when_it_lasts() -> None:
    disk = Disk().during(4, GOOD).during(10, EIO)
    since = disk.watch.judged and disk.watch.judged.since
    disk.during(4, replace(GOOD, read_only=True))
    assert disk.said == ("Failed", "ProbeError")
    disk.during(12, replace(GOOD, read_only=True))
    assert disk.said == ("Failed", "ReadOnly")
    assert disk.watch.judged is not None
    assert disk.watch.judged.since == since


def test_a_new_directory_id_begins_a_new_life() -> None:
    disk = Disk().during(4, GOOD)
    for _ in range(4):
        disk.during(4, EIO).during(40, GOOD)
    assert disk.said == ("Failed", FLAPPING)
    assert disk.during(2, replace(GOOD, directory_id="e")).said == ("Healthy", "")


WAITS = replace(EIO, mode=disk_facts.ABSENT, kafka_error=None)
NEW = replace(WAITS, fs_uuid=G, probe=Probe.ok(), content=disk_facts.BLANK)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(WAITS, id="the-dead-disk-answers-with-errors"),
        pytest.param(replace(WAITS, mounted=None, fs_uuid=None), id="the-dead-disk-cannot-be-read"),
        pytest.param(replace(WAITS, mounted=False, fs_uuid=None), id="the-dead-disk-is-pulled"),
    ],
)
def test_another_disk_in_a_slot_that_waits_for_one_is_judged_by_itself(before: Signals) -> None:
    disk = Disk().during(4, EIO).during(40, before)
    assert disk.said[0] != "Healthy"
    assert disk.during(2, NEW).said == ("Healthy", "")
    assert disk.during(4, replace(NEW, probe=EIO.probe)).said == ("Failed", "ProbeError")
    assert disk.during(20, NEW).said == ("Failed", "ProbeError")


def test_the_recorded_disk_that_returns_must_stay_healthy_first() -> None:
    disk = Disk().during(4, EIO).during(20, WAITS).during(2, NEW).during(4, WAITS)
    assert disk.said == ("Failed", "ProbeError")
    assert disk.during(20, replace(WAITS, probe=Probe.ok())).said == ("Failed", "ProbeError")


def test_a_restart_in_a_slot_that_waits_goes_on_from_what_was_reported() -> None:
    disk = Disk(resume(NEW.life, Judged(DiskVerdict.FAILED, "IOHung", "x", 900.0)))
    assert disk.during(20, NEW).said[0] == "Failed"


@pytest.mark.parametrize(
    ("earlier", "after_well"),
    [
        pytest.param(Judged(DiskVerdict.FAILED, "IOHung", "x", 900.0), 34, id="hung"),
        pytest.param(Judged(DiskVerdict.MISSING, "NotMounted", "x", 900.0), 34, id="missing"),
        pytest.param(Judged(DiskVerdict.SLOW, "SlowDevice", "x", 900.0), 124, id="slow"),
        pytest.param(Judged(DiskVerdict.SUSPECT, "Full", "x", 900.0), 14, id="suspect"),
        pytest.param(Judged(DiskVerdict.FAILED, "OfANewerVersion", "x", 900.0), 34, id="unknown-reason"),
        pytest.param(Judged(DiskVerdict.FAILED, FLAPPING, "x", 900.0), HOLD_SECONDS + 4, id="flapping"),
        pytest.param(Judged(DiskVerdict.HEALTHY, "", "", 900.0), 2, id="healthy"),
    ],
)
def test_a_restart_goes_on_from_what_was_reported(earlier: Judged, after_well: float) -> None:
    disk = Disk(resume(GOOD.life, earlier))
    assert disk.watch.judged == earlier
    disk.see(BLIND)
    assert disk.watch.judged == earlier
    disk.during(after_well - 12, GOOD)
    assert disk.said[0] == earlier.verdict
    assert disk.during(14, GOOD).said == ("Healthy", "")


@pytest.mark.parametrize(
    ("mean", "slow", "far"),
    [
        pytest.param({"a": 5.0, "b": 4.0, "c": 400.0}, (), {"c"}, id="one-of-three"),
        pytest.param({"a": 5.0, "b": 400.0}, (), {"b"}, id="one-of-two"),
        pytest.param({"a": 400.0}, (), set(), id="no-peers"),
        pytest.param({"a": 400.0, "b": None}, (), set(), id="idle-peer"),
        pytest.param({"a": 300.0, "b": 400.0, "c": 500.0}, (), set(), id="all-slow"),
        pytest.param({"a": 0.5, "b": 0.4, "c": 20.0}, (), set(), id="nobody-feels-it"),
        pytest.param({"a": 1.0, "b": 1.0, "c": 1.0, "d": 90.0, "e": 90.0}, (), set(), id="too-many-at-once"),
        pytest.param({"a": 10.0, "b": 10.0, "c": 40.0}, (), set(), id="near-enough"),
        pytest.param({"a": 10.0, "b": 10.0, "c": 40.0}, ("c",), {"c"}, id="slow-before"),
        pytest.param({"a": 10.0, "b": 10.0, "c": 20.0}, ("c",), set(), id="near-again"),
    ],
)
def test_far_from_its_peers(mean: dict[str, float | None], slow: tuple[str, ...], far: set[str]) -> None:
    assert {device for device, latency in compare(mean, slow).items() if latency.far} == far


def test_every_finding_has_a_meaning_for_the_manual() -> None:
    for reason, rule in RULES.items():
        assert reason.isalnum()
        assert rule.meaning.endswith((".",)) is False
        assert rule.leave > 0
        assert rule.rounds in (1, 2)
